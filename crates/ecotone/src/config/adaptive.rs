//! Options of the adaptive engine.

use ecotone_adaptive::Insert;
use ecotone_lsm::Split;
use ecotone_tree::PageFill;

use super::{LsmOptions, Settings, TreeOptions};

/// Options of [`Engine::Adaptive`](crate::Engine::Adaptive), for
/// [`KeyspaceOptions::adaptive`](crate::KeyspaceOptions::adaptive). Values out of range are errors when the keyspace is
/// created.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdaptiveOptions(pub(super) Settings);

impl AdaptiveOptions {
    /// Sets the most percent of time that is spent on converting ranges, 0 to 100. Default 66. 0 turns adaptation off,
    /// and hints ([`Keyspace::hint`](crate::Keyspace::hint)) may use all of the time.
    pub fn adapt(self, percent: u8) -> Self {
        AdaptiveOptions(self.0.with("adapt", percent))
    }

    /// Sets how writes reach a range that has only pages. Default [`Insert::Auto`].
    pub fn insert(self, insert: Insert) -> Self {
        AdaptiveOptions(self.0.with("insert", insert.name()))
    }

    /// Sets how much of a range is converted to pages at once. Default [`Split::Side`].
    pub fn split(self, split: Split) -> Self {
        AdaptiveOptions(self.0.with("split", split.name()))
    }

    /// Sets how full pages are. Default [`PageFill::Even`].
    pub fn page_fill(self, page_fill: PageFill) -> Self {
        AdaptiveOptions(self.0.with("page_fill", page_fill.name()))
    }

    /// Sets the options of the tables.
    pub fn lsm(self, tables: LsmOptions) -> Self {
        AdaptiveOptions(self.0.with_all(tables.0))
    }

    /// Sets the options of the pages and of the record cache.
    pub fn tree(self, pages: TreeOptions) -> Self {
        AdaptiveOptions(self.0.with_all(pages.0))
    }
}
