//! What segments cost.

use super::{Planned, Planner};

/// What a page is worth, in bytes of the index: a line may take more pages than a directory only where it saves so many
/// bytes of memory for each. What that comes to is told in the module's head.
pub(super) const PAGE: usize = 64;

/// Slot and kind of an entry in the index.
const ENTRY: usize = 11;
/// Value of an entry of one page.
const SINGLE: usize = 5;
/// Value of an entry with a line.
const LINE: usize = 15;
/// Value of an entry with a directory, without its fences.
const DIRECTORY: usize = 7;

/// Cost of so many bytes of records, in bytes of the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Price {
    cost: usize,
    raw: usize,
}

impl Price {
    /// Whether it costs less for a byte of records than another one.
    pub(super) fn is_below(self, other: Price) -> bool {
        self.cost as u64 * (other.raw as u64) < other.cost as u64 * self.raw as u64
    }
}

/// A segment that may come next, and the first record behind it.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) planned: Planned,
    pub(super) end: usize,
}

impl Planner<'_> {
    /// Price of the records up to `end` in a segment with a line over so many pages, which could hold the records up to
    /// `whole`.
    pub(super) fn line_price(&self, start: usize, end: usize, whole: usize, pages: usize) -> Price {
        let (left, held) = (self.run.raw(end..whole), self.run.raw(start..whole));
        self.price(start, end, LINE + self.page_price * pages * left / held)
    }

    /// Price in a segment with a directory of pages, whose fences take so many bytes; of one page if there is only one.
    pub(super) fn directory_price(&self, start: usize, end: usize, pages: usize, fences: usize) -> Price {
        self.price(start, end, if pages == 1 { SINGLE } else { DIRECTORY + fences })
    }

    /// The entry's own key was settled by the segment before; the next one's counts here.
    fn price(&self, start: usize, end: usize, value: usize) -> Price {
        let key = self.run.fence(end).map_or(0, |fence| fence.len().saturating_sub(self.shared));
        Price { cost: ENTRY + key + value, raw: self.run.raw(start..end).max(1) }
    }
}
