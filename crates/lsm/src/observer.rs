//! The interface of the adaptation policy. A keyspace reports its scans and flushes to a [`ScanObserver`], which knows
//! what is hot and decides where records belong (adaptive.md, "Scan statistics"). A keyspace of the lsm engine has
//! none.

use std::fmt;

use crate::pages::tier::RangeSize;

/// What one scan read in a range of keys, or a part of it. The observer judges by this where pages pay off
/// (adaptive.md, "Scan statistics").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanReport<'p> {
    /// The lowest key that the scan read there, about.
    pub from: &'p [u8],
    /// Records that the scan returned.
    pub records: u64,
    /// Older records of the same keys that it passed over.
    pub hidden: u64,
    /// Disk requests for the oldest run or level, if the range has no pages.
    pub main: u64,
    /// Runs and levels besides the one that the scan read most of, or besides the pages.
    pub sources: u64,
    /// Disk requests for these.
    pub reads: u64,
}

/// A paged range in which no table is visible, so that a flush may write its records to pages. `range_size` counts the
/// records of the memtable in place of tables.
#[derive(Debug)]
pub struct FlushCandidate {
    /// Its first key.
    pub lower: Vec<u8>,
    /// The key behind its last one.
    pub upper: Vec<u8>,
    /// What it has of records.
    pub range_size: RangeSize,
}

/// Observes how a keyspace is scanned, and chooses by that what flushes do.
pub trait ScanObserver: fmt::Debug + Send + Sync {
    /// A scan has read a range of keys.
    fn on_scan(&self, report: &ScanReport<'_>);
    /// About a second has passed. `is_idle` tells whether the keyspace was unused for some time.
    fn on_tick(&self, is_idle: bool);
    /// Chooses the ranges, of these ascending ones, whose records the flush writes to pages at once; those of the
    /// others go into a run. Called at every flush, even without candidates.
    fn select_for_pages(&self, flush_candidates: Vec<FlushCandidate>) -> Vec<FlushCandidate>;
    /// Whether flushes to pages are given up while memtables wait.
    fn yields_to_writers(&self) -> bool;
    /// The bounds of the hot ranges, ascending: keys between which scans behave differently than beside them. Tables of
    /// L0 end there.
    fn hot_bounds(&self) -> Vec<Vec<u8>>;
}
