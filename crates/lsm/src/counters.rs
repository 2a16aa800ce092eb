//! Statistics of one LSM keyspace.

use ecotone_engine::{contract::Stats, record_cache::RecordCache, write_delay};

use crate::{cache::table_reader::TableReader, store::Lsm};

impl Lsm {
    /// The statistics by name.
    pub(super) fn stats(&self) -> Stats {
        let super_version = self.current.get();
        let (runs, levels) = super_version.version.runs().partition::<Vec<_>, _>(|(run_id, _)| run_id.is_l0());
        let sum = |of: fn(&TableReader) -> u64| super_version.version.tables().map(|reader| of(reader)).sum();
        let memtable_bytes: usize =
            super_version.memtables.iter().map(|memtable_ref| memtable_ref.memtable.bytes()).sum();
        let [pages, bytes, hits, misses] = self.files.loader().cache().blocks().counts();
        let mut stats = vec![
            ("memtables", super_version.memtables.len() as u64),
            ("memtable_bytes", (memtable_bytes + self.slabs.bytes()) as u64),
            ("runs", runs.len() as u64),
            ("levels", levels.len() as u64),
            ("tables", super_version.version.tables().count() as u64),
            ("table_bytes", sum(|reader| reader.table().file_bytes())),
            ("table_records", sum(|reader| reader.table().records())),
            ("table_tombstones", sum(|reader| reader.table().tombstones())),
            ("index_bytes", sum(TableReader::index_bytes)),
            ("filter_bytes", sum(TableReader::filter_bytes)),
            ("index_loads", self.files.loader().indexes.get()),
            ("filter_loads", self.files.loader().filters.get()),
            ("block_cache_pages", pages),
            ("block_cache_bytes", bytes),
            ("block_cache_hits", hits),
            ("block_cache_misses", misses),
            ("flushes", self.flushes.get()),
            ("compactions", self.compactions.get()),
            ("compaction_parts", self.parts.get()),
            ("compaction_slices", self.slices.get()),
            ("conversion_parts", self.conversion_parts.get()),
            ("written_bytes", self.written.get()),
            ("disk_wanted_bytes", self.shortage.bytes()),
        ];
        stats.extend(self.record_cache().into_iter().flat_map(RecordCache::stats));
        stats.extend(write_delay::stats(&self.delays));
        stats
    }

    /// CPU time of subcompactions and conversions so far, in nanoseconds.
    pub fn cpu_time(&self) -> u64 {
        self.cpu_time.get()
    }

    /// Bytes of pages and tables that conversions wrote so far.
    pub fn converted_bytes(&self) -> u64 {
        self.conversion_bytes.get()
    }

    /// More statistics, of a keyspace with a page tier.
    pub fn page_stats(&self) -> [(&'static str, u64); 4] {
        [
            ("records_flushed_to_pages", self.flushed_to_pages.get()),
            ("page_flushes_given_up", self.page_flushes_given_up.get()),
            ("reactivated_ranges", self.reactivated.get()),
            ("conversion_bytes", self.converted_bytes()),
        ]
    }
}
