//! The parts of a plan: pages, segments, and candidates for the next segment with their cost.

use std::ops::Range;

use super::super::index::Placement;

/// Cost of a page, in bytes of the index: a line may take more pages than a directory only where it saves this many
/// bytes of memory for each. The module's head gives measurements.
pub(super) const PAGE: usize = 64;

/// One page of a plan: its records and its lower fence. Its upper fence is the next page's lower fence, or the range's
/// upper fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PagePlan {
    pub(crate) lower: Vec<u8>,
    pub(crate) records: Range<usize>,
}

/// One segment of a plan. It begins where its first page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentPlan {
    pub(crate) placement: Placement,
    pub(crate) pages: Vec<PagePlan>,
}

/// Cost in bytes of the index, with the bytes of records that it is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    pub(super) cost: usize,
    pub(super) raw: usize,
}

impl Cost {
    /// Whether the cost per byte of records is less than that of `other`.
    pub(super) fn is_below(self, other: Cost) -> bool {
        self.cost as u64 * (other.raw as u64) < other.cost as u64 * self.raw as u64
    }
}

/// A candidate for the next segment, and the position of the first record behind it.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) planned: SegmentPlan,
    pub(super) end: usize,
}
