//! Pages as what is below the tables, and the record cache in front of these.

use std::sync::Arc;

use ecotone_substrate::{Result, memory::Component};

use super::{insert::Insert, upkeep::Upkeep};
use crate::{
    engine::{Cursor, Ordered, Range, VisitValue},
    lsm::base::{Base, Moved, Offer, Passage},
    tree::Tree,
};

/// The pages of a keyspace. Nobody writes to the tree but through this, so it has no dirty records.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) tree: Arc<Tree>,
    /// Who is told where scans go.
    pub(super) upkeep: Arc<Upkeep>,
    pub(super) insert: Insert,
    /// Whether chance says what is inserted, where nobody has chosen.
    pub(super) is_restless: bool,
}

impl Base for Pages {
    fn find(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.tree.find_in_pages(key, value)
    }

    fn find_many(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.tree.find_many_in_pages(keys, found)
    }

    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor> {
        self.tree.clone().cursor_in(range, memory)
    }

    fn carve(&self, lower: &[u8], upper: Option<&[u8]>) -> Result<()> {
        self.tree.carve(lower, upper)
    }

    fn is_carved(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        self.tree.is_carved(lower, upper)
    }

    fn fence_before(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.tree.wall_before(key)
    }

    fn fence_behind(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.tree.wall_behind(key)
    }

    fn extent(&self, lower: &[u8], upper: &[u8], most: u64) -> (Vec<u8>, u64) {
        self.tree.extent(lower, upper, most)
    }

    fn keep_apart(&self, bounds: &mut dyn Iterator<Item = &[u8]>) {
        self.tree.set_walls(bounds);
    }

    fn passed(&self, passage: &Passage<'_>) {
        self.upkeep.passed(passage);
    }

    fn look(&self, is_idle: bool) {
        self.upkeep.look(is_idle);
    }

    fn divert(&self, mut offers: Vec<Offer>) -> Vec<Offer> {
        // Flushes come one after the other, each of what was written meanwhile.
        self.tree.all_has_come();
        self.upkeep.flushes();
        match self.insert {
            Insert::Batch => Vec::new(),
            Insert::Tree => offers,
            Insert::Auto if self.is_restless && self.upkeep.chance().is_multiple_of(2) => {
                offers.retain(|_| self.upkeep.chance().is_multiple_of(2));
                offers
            }
            Insert::Auto => self.upkeep.divert(offers),
        }
    }

    fn guards(&self) -> Vec<Vec<u8>> {
        self.upkeep.guards()
    }

    fn yields(&self) -> bool {
        self.insert == Insert::Auto
    }

    fn absorb(&self, records: &mut dyn Iterator<Item = Result<Moved>>, inserts: bool) -> Result<u64> {
        self.tree.absorb(records, inserts)
    }

    fn written_bytes(&self) -> u64 {
        self.tree.written_bytes()
    }
}
