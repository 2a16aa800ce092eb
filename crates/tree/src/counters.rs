//! Statistics of one tree keyspace.

use ecotone_engine::{contract::Stats, write_delay};
use ecotone_substrate::{limits::PAGE, metrics::Counter};
use ecotone_sys::primitive::Mutex;

use super::Tree;

/// Counters and cursors of the background work.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Pages written out.
    pub(crate) write_outs: Counter,
    /// Reorganisation units that were rebuilt.
    pub(crate) reorganisations: Counter,
    /// The key up to which the background sweep has written out.
    pub(crate) elevator: Mutex<Vec<u8>>,
    /// The lower fence that idle reorganisation has reached.
    pub(crate) cleanup_cursor: Mutex<Vec<u8>>,
}

impl Tree {
    /// Bytes of pages written since the tree was opened.
    pub fn bytes_written(&self) -> u64 {
        self.store.file.traffic().written_pages() * PAGE as u64
    }

    /// The numbers for `stats`: those of the cache, which all tree keyspaces share, and those of this keyspace's pages.
    pub(crate) fn collect_stats(&self) -> Stats {
        let (index, space) = (&self.store.index, &self.store.space);
        let mut stats = vec![
            ("segments", index.segments()),
            ("overflow_pages", self.store.overflow_pages()),
            ("index_bytes", index.bytes() as u64),
            ("file_bytes", u64::from(space.total()) * PAGE as u64),
            ("used_bytes", u64::from(space.used()) * PAGE as u64),
            ("hole_bytes", u64::from(space.punched()) * PAGE as u64),
            ("write_outs", self.counters.write_outs.get()),
            ("reorganisations", self.counters.reorganisations.get()),
            ("dirty_bytes", self.cache.dirty_bytes() as u64),
            ("writer_stalls", self.writeback.stalls.get()),
        ];
        let told = self.forecast.stats();
        stats.extend([
            ("forecast_kind", told.kind as u64),
            ("forecast_error_percent", told.error.map_or(0, |error| (error * 100.0).round() as u64)),
            ("forecast_season_epochs", told.season as u64),
            ("forecast_bins", told.bins as u64),
        ]);
        stats.extend(self.store.file.traffic().named());
        stats.extend(write_delay::stats(&self.writeback.delays));
        stats.extend(self.cache.stats());
        let names = ["page_cache_pages", "page_cache_bytes", "page_cache_hits", "page_cache_misses"];
        stats.extend(names.into_iter().zip(self.pages.counts()));
        stats
    }
}
