//! Disk shortage: reserves the disk space that compaction needs to go on, and refuses writes that would take it. On a
//! full disk, deletes and overwrites give space back by compaction alone (compaction-pace.md, "Disk shortage").

use std::time::Duration;

use ecotone_sys::primitive::atomic::{AtomicU64, Ordering};

use crate::{
    cache::table_reader::TableReader,
    tuning::Tuning,
    version::{TableMeta, Version},
};

/// Tables of space for a slice of a compaction, and for log segments meanwhile: the table that it replaces, the records
/// that are merged into it, and as much again.
const TABLES: u64 = 3;
/// Longest time that a writer waits for compaction to free space, and the time between two checks.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(5);
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How long a shortage lasts before writes are refused because no compaction runs. Until then, obsolete tables may go
/// when the log is synced, and a job that found no memory is tried again.
const GRACE: Duration = Duration::from_millis(500);
/// What space is wanting for, in the text of the error.
pub(crate) const WHAT: &str = "tables, of which compaction makes others";

/// The shortage of space at the last check.
#[derive(Debug, Default)]
pub(crate) struct DiskShortage {
    bytes: AtomicU64,
    /// When the shortage began, in nanoseconds of the clock.
    since: AtomicU64,
}

impl DiskShortage {
    /// The missing bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether there is a shortage.
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        self.bytes() > 0
    }

    pub(crate) fn set(&self, bytes: u64, now: u64) {
        if bytes > 0 && !self.is_there() {
            self.since.store(now, Ordering::Relaxed);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether the shortage has lasted for [`GRACE`].
    pub(crate) fn is_old(&self, now: u64) -> bool {
        now.saturating_sub(self.since.load(Ordering::Relaxed)) >= GRACE.as_nanos() as u64
    }
}

/// The space that flushes and compactions of a keyspace need to go on.
pub(crate) fn space_to_go_on(version: &Version<TableReader>, tuning: Tuning, memtables: u64) -> u64 {
    let tables = version.tables().map(|reader| reader.bytes()).sum();
    needed(tables, (TABLES * tuning.table).saturating_add(tuning.l0_target), memtables)
}

/// Bytes for a compaction in slices, whose records of L0 are there twice until it ends, and for the memtables. A
/// compaction takes no more bytes than all tables have.
fn needed(tables: u64, job: u64, memtables: u64) -> u64 {
    tables.min(job) + memtables
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_as_old_as_it_lasts() {
        let (shortage, grace) = (DiskShortage::default(), GRACE.as_nanos() as u64);
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
