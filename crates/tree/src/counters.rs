//! Statistics of one tree keyspace.

use ecotone_engine::{contract::Stats, record_cache::RecordCache, write_delay};
use ecotone_substrate::limits::PAGE;

use super::Tree;

/// The numbers for `stats`: those of the cache, which all tree keyspaces share, and those of this keyspace's pages.
pub(crate) fn stats(tree: &Tree) -> Stats {
    let (index, space) = (&tree.store.index, &tree.store.space);
    let mut stats = vec![
        ("segments", index.segments()),
        ("overflow_pages", tree.store.overflow_pages()),
        ("index_bytes", index.bytes() as u64),
        ("file_bytes", u64::from(space.total()) * PAGE as u64),
        ("used_bytes", u64::from(space.used()) * PAGE as u64),
        ("hole_bytes", u64::from(space.punched()) * PAGE as u64),
        ("write_outs", tree.write_out.written.get()),
        ("reorganisations", tree.reorganiser.rebuilt.get()),
        ("dirty_bytes", tree.cache.dirty_bytes() as u64),
        ("writer_stalls", tree.writeback.stalls.get()),
    ];
    let told = tree.write_out.forecast.stats();
    stats.extend([
        ("forecast_kind", told.kind as u64),
        ("forecast_error_percent", told.error.map_or(0, |error| (error * 100.0).round() as u64)),
        ("forecast_season_epochs", told.season as u64),
        ("forecast_bins", told.bins as u64),
    ]);
    stats.extend(tree.store.file.traffic().named());
    stats.extend(write_delay::stats(&tree.writeback.delays));
    stats.extend(tree.cache.stats());
    let names = ["page_cache_pages", "page_cache_bytes", "page_cache_hits", "page_cache_misses"];
    stats.extend(names.into_iter().zip(tree.pages.counts()));
    stats
}
