//! Room in the pages for a range of keys of its own (decision 14, "Turning tables into pages").

use std::time::Duration;

use ecotone_substrate::{Result, limits::PAGE};

use super::{
    Tree,
    claims::Claim,
    index::Placement,
    layout::{Part, Planned},
    reorganise::Neighbourhood,
    share::Share,
    store::{Located, ascending},
};

/// Segments that go with one record at most, so that it stays within a log record whatever their fences are.
const ROW: usize = 256;

impl Tree {
    /// Makes one empty segment of what the pages have of a range, from `lower` on and below `upper`, or of all behind.
    /// Both become walls. Of a segment that reaches beyond the range another empty one stays there.
    ///
    /// # Errors
    /// If memory or space on the disk is wanting, or a write fails. Then a part of the range may be empty.
    pub fn carve(&self, lower: &[u8], upper: Option<&[u8]>) -> Result<()> {
        [Some(lower), upper].into_iter().flatten().for_each(|bound| self.wall(bound));
        loop {
            self.check_live()?;
            let mut claim = self.store.claims.claim();
            let row = self.claim_row(&mut claim, lower, upper);
            let is_all = row.last().is_some_and(|last| reaches(last, upper));
            // The first may be what the record before left.
            if is_all || row.len() > 1 {
                self.carve_row(row, lower, upper.filter(|_| is_all))?;
                if is_all {
                    return Ok(());
                }
                continue;
            }
            // Somebody is in the middle of something.
            drop(claim);
            self.context.shared.health.check()?;
            ecotone_sys::primitive::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Makes walls of these fences, and of no others.
    pub(crate) fn set_walls<'f>(&self, fences: impl Iterator<Item = &'f [u8]>) {
        self.store.walls.set(fences.map(<[u8]>::to_vec).collect());
    }

    /// Makes a wall of the last fence that is not above a key.
    ///
    /// # Errors
    /// If the keyspace was dropped, or writing has stopped.
    pub(crate) fn wall_before(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.wall_fence(|| self.store.locate(key).lower)
    }

    /// Makes a wall of the first fence that is not below a key; there is one.
    ///
    /// # Errors
    /// Likewise.
    pub(crate) fn wall_behind(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.wall_fence(|| {
            let at = self.store.locate(key);
            if at.lower == key { at.lower } else { at.upper.unwrap_or(at.lower) }
        })
    }

    fn wall_fence(&self, fence: impl Fn() -> Vec<u8>) -> Result<Vec<u8>> {
        loop {
            self.check_live()?;
            let fence = fence();
            self.wall(&fence);
            // Who is about to take it away has claimed what begins there. Who claims that later looks for walls then.
            let (at, mut claim) = (self.store.locate(&fence), self.store.claims.claim());
            if at.lower == fence && self.claim_segment(&mut claim, &at).is_some() {
                return Ok(fence);
            }
            drop(claim);
            self.context.shared.health.check()?;
            ecotone_sys::primitive::thread::sleep(Duration::from_micros(100));
        }
    }

    fn wall(&self, fence: &[u8]) {
        self.store.walls.add(fence);
    }

    /// How far so many bytes of pages reach from a key on, to another one at most, and how many there are till then. A
    /// segment counts where it begins, or if it has all of these keys.
    pub(crate) fn extent(&self, lower: &[u8], upper: &[u8], most: u64) -> (Vec<u8>, u64) {
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

    /// Whether there is as little of a range as carving leaves: one page.
    pub(crate) fn is_carved(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let at = self.store.locate(lower);
        at.lower == lower && at.upper.as_deref() == upper && at.segment.all_pages().count() == 1
    }

    /// Whether a segment begins at a key.
    pub(crate) fn has_fence(&self, key: &[u8]) -> bool {
        self.store.index.snapshot().get(key).is_some()
    }

    /// Claims the segments of a range from its first on, until somebody has one.
    fn claim_row(&self, claim: &mut Claim<'_>, lower: &[u8], upper: Option<&[u8]>) -> Vec<Located> {
        let row = ascending(&self.store.index.snapshot(), lower, ROW).into_iter();
        let overlapping = row.take_while(|at| upper.is_none_or(|upper| at.lower.as_slice() < upper));
        overlapping.map_while(|at| self.claim_segment(claim, &at)).collect()
    }

    /// Replaces neighbours by an empty segment that begins at `lower` and ends with them, or at `upper`, and by empty
    /// ones on both sides.
    fn carve_row(&self, row: Vec<Located>, lower: &[u8], upper: Option<&[u8]>) -> Result<()> {
        let mut hood = Neighbourhood::new(row.into_iter().map(Share::empty).collect());
        let before = Some(hood.lower()).filter(|first| *first < lower);
        let behind = upper.filter(|upper| hood.upper().is_none_or(|end| *upper < end));
        let fences = [before, Some(lower), behind].into_iter().flatten();
        let single = |lower: &[u8]| Planned {
            placement: Placement::Single,
            pages: vec![Part { lower: lower.to_vec(), records: 0..0 }],
        };
        hood.plan = fences.map(single).collect();
        let mut claim = self.store.claims.claim();
        let replaced = self.carry_out(&mut [hood], &mut claim)?;
        replaced.iter().for_each(|replaced| self.give_back(replaced));
        Ok(())
    }
}

/// Whether a segment ends at a bound or behind it.
fn reaches(at: &Located, bound: Option<&[u8]>) -> bool {
    match (at.upper.as_deref(), bound) {
        (Some(end), Some(bound)) => end >= bound,
        (Some(_), None) => false,
        (None, _) => true,
    }
}
