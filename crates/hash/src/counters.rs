//! Counters and statistics of one hash keyspace.

use ecotone_engine::contract::Stats;
use ecotone_substrate::metrics::Counter;

use super::{Hash, log::FRAME};

/// Events since the keyspace was opened.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Compactions: regions at the beginning of the hot log that became a delta, or had no live record.
    pub(super) compactions: Counter,
    /// Merges of deltas into the base run of a partition.
    pub(super) base_merges: Counter,
    /// Merges of adjacent deltas into one.
    pub(super) delta_merges: Counter,
    /// Records that compaction appended once more, since they were changed in place.
    pub(super) kept: Counter,
    /// Frames of the read cache that were evicted.
    pub(super) evictions: Counter,
    /// Times that frames of the hot log had to be written to free memory, since compaction was behind.
    pub(super) evictions_forced: Counter,
    /// Background steps that were postponed for lack of memory or disk space.
    pub(super) postponed: Counter,
}

impl Hash {
    /// The statistics that `stats` returns.
    pub(super) fn stats(&self) -> Stats {
        let (bounds, tail, runs) = (self.log.bounds(), self.log.tail().get(), self.cold.runs());
        let below_tail = |from: u64| tail - from.min(tail);
        vec![
            ("hot_log_bytes", below_tail(bounds.begin().get())),
            ("hot_log_memory_bytes", below_tail(bounds.head().get())),
            ("hot_log_durable_bytes", bounds.durable().get() - bounds.begin().get().min(bounds.durable().get())),
            ("index_buckets", self.table.buckets()),
            ("index_doublings", self.table.doublings()),
            ("index_entries", self.table.entries()),
            ("hot_log_limit_bytes", self.memory_share.hot() * FRAME),
            ("read_cache_limit_bytes", self.memory_share.copies() * FRAME),
            ("read_cache_bytes", self.read_cache.frames() * FRAME),
            ("read_cache_evictions", self.counts.evictions.get()),
            ("partitions", runs.partitions().count() as u64),
            ("deltas", runs.deltas().len() as u64),
            ("base_bytes", runs.base_bytes()),
            ("delta_bytes", runs.delta_bytes()),
            ("base_records", runs.base_records()),
            ("delta_records", runs.delta_records()),
            ("cold_index_bytes", runs.index_bytes()),
            ("compactions", self.counts.compactions.get()),
            ("base_merges", self.counts.base_merges.get()),
            ("delta_merges", self.counts.delta_merges.get()),
            ("records_moved_to_tail", self.counts.kept.get()),
            ("forced_evictions", self.counts.evictions_forced.get()),
            ("work_postponed", self.counts.postponed.get()),
        ]
    }
}
