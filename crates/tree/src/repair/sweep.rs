//! Divides the key space among the pages whose ranges cover it: each key range goes to the newest page that covers it
//! (decision 7).

use std::{cmp::Ordering, collections::BinaryHeap};

use ecotone_engine::repair::KeyRange;
use ecotone_substrate::Result;

use super::{
    outline::{Outline, Role},
    sorter::Sorted,
};

/// A range of the key space with its pages.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CoveredRange {
    pub(super) range: KeyRange,
    /// The base page of the range; `None` if no page covers it.
    pub(super) page: Option<Outline>,
    /// That page's overflow page.
    pub(super) overflow: Option<u32>,
    /// Whether a newer page may be lost.
    pub(super) doubtful: bool,
}

/// A base page that covers the current key.
#[derive(Debug, Clone)]
struct Claimant {
    base: Outline,
    /// The overflow page that belongs to the base page.
    overflow: Option<Outline>,
}

impl PartialEq for Claimant {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Claimant {}

impl PartialOrd for Claimant {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Claimant {
    fn cmp(&self, other: &Self) -> Ordering {
        self.base.rank().cmp(&other.base.rank())
    }
}

/// A pass over the key space from its beginning to its end.
#[derive(Debug)]
pub(super) struct Sweep {
    outlines: Sorted,
    /// Whether the index is known. A page that the index does not name is stale then.
    indexed: bool,
    /// Where the next range begins; `None` at the end of all keys.
    at: Option<Vec<u8>>,
    /// Pages that begin at or below the current key, the newest first. Pages that end below it may still be included.
    claimants: BinaryHeap<Claimant>,
    /// Damaged base pages that may cover the current key.
    lost: Vec<Outline>,
}

impl Sweep {
    pub(super) fn new(outlines: Sorted, indexed: bool) -> Self {
        Sweep { outlines, indexed, at: Some(Vec::new()), claimants: BinaryHeap::new(), lost: Vec::new() }
    }

    /// The next range; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Result<CoveredRange>> {
        let at = self.at.take()?;
        Some(self.piece(at))
    }

    fn piece(&mut self, at: Vec<u8>) -> Result<CoveredRange> {
        while self.outlines.peek().is_some_and(|lower| lower <= at.as_slice()) {
            self.admit(&at)?;
        }
        while self.claimants.peek().is_some_and(|claimant| claimant.base.ends_by(&at)) {
            self.claimants.pop();
        }
        self.lost.retain(|lost| !lost.ends_by(&at));
        // The page stays in `claimants`, since a newer page may cover only a part of its range.
        let Some(newest) = self.claimants.peek().cloned() else {
            self.at = self.next_claim(&at)?;
            return Ok(CoveredRange { range: (at, self.at.clone()), page: None, overflow: None, doubtful: false });
        };
        self.at = self.end(&at, &newest.base)?;
        Ok(self.given((at, self.at.clone()), newest))
    }

    /// Where the next base page begins. A damaged page does not end a missing range.
    fn next_claim(&mut self, at: &[u8]) -> Result<Option<Vec<u8>>> {
        while let Some(lower) = self.outlines.peek().map(<[u8]>::to_vec) {
            self.admit(at)?;
            if !self.claimants.is_empty() {
                return Ok(Some(lower));
            }
        }
        Ok(None)
    }

    /// The end of the range in which `newest`, the newest page at `at`, stays the newest: the end of its own range, or
    /// the beginning of a newer page.
    fn end(&mut self, at: &[u8], newest: &Outline) -> Result<Option<Vec<u8>>> {
        while let Some(lower) = self.outlines.peek().filter(|lower| !newest.ends_by(lower)) {
            let lower = lower.to_vec();
            self.admit(at)?;
            if self.claimants.peek().is_some_and(|claimant| claimant.base.rank() > newest.rank()) {
                return Ok(Some(lower));
            }
        }
        Ok(newest.upper.clone())
    }

    /// Takes the outlines with the next lower fence, and assigns overflow pages to base pages (Check I). An overflow
    /// page must name the base page. If the index has the base page, the overflow page must be the one that the index
    /// expects; otherwise it must have the base page's fences, and the newest such page is taken.
    fn admit(&mut self, at: &[u8]) -> Result<()> {
        let Some(lower) = self.outlines.peek().map(<[u8]>::to_vec) else { return Ok(()) };
        let (mut bases, mut overflows) = (Vec::new(), Vec::new());
        while self.outlines.peek() == Some(&lower) {
            let Some(outline) = self.outlines.next()? else { break };
            match outline.role {
                Role::Base => bases.push(outline),
                Role::Overflow => overflows.push(outline),
                Role::Lost => self.lost.push(outline),
            }
        }
        overflows.sort_by_key(|outline| (outline.related, outline.sequence, outline.page));
        for base in bases.into_iter().filter(|base| !base.ends_by(at)) {
            let first = overflows.partition_point(|overflow| overflow.related < base.page);
            let own = overflows[first..].iter().take_while(|overflow| overflow.related == base.page);
            let right = |overflow: &&Outline| match base.named {
                true => base.expects == Some(overflow.page),
                false => overflow.upper == base.upper,
            };
            let overflow = own.filter(right).last().cloned();
            self.claimants.push(Claimant { base, overflow });
        }
        Ok(())
    }

    fn given(&self, range: KeyRange, Claimant { base, overflow }: Claimant) -> CoveredRange {
        let (start, end) = &range;
        let whole = base.lower == *start && base.upper == *end;
        let reaches = |lost: &&Outline| end.as_ref().is_none_or(|end| lost.lower < *end);
        let newer_lost = self.lost.iter().filter(reaches).any(|lost| lost.rank() > base.rank());
        let overflow_lost = base.expects.is_some() && overflow.is_none();
        let doubtful = if self.indexed { !base.named || overflow_lost } else { !whole || newer_lost };
        CoveredRange { range, page: Some(base), overflow: overflow.map(|page| page.page), doubtful }
    }
}
