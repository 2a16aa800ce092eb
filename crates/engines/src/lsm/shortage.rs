//! The space of the disk that compaction needs to go on, which writers may not take: who deletes or overwrites on a
//! full disk gets space back by it alone (decision 11, "A full disk").

use std::{sync::Arc, time::Duration};

use ecotone_substrate::{Error, Result};
use ecotone_sys::primitive::atomic::{AtomicU64, Ordering};

use super::{
    handle::Handle,
    records::Lsm,
    version::{Ranged, Version},
};
use crate::delay::Delay;

/// Tables that a slice of a job takes, and segments of the log meanwhile: one that it replaces, what comes to it, and
/// as much again.
const TABLES: u64 = 3;
/// How long a writer waits at most for what compaction gives back, and how often he looks for it.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How long space has been wanting before it counts that nobody compacts: what a job has left goes when the log is
/// synced, and a job that found no memory is tried again.
const GRACE: Duration = Duration::from_millis(500);
/// What the error calls what space is wanting for.
const WHAT: &str = "tables, of which compaction makes others";

/// How much space was wanting when that was looked for last.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    bytes: AtomicU64,
    /// Since when any is, in nanoseconds of the clock.
    since: AtomicU64,
}

impl Shortage {
    /// How much.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether any was.
    #[inline]
    pub(super) fn is_there(&self) -> bool {
        self.bytes() > 0
    }

    fn set(&self, bytes: u64, now: u64) {
        if bytes > 0 && !self.is_there() {
            self.since.store(now, Ordering::Relaxed);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether it has lasted for long.
    fn is_old(&self, now: u64) -> bool {
        now.saturating_sub(self.since.load(Ordering::Relaxed)) >= GRACE.as_nanos() as u64
    }
}

impl Lsm {
    /// Finds out whether the disk has the space that flushes and compaction need to go on.
    pub(super) fn look_for_space(&self, version: &Version<Handle>) {
        let tables = version.tables().map(|handle| handle.bytes()).sum();
        let job = (TABLES * self.sizes.table).saturating_add(self.sizes.level_0);
        let needed = needed(tables, job, self.memtable_bytes() as u64);
        // Who cannot tell how much there is finds out by writing.
        let free = self.files.environment().storage.free_space().unwrap_or(u64::MAX);
        self.shortage.set(needed.saturating_sub(free), self.files.context().shared.clock.now());
    }

    /// Refuses what adds something, as long as space is wanting. Compaction, which may give some back, is asked for,
    /// and waited for a little while it is at work.
    ///
    /// # Errors
    /// [`NoSpace`](Error::NoSpace).
    #[inline]
    pub(super) fn check_space(self: &Arc<Self>) -> Result<()> {
        if self.shortage.is_there() { self.wait_for_space() } else { Ok(()) }
    }

    #[cold]
    fn wait_for_space(self: &Arc<Self>) -> Result<()> {
        let clock = &*self.files.context().shared.clock;
        let end = clock.now().saturating_add(PATIENCE.as_nanos() as u64);
        let mut delay = Delay::new(&self.delays, clock);
        loop {
            let is_compacted = self.is_compacted();
            self.look_for_space(&self.version());
            let wanted = self.shortage.bytes();
            if wanted == 0 {
                return Ok(());
            }
            let now = clock.now();
            let is_vain = !is_compacted && self.shortage.is_old(now);
            if is_vain || !self.files.environment().scheduler.is_threaded() || now >= end {
                return Err(Error::NoSpace { file: WHAT.to_owned(), wanted });
            }
            delay.sleep(LOOK_AGAIN);
        }
    }
}

/// Bytes for a job in slices, whose records of level 0 are there twice until it ends, and for what waits in memtables.
/// Where there are few tables, no job has more.
fn needed(tables: u64, job: u64, memtables: u64) -> u64 {
    tables.min(job) + memtables
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_as_old_as_it_lasts() {
        let (shortage, grace) = (Shortage::default(), GRACE.as_nanos() as u64);
        shortage.set(1, 10);
        shortage.set(2, 20);
        assert!(shortage.is_there() && !shortage.is_old(9 + grace) && shortage.is_old(10 + grace));
        shortage.set(0, 30);
        shortage.set(1, 40);
        assert!(!shortage.is_old(39 + grace) && shortage.is_old(40 + grace));
    }

    #[test]
    fn a_small_keyspace_needs_little() {
        assert_eq!(
            [(0, 0), (100, 20), (5000, 300)].map(|(tables, memtables)| needed(tables, 1600, memtables)),
            [0, 120, 1900]
        );
    }
}
