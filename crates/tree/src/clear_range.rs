//! Clears a range of keys in the page tier and pins its bounds, so that the range has segments of its own. The adaptive
//! engine does this before it converts tables to pages (adaptive.md, "Converting to pages").

use std::time::Duration;

use ecotone_substrate::{Result, limits::PAGE};

use super::{
    Tree,
    claims::Claim,
    index::Placement,
    layout::{PagePlan, SegmentPlan},
    reorganise::ReorganisationUnit,
    segment_update::SegmentUpdate,
    store::{SegmentRange, ascending},
};

/// Most segments removed by one structural record, so that the record fits into a log record with fences of any length.
const ROW: usize = 256;

impl Tree {
    /// Replaces all pages of the range from `lower` to `upper` (or to the end of all keys) by one empty segment, and
    /// pins both bounds. A segment that reaches beyond the range leaves another empty segment there.
    ///
    /// # Errors
    /// If memory or disk space is short, or a write fails. A part of the range may be empty then.
    pub fn clear_range(&self, lower: &[u8], upper: Option<&[u8]>) -> Result<()> {
        [Some(lower), upper].into_iter().flatten().for_each(|bound| self.pin(bound));
        loop {
            self.check_live()?;
            let mut claim = self.store.claims.claim();
            let row = self.claim_segments(&mut claim, lower, upper);
            let is_all = row.last().is_some_and(|last| reaches(last, upper));
            // The first segment may be the empty one that the previous structural record left.
            if is_all || row.len() > 1 {
                self.clear_row(row, lower, upper.filter(|_| is_all))?;
                if is_all {
                    return Ok(());
                }
                continue;
            }
            // Another operation holds a claim.
            drop(claim);
            self.context.shared.health.check()?;
            ecotone_sys::primitive::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Pins these fences, and unpins all others.
    pub fn set_boundaries<'f>(&self, fences: impl Iterator<Item = &'f [u8]>) {
        self.store.pinned.set(fences.map(<[u8]>::to_vec).collect());
    }

    /// Pins the last fence at or below a key.
    ///
    /// # Errors
    /// If the keyspace was dropped, or writing has stopped.
    pub fn boundary_before(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.pin_fence(|| self.store.locate(key).lower)
    }

    /// Pins the first fence at or above a key. Such a fence must exist.
    ///
    /// # Errors
    /// If the keyspace was dropped, or writing has stopped.
    pub fn boundary_after(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.pin_fence(|| {
            let at = self.store.locate(key);
            if at.lower == key { at.lower } else { at.upper.unwrap_or(at.lower) }
        })
    }

    fn pin_fence(&self, fence: impl Fn() -> Vec<u8>) -> Result<Vec<u8>> {
        loop {
            self.check_live()?;
            let fence = fence();
            self.pin(&fence);
            // An operation that is about to remove the fence has claimed the segment that begins there. An operation
            // that claims it later checks the pinned boundaries.
            let (at, mut claim) = (self.store.locate(&fence), self.store.claims.claim());
            if at.lower == fence && self.store.claim_segment(&mut claim, &at).is_some() {
                return Ok(fence);
            }
            drop(claim);
            self.context.shared.health.check()?;
            ecotone_sys::primitive::thread::sleep(Duration::from_micros(100));
        }
    }

    fn pin(&self, fence: &[u8]) {
        self.store.pinned.add(fence);
    }

    /// Range size estimate: the key up to which the pages from `lower` on have `most` bytes, at most `upper`, and the
    /// bytes of pages up to that key. A segment counts where it begins, or if it holds the whole range.
    pub fn range_of_bytes(&self, lower: &[u8], upper: &[u8], most: u64) -> (Vec<u8>, u64) {
        let (mut bytes, mut around) = (0, 0);
        for (fence, segment) in
            self.store.index.snapshot().ascend(lower).take_while(|(fence, _)| fence.as_slice() < upper)
        {
            if bytes >= most && fence.as_slice() > lower {
                return (fence, bytes);
            }
            let counted = if fence.as_slice() < lower { &mut around } else { &mut bytes };
            *counted += (segment.all_pages().count() * PAGE) as u64;
        }
        (upper.to_vec(), if bytes == 0 { around } else { bytes })
    }

    /// Whether the range is one segment of a single page, as [`clear_range`](Self::clear_range) leaves it.
    pub fn is_cleared(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let at = self.store.locate(lower);
        at.lower == lower && at.upper.as_deref() == upper && at.segment.all_pages().count() == 1
    }

    /// Whether a segment begins at a key.
    pub fn is_boundary(&self, key: &[u8]) -> bool {
        self.store.index.snapshot().get(key).is_some()
    }

    /// Claims the segments of a range in order, up to the first that is already claimed.
    fn claim_segments(&self, claim: &mut Claim<'_>, lower: &[u8], upper: Option<&[u8]>) -> Vec<SegmentRange> {
        let row = ascending(&self.store.index.snapshot(), lower, ROW).into_iter();
        let overlapping = row.take_while(|at| upper.is_none_or(|upper| at.lower.as_slice() < upper));
        overlapping.map_while(|at| self.store.claim_segment(claim, &at)).collect()
    }

    /// Replaces neighbouring segments by an empty one that begins at `lower` and ends with them or at `upper`, and by
    /// empty ones on both sides where they reach beyond.
    fn clear_row(&self, row: Vec<SegmentRange>, lower: &[u8], upper: Option<&[u8]>) -> Result<()> {
        let mut unit = ReorganisationUnit::new(row.into_iter().map(SegmentUpdate::empty).collect());
        let before = Some(unit.lower()).filter(|first| *first < lower);
        let behind = upper.filter(|upper| unit.upper().is_none_or(|end| *upper < end));
        let fences = [before, Some(lower), behind].into_iter().flatten();
        let single = |lower: &[u8]| SegmentPlan {
            placement: Placement::Single,
            pages: vec![PagePlan { lower: lower.to_vec(), records: 0..0 }],
        };
        unit.plan = fences.map(single).collect();
        let mut claim = self.store.claims.claim();
        let replaced = self.reorganiser.apply_plans(&mut [unit], &mut claim)?;
        replaced.iter().for_each(|replaced| self.structure_log.give_back(replaced));
        Ok(())
    }
}

/// Whether a segment ends at or above a bound.
fn reaches(at: &SegmentRange, bound: Option<&[u8]>) -> bool {
    match (at.upper.as_deref(), bound) {
        (Some(end), Some(bound)) => end >= bound,
        (Some(_), None) => false,
        (None, _) => true,
    }
}
