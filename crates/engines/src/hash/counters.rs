//! Numbers of one hash keyspace.

use ecotone_substrate::metrics::Counter;

use super::{Hash, log::FRAME};
use crate::engine::Stats;

/// What was done since the keyspace was opened.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Deltas that were made of the beginning of the hot log, or found to have nothing that lives.
    pub(super) compactions: Counter,
    /// Partitions that were folded.
    pub(super) folds: Counter,
    /// Times that some deltas became one.
    pub(super) merges: Counter,
    /// Records that compaction came to and that were appended once more, since they were changed in place.
    pub(super) kept: Counter,
    /// Frames of copies that were evicted.
    pub(super) evictions: Counter,
    /// Times that frames of the hot log had to be written to make room, since compaction was behind.
    pub(super) spills: Counter,
    /// Work in the background that was put off, since memory or space on the disk was wanting.
    pub(super) postponed: Counter,
}

impl Hash {
    /// What `stats` tells.
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
            ("hot_log_limit_bytes", self.part.hot() * FRAME),
            ("read_cache_limit_bytes", self.part.copies() * FRAME),
            ("read_cache_bytes", self.copies.frames() * FRAME),
            ("read_cache_evictions", self.counts.evictions.get()),
            ("partitions", runs.partitions().count() as u64),
            ("deltas", runs.deltas().len() as u64),
            ("base_bytes", runs.base_bytes()),
            ("delta_bytes", runs.delta_bytes()),
            ("base_records", runs.base_records()),
            ("delta_records", runs.delta_records()),
            ("cold_index_bytes", runs.index_bytes()),
            ("compactions", self.counts.compactions.get()),
            ("folds", self.counts.folds.get()),
            ("merges", self.counts.merges.get()),
            ("records_kept", self.counts.kept.get()),
            ("spills", self.counts.spills.get()),
            ("work_postponed", self.counts.postponed.get()),
        ]
    }
}
