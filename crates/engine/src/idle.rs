//! Detects whether a keyspace or a database is in use. A counter of uses is compared about once a second.

use ecotone_sys::primitive::{Mutex, unless_shuttle};

/// Ticks of the scheduler (about seconds) without any use after which it is idle: a caller that returns after a short
/// pause finds no job under way.
const TICKS: u32 = 10;

/// Counts the ticks since the last use.
#[derive(Debug)]
pub struct IdleDetector<U>(Mutex<Since<U>>);

#[derive(Debug, Default)]
struct Since<U> {
    /// The use counter at the last tick.
    used: U,
    ticks: u32,
}

impl<U: Default> Default for IdleDetector<U> {
    fn default() -> IdleDetector<U> {
        IdleDetector(Mutex::new(Since::default()))
    }
}

/// Garbage bytes that files may always keep, beside a share of the live bytes.
pub const MIN_GARBAGE_BYTES: u64 = 4 << 20;
/// Tombstones up to this number are ignored.
pub const MIN_TOMBSTONES: u64 = unless_shuttle(1024, 4);

/// Whether files of `bytes` hold so much garbage that idle time should remove it: more than two fifths of them plus
/// `little`. Files then stay below twice the live bytes.
pub fn has_excess_garbage(bytes: u64, hidden: u64, little: u64) -> bool {
    hidden > bytes / 5 * 2 + little
}

impl<U: PartialEq> IdleDetector<U> {
    /// Restarts the wait: for a use that the counter does not show, or to retry idle work that failed.
    pub fn reset(&self) {
        self.0.lock().ticks = 0;
    }

    /// Whether there was no use for the whole wait.
    pub fn is_idle(&self) -> bool {
        self.0.lock().ticks == TICKS
    }

    /// Called once a tick with the current use counter.
    pub fn tick(&self, used: U) {
        let mut since = self.0.lock();
        since.ticks = if since.used == used { (since.ticks + 1).min(TICKS) } else { 0 };
        since.used = used;
    }
}
