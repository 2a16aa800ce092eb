//! Statistics of one hash keyspace.

use ecotone_engine::contract::Stats;

use super::{Hash, chains::Chains, log::FRAME};

/// The statistics that `stats` returns.
pub(super) fn stats(hash: &Hash) -> Stats {
    let Chains { log, index, read_cache, memory_share, .. } = &hash.chains;
    let (bounds, tail, runs) = (log.bounds(), log.tail().get(), hash.cold.runs());
    let below_tail = |from: u64| tail - from.min(tail);
    vec![
        ("hot_log_bytes", below_tail(bounds.begin().get())),
        ("hot_log_memory_bytes", below_tail(bounds.head().get())),
        ("hot_log_durable_bytes", bounds.durable().get() - bounds.begin().get().min(bounds.durable().get())),
        ("index_buckets", index.buckets()),
        ("index_doublings", index.doublings()),
        ("index_entries", index.entries()),
        ("hot_log_limit_bytes", memory_share.hot() * FRAME),
        ("read_cache_limit_bytes", memory_share.copies() * FRAME),
        ("read_cache_bytes", read_cache.frames() * FRAME),
        ("read_cache_evictions", read_cache.evictions.get()),
        ("partitions", runs.partitions().count() as u64),
        ("deltas", runs.deltas().len() as u64),
        ("base_bytes", runs.base_bytes()),
        ("delta_bytes", runs.delta_bytes()),
        ("base_records", runs.base_records()),
        ("delta_records", runs.delta_records()),
        ("cold_index_bytes", runs.index_bytes()),
        ("compactions", hash.counts.compactions.get()),
        ("base_merges", hash.counts.base_merges.get()),
        ("delta_merges", hash.counts.delta_merges.get()),
        ("records_moved_to_tail", hash.counts.kept.get()),
        ("forced_evictions", hash.reservations.forced_evictions.get()),
        ("work_postponed", hash.counts.postponed.get()),
    ]
}
