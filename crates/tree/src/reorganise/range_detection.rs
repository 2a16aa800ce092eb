//! Range detection (T10): chooses the segments of a reorganisation unit and claims them.
//!
//! A unit begins with the segment of a key. A neighbour joins if it has overflow pages, or if the unit stays small with
//! it; at most `neighbours` segments join on each side, within the round's budget of base pages. No unit reaches across
//! a pinned boundary.

use std::collections::HashSet;

use super::unit::ReorganisationUnit;
use crate::{
    TreeOptions,
    claims::Claim,
    index::{Segment, Snapshot},
    segment_update::SegmentUpdate,
    store::{SegmentRange, Store, ascending, descending},
};

/// Base pages that may still be included.
#[derive(Debug, Clone, Copy)]
struct PageBudget {
    /// In the round.
    round: usize,
    /// In the unit, until it has as many pages as a segment may have.
    unit: usize,
}

impl PageBudget {
    /// Begins a unit, even if it exceeds the budget. The last unit of the tree includes no small neighbours: with
    /// ascending inserts it is reorganised again and again.
    fn begin(&mut self, unit: &ReorganisationUnit<'_>, most: u8) {
        let pages = unit.base_count();
        self.round = self.round.saturating_sub(pages);
        self.unit = if unit.upper().is_none() { 0 } else { usize::from(most).saturating_sub(pages) };
    }

    /// Whether a neighbour is worth including: it has overflow pages, or the whole unit may become one segment.
    fn wants(&self, neighbour: &Segment) -> bool {
        neighbour.is_worth_taking() || usize::from(neighbour.base_count()) <= self.unit
    }

    /// Charges a neighbour to the budget; false if the budget is too small.
    fn take(&mut self, neighbour: &Segment) -> bool {
        let pages = usize::from(neighbour.base_count());
        let fits = pages <= self.round;
        if fits {
            self.round -= pages;
            self.unit = self.unit.saturating_sub(pages);
        }
        fits
    }
}

/// The detection of one round's units.
pub(super) struct RangeDetection<'a, 'c> {
    store: &'a Store,
    options: TreeOptions,
    claim: &'a mut Claim<'c>,
    snapshot: Snapshot,
    budget: PageBudget,
}

impl<'a, 'c> RangeDetection<'a, 'c> {
    /// Begins a round of about `round` base pages. The segments are added to the claim.
    pub(super) fn new(store: &'a Store, options: TreeOptions, claim: &'a mut Claim<'c>, round: usize) -> Self {
        RangeDetection {
            store,
            options,
            claim,
            snapshot: store.index.snapshot(),
            budget: PageBudget { round, unit: 0 },
        }
    }

    /// Claims each key's segment and contiguous neighbours. Returns how many keys were handled, and the units. With
    /// `sparse`, each unit has at least one neighbour, if one can be claimed.
    pub(super) fn detect<'t>(&mut self, keys: &[Vec<u8>], sparse: bool) -> (usize, Vec<ReorganisationUnit<'t>>) {
        let mut taken = HashSet::new();
        let mut units: Vec<ReorganisationUnit<'_>> = Vec::new();
        for (done, key) in keys.iter().enumerate() {
            let centre = self.store.locate(key);
            if taken.contains(&centre.segment.page) {
                continue;
            }
            if usize::from(centre.segment.base_count()) > self.budget.round && !units.is_empty() {
                return (done, units);
            }
            let Some(centre) = self.store.claim_segment(self.claim, &centre) else { continue };
            let mut unit = ReorganisationUnit::new(vec![SegmentUpdate::empty(centre)]);
            self.claim_neighbours(&mut unit, sparse);
            taken.extend(unit.updates.iter().map(|update| update.at.segment.page));
            units.push(unit);
        }
        (keys.len(), units)
    }

    /// Claims neighbours on both sides that are worth including, and at least one if the unit is `sparse`. A unit that
    /// grows by itself needs none.
    pub(super) fn claim_neighbours(&mut self, unit: &mut ReorganisationUnit<'_>, sparse: bool) {
        let reach = usize::from(self.options.neighbours);
        self.budget.begin(unit, self.options.segment_pages);
        if unit.grows() {
            return;
        }
        let left = self.extend_left(unit.lower(), reach, false);
        let right = unit.upper().map(|upper| self.extend_right(upper, reach, sparse));
        let mut updates: Vec<SegmentUpdate<'_>> = left.into_iter().map(SegmentUpdate::empty).collect();
        updates.append(&mut unit.updates);
        updates.extend(right.into_iter().flatten().map(SegmentUpdate::empty));
        unit.updates = updates;
        if sparse && unit.updates.len() == 1 {
            let left = self.extend_left(unit.lower(), 1, true);
            unit.updates.splice(0..0, left.into_iter().map(SegmentUpdate::empty));
        }
    }

    /// Claims neighbours to the left while they fit the budget and are worth including. Returns them in ascending
    /// order. With `any`, every neighbour is worth including.
    fn extend_left(&mut self, lower: &[u8], reach: usize, any: bool) -> Vec<SegmentRange> {
        let before = descending(&self.snapshot, Some(lower), false, reach);
        let mut left: Vec<SegmentRange> = before.into_iter().map_while(|at| self.claim_left(&at, any)).collect();
        left.reverse();
        left
    }

    fn claim_left(&mut self, at: &SegmentRange, any: bool) -> Option<SegmentRange> {
        let is_pinned = at.upper.as_ref().is_some_and(|upper| self.store.pinned.has(upper));
        if !is_pinned && (any || self.budget.wants(&at.segment)) { self.claim_within(at) } else { None }
    }

    /// Claims neighbours to the right. With `first`, the next one is always worth including.
    fn extend_right(&mut self, upper: &[u8], reach: usize, first: bool) -> Vec<SegmentRange> {
        let after = ascending(&self.snapshot, upper, reach.max(usize::from(first)));
        after.into_iter().enumerate().map_while(|(i, at)| self.claim_right(&at, first && i == 0)).collect()
    }

    fn claim_right(&mut self, at: &SegmentRange, any: bool) -> Option<SegmentRange> {
        let before = self.budget;
        let claimed = if any || before.wants(&at.segment) { self.claim_within(at) } else { None }?;
        // A boundary may have been pinned before the claim. Once claimed, a pin of this fence waits for the claim.
        if self.store.pinned.has(&claimed.lower) {
            self.claim.release(claimed.segment.base_pages());
            self.budget = before;
            return None;
        }
        Some(claimed)
    }

    fn claim_within(&mut self, at: &SegmentRange) -> Option<SegmentRange> {
        let mut left = self.budget;
        if !left.take(&at.segment) {
            return None;
        }
        let claimed = self.store.claim_segment(self.claim, at)?;
        self.budget = left;
        Some(claimed)
    }
}
