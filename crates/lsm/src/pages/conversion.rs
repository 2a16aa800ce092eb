//! A conversion of a range between tables and pages, as other jobs call it: which part comes next, under which lock
//! (adaptive.md, "Converting to pages" and "Converting to tables").

use std::sync::Arc;

use ecotone_substrate::Result;

use crate::{
    manifest::{PagedRange, PagedRanges, RangeFragment},
    pages::{pending_frees::KeySpan, tier::PageTier},
    store::Lsm,
    version::Split,
};

/// Conversions of a keyspace with a page tier. The public methods take the compaction lock. The caller of any other
/// method holds it, or recovers the keyspace; but `has_freeable` and `misplaced_bounds` change nothing and need none.
#[derive(Debug, Clone, Copy)]
pub struct Conversion<'l> {
    pub(super) lsm: &'l Arc<Lsm>,
    pub(super) page_tier: &'l Arc<dyn PageTier>,
}

impl<'l> Conversion<'l> {
    /// Of a keyspace; `None` if it has no page tier.
    pub fn of(lsm: &'l Arc<Lsm>) -> Option<Conversion<'l>> {
        lsm.page_tier().map(|page_tier| Conversion { lsm, page_tier })
    }

    /// Converts a range to pages: all visible records of tables, or those of the oldest visible run or level (`split`).
    /// Where the range is paged already, a little more than it may be converted. A range that was converted to tables,
    /// and whose old version is still read, stays in tables.
    pub fn convert_to_pages(self, split: Split, lower: &[u8], upper: &[u8]) -> Result<()> {
        let mut from = lower.to_vec();
        while *from < *upper {
            from = self.convert_next_to_pages(split, (&from, upper), || ())?;
        }
        Ok(())
    }

    /// Converts the first part of a range to pages, under a compaction lock of its own, so that more urgent jobs come
    /// between two parts. Calls `on_start` once the lock is held. Then deletes obsolete tables. Returns the end of the
    /// part.
    pub fn convert_next_to_pages(
        self,
        split: Split,
        (from, upper): (&[u8], &[u8]),
        on_start: impl FnOnce(),
    ) -> Result<Vec<u8>> {
        let guard = self.lsm.compactor.lock.lock();
        on_start();
        let converted = self.convert_to_pages_from(split, from, upper);
        self.lsm.release_compaction_lock(guard);
        converted.and_then(|end| self.lsm.files.finish().map(|()| end))
    }

    /// Converts the paged ranges of a range of keys, rounded outward, to tables. The pages are freed when no reader
    /// uses them any more.
    pub fn convert_to_tables(self, lower: &[u8], upper: &[u8]) -> Result<()> {
        let mut from = lower.to_vec();
        while *from < *upper {
            from = self.convert_next_to_tables(&from, upper, || ())?;
        }
        let guard = self.lsm.compactor.lock.lock();
        let freed = self.free_converted_pages();
        self.lsm.release_compaction_lock(guard);
        freed
    }

    /// Converts the first paged part of a range to tables, under a compaction lock of its own, and calls `on_start`
    /// once the lock is held. Returns the end of the part. Its pages are freed by a later holder of the lock, when no
    /// reader uses them any more.
    pub fn convert_next_to_tables(self, from: &[u8], upper: &[u8], on_start: impl FnOnce()) -> Result<Vec<u8>> {
        let guard = self.lsm.compactor.lock.lock();
        on_start();
        let converted = self.convert_to_tables_from(from, upper);
        self.lsm.conversions.state.learn(&converted);
        self.set_boundaries();
        self.lsm.release_compaction_lock(guard);
        converted.and_then(|end| self.lsm.files.finish().map(|()| end))
    }

    /// Makes all tables visible in the paged ranges of a range of keys, rounded outward.
    pub fn reactivate_tables(self, lower: &[u8], upper: &[u8]) -> Result<()> {
        if lower >= upper {
            return Ok(());
        }
        let guard = self.lsm.compactor.lock.lock();
        let reactivated = self.reactivate(lower, upper);
        self.set_boundaries();
        self.lsm.release_compaction_lock(guard);
        reactivated?;
        self.lsm.files.finish()
    }

    /// Clears pages of ranges that are not paged: leftovers of interrupted conversions (adaptive-protocol.md, invariant
    /// 17).
    pub fn clear_leftovers(self) -> Result<()> {
        let is_rest = |gap: &RangeFragment<'_>| !self.page_tier.is_cleared(gap.lower, gap.upper);
        if !self.lsm.version().paged_ranges().gaps().any(|gap| is_rest(&gap)) {
            return Ok(());
        }
        let guard = self.lsm.compactor.lock.lock();
        let version = self.lsm.version();
        let mut rests = version.paged_ranges().gaps().filter(is_rest);
        let cleared = rests.try_for_each(|gap| self.page_tier.clear_range(gap.lower, gap.upper));
        self.set_boundaries();
        self.lsm.release_compaction_lock(guard);
        cleared
    }

    /// How many paged ranges end within a segment. Clearing a range beside such a bound would clear part of the paged
    /// range (adaptive-protocol.md, invariant 16).
    pub(crate) fn misplaced_bounds(self) -> usize {
        let version = self.lsm.version();
        let is_misplaced =
            |(lower, upper): (&[u8], &[u8])| ![lower, upper].into_iter().all(|bound| self.page_tier.is_boundary(bound));
        version.paged_ranges().iter().map(PagedRange::bounds).filter(|bounds| is_misplaced(*bounds)).count()
    }

    /// Pins the bounds of paged ranges and of ranges that are not freed yet, and no others.
    pub(crate) fn set_boundaries(self) {
        let (version, left) = (self.lsm.version(), self.lsm.files.unfreed());
        let left = left.iter().flat_map(|(lower, upper)| [lower.as_slice(), upper.as_slice()]);
        self.page_tier.set_boundaries(&mut version.paged_ranges().bounds().chain(left));
    }

    /// Bytes of one part, in either direction, about.
    pub(super) fn max_bytes(self) -> u64 {
        self.lsm.conversions.state.max_bytes(self.lsm.tuning.table)
    }

    /// A part of the paged range between `lower` and `upper`, rounded outward to boundaries. The whole paged range
    /// where no more cuts are allowed.
    pub(super) fn round_to_boundaries(
        self,
        paged_ranges: &PagedRanges,
        (lower, upper): (&[u8], &[u8]),
        (from, end): (&[u8], &[u8]),
    ) -> Result<KeySpan> {
        if !paged_ranges.can_split() {
            return Ok((lower.to_vec(), upper.to_vec()));
        }
        let end = if end < upper { self.page_tier.boundary_after(end)? } else { upper.to_vec() };
        Ok((self.page_tier.boundary_before(from)?, end))
    }

    /// The first piece of a part of a paged range, between boundaries: as many pages as one edit converts, however few
    /// records of tables are visible above them.
    pub(super) fn first_pages(self, paged_ranges: &PagedRanges, (lower, upper): KeySpan) -> Result<KeySpan> {
        let (reach, _) = self.page_tier.extent(&lower, &upper, self.max_bytes());
        let is_cut = paged_ranges.can_split() && reach < upper;
        Ok((lower, if is_cut { self.page_tier.boundary_after(&reach)? } else { upper }))
    }
}
