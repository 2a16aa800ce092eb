//! Numbers of one lsm keyspace.

use super::{handle::Handle, records::Lsm};
use crate::{delay, engine::Stats, front::Front};

impl Lsm {
    /// What `stats` tells.
    pub(super) fn stats(&self) -> Stats {
        let view = self.present.get();
        let (runs, levels) = view.version.runs().partition::<Vec<_>, _>(|(place, _)| place.is_run());
        let sum = |of: fn(&Handle) -> u64| view.version.tables().map(|handle| of(handle)).sum();
        let memtable_bytes: usize = view.memtables.iter().map(|member| member.memtable.bytes()).sum();
        let [pages, bytes, hits, misses] = self.files.loader().cache().blocks().counts();
        let mut stats = vec![
            ("memtables", view.memtables.len() as u64),
            ("memtable_bytes", (memtable_bytes + self.room.bytes()) as u64),
            ("runs", runs.len() as u64),
            ("levels", levels.len() as u64),
            ("tables", view.version.tables().count() as u64),
            ("table_bytes", sum(|handle| handle.table().file_bytes())),
            ("table_records", sum(|handle| handle.table().records())),
            ("table_tombstones", sum(|handle| handle.table().tombstones())),
            ("index_bytes", sum(Handle::index_bytes)),
            ("filter_bytes", sum(Handle::filter_bytes)),
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
            ("absorption_parts", self.absorption_parts.get()),
            ("written_bytes", self.written.get()),
            ("disk_wanted_bytes", self.shortage.bytes()),
        ];
        stats.extend(self.front().into_iter().flat_map(Front::stats));
        stats.extend(delay::named(&self.delays));
        stats
    }

    /// Nanoseconds of processor that parts of jobs took so far.
    pub(crate) fn worked(&self) -> u64 {
        self.worked.get()
    }

    /// Bytes of pages and tables that adaptation wrote so far.
    pub(crate) fn adapted_bytes(&self) -> u64 {
        self.adapted.get()
    }

    /// What is told besides where there is something below the tables.
    pub(crate) fn stats_of_base(&self) -> [(&'static str, u64); 4] {
        [
            ("diverted_records", self.diverted.get()),
            ("diversions_given_up", self.diversions_given_up.get()),
            ("opened_ranges", self.opened.get()),
            ("adapted_bytes", self.adapted_bytes()),
        ]
    }
}
