//! The cost model of segments, in bytes of the index.

use super::{Planner, plan::Cost};

/// Slot and kind of an entry in the index.
const ENTRY: usize = 11;
/// Value of an entry with a single page.
const SINGLE: usize = 5;
/// Value of an entry with a line.
const LINE: usize = 15;
/// Value of an entry with a directory, without its fences.
const DIRECTORY: usize = 7;

impl Planner<'_> {
    /// Cost of the records up to `end` in a segment with a line over `pages` pages, which could hold the records up to
    /// `whole`.
    pub(super) fn line_cost(&self, start: usize, end: usize, whole: usize, pages: usize) -> Cost {
        let (left, held) = (self.run.raw(end..whole), self.run.raw(start..whole));
        self.cost(start, end, LINE + self.page_price * pages * left / held)
    }

    /// Cost of a segment with a directory whose fences take `fences` bytes, or of a single page if `pages` is 1.
    pub(super) fn directory_cost(&self, start: usize, end: usize, pages: usize, fences: usize) -> Cost {
        self.cost(start, end, if pages == 1 { SINGLE } else { DIRECTORY + fences })
    }

    /// Cost of a segment whose entry's value has `value` bytes. The key of its entry was charged to the segment before;
    /// the key of the next entry is charged here.
    fn cost(&self, start: usize, end: usize, value: usize) -> Cost {
        let key = self.run.fence(end).map_or(0, |fence| fence.len().saturating_sub(self.shared));
        Cost { cost: ENTRY + key + value, raw: self.run.raw(start..end).max(1) }
    }
}
