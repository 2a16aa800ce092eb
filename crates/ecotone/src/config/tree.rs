//! Options of the tree engine.

use ecotone_tree::{ForecastKind, Model};

use super::settings::{Settings, switch};

/// Options of [`Engine::Tree`](crate::Engine::Tree), for [`KeyspaceOptions::tree`](crate::KeyspaceOptions::tree).
/// Values out of range are errors when the keyspace is created.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeOptions(pub(super) Settings);

impl TreeOptions {
    /// Sets the percent of a page that reorganisation and bulk load fill, 50 to 100. Default 90. Less leaves space for
    /// inserts; more packs cold data.
    pub fn fill(self, percent: u8) -> Self {
        TreeOptions(self.0.with("fill", percent))
    }

    /// Sets the most segments on each side that a reorganisation includes, 0 to 16. Default 5 (r of TreeLine §4.2).
    pub fn neighbours(self, segments: u8) -> Self {
        TreeOptions(self.0.with("neighbours", segments))
    }

    /// Sets the most pages of a segment, 1 to 16. Default 16 (TreeLine §4.1). More make a smaller index and cheaper
    /// scans; 1 is a plain index of pages.
    pub fn segment_pages(self, pages: u8) -> Self {
        TreeOptions(self.0.with("segment_pages", pages))
    }

    /// Sets how the lines of segments are fitted. Default [`Model::Optimal`], piecewise linear approximation.
    /// [`Model::Greedy`] (TreeLine's thesis, ch. 4) is less work.
    pub fn model(self, model: Model) -> Self {
        TreeOptions(self.0.with("model", model.name()))
    }

    /// Sets how inserts are predicted from past ones, so that reorganisation leaves space for them. Default
    /// [`ForecastKind::Off`] (TreeLine §4.6). A forecast saves reorganisations in a keyspace that grows much, and costs
    /// space.
    pub fn forecast(self, forecast: ForecastKind) -> Self {
        TreeOptions(self.0.with("forecast", forecast.name()))
    }

    /// Sets whether the record cache keeps records after they are written out. Default true. False is a cache of
    /// capacity zero (TreeLine §5.3), for a keyspace whose reads hardly repeat, beside others that share the cache.
    pub fn record_cache(self, is_on: bool) -> Self {
        TreeOptions(self.0.with("record_cache", switch(is_on)))
    }
}
