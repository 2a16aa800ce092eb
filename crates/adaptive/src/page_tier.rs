//! The page tier of a keyspace: a tree whose pages hold the oldest records of the paged ranges. The lsm reads and
//! writes it through [`PageTier`].

use std::sync::Arc;

use ecotone_engine::contract::{Cursor, Ordered, Range, VisitValue};
use ecotone_lsm::pages::tier::{CopiedRecord, PageTier};
use ecotone_substrate::{Result, memory::Component};
use ecotone_tree::Tree;

/// The pages of a keyspace. Nothing else writes to the tree, so the tree has no dirty records.
#[derive(Debug)]
pub(super) struct TreePages {
    pub(super) tree: Arc<Tree>,
}

impl PageTier for TreePages {
    fn find(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.tree.find_in_pages(key, value)
    }

    fn find_many(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.tree.find_many_in_pages(keys, found)
    }

    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor> {
        self.tree.clone().cursor_in(range, memory)
    }

    fn clear_range(&self, lower: &[u8], upper: Option<&[u8]>) -> Result<()> {
        self.tree.clear_range(lower, upper)
    }

    fn is_cleared(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        self.tree.is_cleared(lower, upper)
    }

    fn boundary_before(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.tree.boundary_before(key)
    }

    fn boundary_after(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.tree.boundary_after(key)
    }

    fn is_boundary(&self, key: &[u8]) -> bool {
        self.tree.is_boundary(key)
    }

    fn extent(&self, lower: &[u8], upper: &[u8], most: u64) -> (Vec<u8>, u64) {
        self.tree.range_of_bytes(lower, upper, most)
    }

    fn set_boundaries(&self, bounds: &mut dyn Iterator<Item = &[u8]>) {
        self.tree.set_boundaries(bounds);
    }

    fn begin_flush(&self) {
        // Flushes are sequential. Each brings the records written since the last one.
        self.tree.end_forecast_round();
    }

    fn ingest(&self, records: &mut dyn Iterator<Item = Result<CopiedRecord>>, inserts: bool) -> Result<u64> {
        self.tree.ingest(records, inserts)
    }

    fn bytes_written(&self) -> u64 {
        self.tree.bytes_written()
    }
}
