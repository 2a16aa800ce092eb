//! Retries of background work that failed for lack of space or memory: not with every write, and not never.

use std::time::Duration;

use ecotone_sys::primitive::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;

/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// Whether some work has failed lately.
#[derive(Debug, Default)]
pub struct Retry {
    /// When the work may be tried again, in nanoseconds of the clock; 0 if it has not failed.
    next: AtomicU64,
}

impl Retry {
    /// The work succeeded, or there was nothing to do.
    pub fn succeeded(&self) {
        if self.has_failed() {
            self.next.store(0, Ordering::Relaxed);
        }
    }

    /// The work failed.
    pub fn failed(&self, clock: &dyn Clock) {
        self.next.store(clock.now().saturating_add(PAUSE.as_nanos() as u64).max(1), Ordering::Relaxed);
    }

    /// Whether the last try failed. Then no thread waits for its effect.
    pub fn has_failed(&self) -> bool {
        self.next.load(Ordering::Relaxed) > 0
    }

    /// Whether the work may be tried now.
    pub fn is_due(&self, clock: &dyn Clock) -> bool {
        match self.next.load(Ordering::Relaxed) {
            0 => true,
            next => clock.now() >= next,
        }
    }
}
