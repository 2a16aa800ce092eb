//! The sorted runs of a version: what a read, a scan or a job goes through, from young to old. Tables come run by run,
//! then the pages as the oldest run of all. A floor, `superseded_from`, hides the runs from one on, as a range
//! tombstone above them would. Their order is given here alone; multi-get goes through it run by
//! run, and merges ask [`Visibility`] (adaptive.md, "Paged ranges"; adaptive-protocol.md,
//! invariant 1).

use std::{iter, ops::Bound};

use ecotone_engine::remaining_range::{Direction, RemainingRange};

use crate::{
    manifest::{PagedRange, RangeFragment, RunId, Visibility},
    version::{Run, TableMeta, Version},
};

/// A sorted run of some keys.
pub(crate) enum SortedRun<'v, T> {
    /// The tables of a run of L0 or of a level.
    Tables(RunId, &'v Run<T>),
    /// The pages of the page tier. They are not part of the version, and are read as they are now, after all tables
    /// and never before (adaptive-protocol.md, invariants 2 and 3).
    Pages,
}

impl<'v, T> SortedRun<'v, T> {
    /// Its run and tables; `None` for the pages.
    pub(crate) fn tables(self) -> Option<(RunId, &'v Run<T>)> {
        match self {
            SortedRun::Tables(run_id, run) => Some((run_id, run)),
            SortedRun::Pages => None,
        }
    }
}

impl<T: TableMeta> Version<T> {
    /// What is visible of a key.
    #[inline]
    pub(crate) fn visibility_at(&self, key: &[u8]) -> Visibility {
        self.paged_ranges.visibility_at(key)
    }

    /// The sorted runs in which keys are visible, from young to old.
    #[inline]
    pub(crate) fn sorted_runs(&self, visibility: Visibility) -> impl DoubleEndedIterator<Item = SortedRun<'_, T>> {
        let visible = match visibility.superseded_from {
            None => &self.runs[..],
            Some(superseded_from) => &self.runs[..self.runs.partition_point(|(run_id, _)| *run_id < superseded_from)],
        };
        let tables = visible.iter().map(|(run_id, run)| SortedRun::Tables(*run_id, run));
        tables.chain(visibility.has_pages.then_some(SortedRun::Pages))
    }

    /// The fragment in which a remaining range begins in this direction.
    pub(crate) fn first_fragment(&self, left: &RemainingRange, direction: Direction) -> RangeFragment<'_> {
        let paged_ranges = &self.paged_ranges;
        match (direction, &left.low, &left.high) {
            (Direction::Up, Bound::Included(key) | Bound::Excluded(key), _)
            | (Direction::Down, _, Bound::Included(key)) => paged_ranges.fragment_at(key),
            (Direction::Up, Bound::Unbounded, _) => paged_ranges.fragment_at(&[]),
            (Direction::Down, _, Bound::Excluded(key)) => paged_ranges.fragment_below(Some(key)),
            (Direction::Down, _, Bound::Unbounded) => paged_ranges.fragment_below(None),
        }
    }

    /// The fragments of a key range, each cut to its part of the range.
    pub(crate) fn fragments_within<'r>(
        &'r self,
        (lower, upper): (&'r [u8], &'r [u8]),
    ) -> impl Iterator<Item = (Visibility, (&'r [u8], &'r [u8]))> {
        let mut from = lower;
        iter::from_fn(move || {
            let fragment = (from < upper).then(|| self.paged_ranges.fragment_at(from))?;
            let part = (from, fragment.upper.map_or(upper, |end| end.min(upper)));
            from = part.1;
            Some((fragment.visibility, part))
        })
    }

    /// Whether no table is visible in a paged range that has a `superseded_from`.
    pub(crate) fn is_pages_only(&self, paged_range: &PagedRange) -> bool {
        let visible = self.sorted_runs(paged_range.visibility()).filter_map(SortedRun::tables);
        paged_range.superseded_from().is_some()
            && visible.map(|(_, run)| run.within(paged_range.bounds())).all(<[_]>::is_empty)
    }
}
