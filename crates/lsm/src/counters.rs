//! Statistics of one LSM keyspace.

use ecotone_engine::{contract::Stats, record_cache::RecordCache, write_delay};

use crate::{cache::table_reader::TableReader, store::Lsm};

/// The statistics by name.
pub(super) fn stats(lsm: &Lsm) -> Stats {
    let super_version = lsm.current.get();
    let (runs, levels) = super_version.version.runs().partition::<Vec<_>, _>(|(run_id, _)| run_id.is_l0());
    let sum = |of: fn(&TableReader) -> u64| super_version.version.tables().map(|reader| of(reader)).sum();
    let memtable_bytes: usize = super_version.memtables.iter().map(|memtable_ref| memtable_ref.memtable.bytes()).sum();
    let [pages, bytes, hits, misses] = lsm.files.loader().cache().blocks().counts();
    let mut stats = vec![
        ("memtables", super_version.memtables.len() as u64),
        ("memtable_bytes", (memtable_bytes + lsm.slabs.bytes()) as u64),
        ("runs", runs.len() as u64),
        ("levels", levels.len() as u64),
        ("tables", super_version.version.tables().count() as u64),
        ("table_bytes", sum(|reader| reader.table().file_bytes())),
        ("table_records", sum(|reader| reader.table().records())),
        ("table_tombstones", sum(|reader| reader.table().tombstones())),
        ("index_bytes", sum(TableReader::index_bytes)),
        ("filter_bytes", sum(TableReader::filter_bytes)),
        ("index_loads", lsm.files.loader().indexes.get()),
        ("filter_loads", lsm.files.loader().filters.get()),
        ("block_cache_pages", pages),
        ("block_cache_bytes", bytes),
        ("block_cache_hits", hits),
        ("block_cache_misses", misses),
        ("flushes", lsm.flusher.flushes.get()),
        ("compactions", lsm.compactor.compactions.get()),
        ("compaction_parts", lsm.compactor.parts.get()),
        ("compaction_slices", lsm.compactor.slices.get()),
        ("conversion_parts", lsm.conversions.parts.get()),
        ("written_bytes", lsm.files.bytes_written()),
        ("disk_wanted_bytes", lsm.throttle.shortage.bytes()),
    ];
    stats.extend(lsm.record_cache().into_iter().flat_map(RecordCache::stats));
    stats.extend(write_delay::stats(&lsm.throttle.delays));
    stats
}

/// More statistics, of a keyspace with a page tier.
pub(super) fn page_stats(lsm: &Lsm) -> [(&'static str, u64); 4] {
    [
        ("records_flushed_to_pages", lsm.flusher.records_to_pages.get()),
        ("page_flushes_given_up", lsm.flusher.page_flushes_given_up.get()),
        ("reactivated_ranges", lsm.conversions.reactivated.get()),
        ("conversion_bytes", lsm.converted_bytes()),
    ]
}
