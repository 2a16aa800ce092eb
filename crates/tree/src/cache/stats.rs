//! The statistics of a record cache.

use std::ops::AddAssign;

/// Counters of a cache since it was created, and its current size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CacheStats {
    /// Gets that found a record or a tombstone.
    pub(crate) hits: u64,
    /// Hits that found a tombstone.
    pub(crate) hits_on_tombstones: u64,
    /// Hits that found a record or tombstone that was not in its page yet.
    pub(crate) hits_on_dirty: u64,
    /// Gets that found nothing.
    pub(crate) misses: u64,
    /// Records evicted.
    pub(crate) evictions: u64,
    /// Clean records that were admitted.
    pub(crate) admitted: u64,
    /// Clean records that were not admitted: overtaken by a write, already present, or no memory.
    pub(crate) refused: u64,
    /// Slabs that were emptied for another use.
    pub(crate) slabs_moved: u64,
    /// Current records, tombstones included.
    pub(crate) records: usize,
    /// Current records that are dirty or being written.
    pub(crate) dirty_records: usize,
    /// Bytes leased for records, tables and indexes.
    pub(crate) bytes: usize,
}

impl CacheStats {
    /// The numbers as statistics show them.
    pub(super) fn named(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("cache_hits", self.hits),
            ("cache_hits_on_tombstones", self.hits_on_tombstones),
            ("cache_hits_on_dirty", self.hits_on_dirty),
            ("cache_misses", self.misses),
            ("cache_admitted", self.admitted),
            ("cache_evictions", self.evictions),
            ("cache_refused", self.refused),
            ("cache_slabs_moved", self.slabs_moved),
            ("cache_records", self.records as u64),
            ("cache_dirty_records", self.dirty_records as u64),
            ("cache_bytes", self.bytes as u64),
        ]
    }
}

impl AddAssign for CacheStats {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.hits_on_tombstones += other.hits_on_tombstones;
        self.hits_on_dirty += other.hits_on_dirty;
        self.misses += other.misses;
        self.admitted += other.admitted;
        self.evictions += other.evictions;
        self.refused += other.refused;
        self.slabs_moved += other.slabs_moved;
        self.records += other.records;
        self.dirty_records += other.dirty_records;
        self.bytes += other.bytes;
    }
}
