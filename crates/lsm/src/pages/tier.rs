//! The interface of the page tier below the tables of a keyspace. Where a range of keys is paged, the page tier holds
//! its oldest records: every visible table record is newer. A keyspace of the lsm engine has no page tier (adaptive.md,
//! "Paged ranges").

use std::{fmt, sync::Arc};

use ecotone_engine::{
    contract::{Cursor, Range, VisitValue},
    remaining_range::{Direction, RemainingRange},
};
use ecotone_substrate::{Result, memory::Component};

use crate::read::merging_iterator::RecordIterator;

/// Estimated size of what a conversion to pages has to move in a range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeSize {
    /// Bytes of visible tables.
    pub bytes: u64,
    /// Bytes of the largest run or level, summed over the fragments of the range.
    pub largest_run: u64,
    /// Records of visible tables.
    pub records: u64,
    /// Pages of the page tier.
    pub pages: u64,
    /// Bytes of these pages.
    pub page_bytes: u64,
}

/// A record that is copied; no value is a tombstone.
pub type CopiedRecord = (Vec<u8>, Option<Vec<u8>>);

/// The page tier, which another engine keeps: the data below the tables, and their layout. A keyspace of the lsm engine
/// has none.
pub trait PageTier: fmt::Debug + Send + Sync {
    /// Looks for a key of a paged range, and appends its value to `value`. False if there is none.
    fn find(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// The same for many keys; `found` gets the number and the value of each, in any order.
    fn find_many(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()>;
    /// A cursor over the records of a range that is paged.
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor>;
    /// A flush begins. It brings the records that were written since the last one.
    fn begin_flush(&self);
    /// Writes ascending records into ranges that are paged or were cleared, over the records there. Log records that
    /// are appended afterwards may rely on them. `inserts` says whether keys that are new to the pages count as
    /// inserts; in a cleared range they do not, as they come from tables. Returns the number of records.
    fn ingest(&self, records: &mut dyn Iterator<Item = Result<CopiedRecord>>, inserts: bool) -> Result<u64>;
    /// Bytes written to pages so far.
    fn bytes_written(&self) -> u64;
    /// Clears a range that is not paged, without an upper bound or with this one, and pins its boundaries, so that
    /// pages on both sides stay separate.
    fn clear_range(&self, lower: &[u8], upper: Option<&[u8]>) -> Result<()>;
    /// Whether such a range is already clear, or as good as that.
    fn is_cleared(&self, lower: &[u8], upper: Option<&[u8]>) -> bool;
    /// The last boundary within paged ranges that is not above a key. The range can be cut there; the boundary is
    /// pinned from now on.
    fn boundary_before(&self, key: &[u8]) -> Result<Vec<u8>>;
    /// The first boundary that is not below a key, likewise.
    fn boundary_after(&self, key: &[u8]) -> Result<Vec<u8>>;
    /// Whether no page has keys on both sides of a key.
    fn is_boundary(&self, key: &[u8]) -> bool;
    /// Pins these boundaries, and unpins all others. No thread clears a range meanwhile.
    fn set_boundaries(&self, bounds: &mut dyn Iterator<Item = &[u8]>);
    /// How far about `most` bytes of pages reach from `lower` on, to `upper` at most, and how many bytes there are
    /// until then.
    fn extent(&self, lower: &[u8], upper: &[u8], most: u64) -> (Vec<u8>, u64);
}

/// The records of a paged range, in either direction.
pub(crate) struct PageCursor {
    cursor: Box<dyn Cursor>,
    direction: Direction,
    /// Whether there is a current record; `key` and `value` are a copy of it.
    there: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl PageCursor {
    /// A cursor on the first record of the remaining range.
    pub(crate) fn begin(
        page_tier: &Arc<dyn PageTier>,
        rest: &RemainingRange,
        direction: Direction,
        memory: Component,
    ) -> Result<PageCursor> {
        let cursor = page_tier.clone().cursor_in(rest.range(), memory);
        let mut source = PageCursor { cursor, direction, there: false, key: Vec::new(), value: Vec::new() };
        source.step().map(|()| source)
    }

    /// Deleted records that the cursor has passed over.
    pub(crate) fn deletes_passed(&self) -> u64 {
        self.cursor.deletes_passed()
    }

    /// The current record.
    pub(crate) fn record(&self) -> Option<(&[u8], &[u8])> {
        self.there.then_some((&self.key, &self.value))
    }
}

impl RecordIterator for PageCursor {
    fn key(&self) -> Option<&[u8]> {
        self.there.then_some(&self.key)
    }

    fn step(&mut self) -> Result<()> {
        let next = match self.direction {
            Direction::Up => self.cursor.next()?,
            Direction::Down => self.cursor.next_back()?,
        };
        self.there = next.is_some();
        if let Some((key, value)) = next {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.value.clear();
            self.value.extend_from_slice(value);
        }
        Ok(())
    }
}
