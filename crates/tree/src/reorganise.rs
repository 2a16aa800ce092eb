//! Reorganisation: merges full segments, and neighbours that are worth including, into fresh pages (T10–T13; decisions
//! 2 and 5).
//!
//! A round claims a key's segment and its neighbours, reads their pages, merges their dirty records, plans new
//! segments, writes these into free pages, and installs them with one log record. The replaced pages are freed
//! afterwards.

use std::{collections::HashSet, ops::Range, sync::atomic::Ordering};

use ecotone_substrate::{
    Result, bug,
    limits::PAGE,
    page::{PageAddress, PageKind},
};

use super::{
    PageFill, Tree, TreeOptions,
    cache::Stretch,
    claims::Claim,
    fill_policy::FULL,
    index::{IndexEdit, PagePair, Placement, Segment, Snapshot},
    install::Replaced,
    layout::{PagePlan, SegmentPlan},
    logged_edit::LoggedEdit,
    merge::{self, PageSpec},
    page_allocator::IoPurpose,
    records::Records,
    segment_update::SegmentUpdate,
    store::{SegmentRange, ascending, descending},
};

/// Base pages that one round reads at most, so that it stays within its memory (64 in TreeLine).
pub(crate) const ROUND: usize = 64;

/// Fewest stored records from which the insert pattern is judged.
const FEW: usize = 8;

/// The outcome of a write-out or a reorganisation.
#[derive(Debug, Default)]
pub struct Progress {
    /// Whether anything was done. False if other operations hold all claims.
    pub is_any: bool,
    /// Ranges with dirty records that were not taken.
    pub(crate) left: Vec<Stretch>,
}

impl Progress {
    pub(crate) fn add(&mut self, other: Progress) {
        self.is_any |= other.is_any;
        self.left.extend(other.left);
    }
}

/// How new records lie among the stored ones.
#[derive(Debug, Default)]
struct InsertPattern {
    stored: usize,
    /// Runs of new records without a stored record between them.
    runs: usize,
    is_in_run: bool,
}

impl InsertPattern {
    fn note(&mut self, is_new: bool) {
        self.stored += usize::from(!is_new);
        self.runs += usize::from(is_new && !self.is_in_run);
        self.is_in_run = is_new;
    }

    /// Whether all new records lie at one place or two: inserts in key order. Random inserts lie at more places.
    fn is_in_order(&self) -> bool {
        self.stored >= FEW && (1..=2).contains(&self.runs)
    }
}

/// A reorganisation unit: contiguous segments that are replaced by other segments, with their records.
pub(crate) struct ReorganisationUnit<'t> {
    /// The segments, each with the records that go into it.
    pub(crate) shares: Vec<SegmentUpdate<'t>>,
    /// Whether the forecast counts keys that no page has as inserts.
    pub(crate) inserts: bool,
    pub(crate) records: Records,
    /// How new records lie among the stored ones.
    arrival: InsertPattern,
    /// Keys that no page had before.
    added: Vec<Vec<u8>>,
    pub(crate) plan: Vec<SegmentPlan>,
    /// The first page of each planned segment.
    pages: Vec<u32>,
}

impl<'t> ReorganisationUnit<'t> {
    pub(crate) fn new(shares: Vec<SegmentUpdate<'t>>) -> Self {
        let (records, arrival) = (Records::default(), InsertPattern::default());
        ReorganisationUnit {
            shares,
            inserts: true,
            records,
            arrival,
            added: Vec::new(),
            plan: Vec::new(),
            pages: Vec::new(),
        }
    }

    pub(crate) fn lower(&self) -> &[u8] {
        self.shares.first().map_or(&[], |share| &share.at.lower)
    }

    pub(crate) fn upper(&self) -> Option<&[u8]> {
        self.shares.last().and_then(|share| share.at.upper.as_deref())
    }

    fn base_count(&self) -> usize {
        self.shares.iter().map(SegmentUpdate::base_count).sum()
    }

    /// Whether the incoming records exceed the bytes of the present pages.
    fn grows(&self) -> bool {
        self.shares.iter().map(|share| share.records.bytes()).sum::<usize>() > self.base_count() * PAGE
    }

    /// The planned base pages, with their page numbers.
    fn parts(&self) -> impl Iterator<Item = (u32, &PagePlan)> {
        self.plan.iter().zip(&self.pages).flat_map(|(planned, first)| (*first..).zip(&planned.pages))
    }

    fn all_pages(&self) -> Vec<u32> {
        self.parts().map(|(page, _)| page).collect()
    }

    /// Turns every planned page into a segment of its own.
    fn take_apart(&mut self) {
        let parts = std::mem::take(&mut self.plan).into_iter().flat_map(|planned| planned.pages);
        self.plan = parts.map(|part| SegmentPlan { placement: Placement::Single, pages: vec![part] }).collect();
    }

    fn change(&self, change: &mut IndexEdit) {
        change.remove.extend(self.shares.iter().map(|share| share.begin().to_vec()));
        let kept = self.shares.iter().flat_map(|share| &share.kept);
        change.insert.extend(kept.map(|at| (at.lower.clone(), at.segment.clone())));
        for (planned, page) in self.plan.iter().zip(&self.pages) {
            let segment = Segment::placed(*page, planned.pages.len() as u8, planned.placement.clone());
            change.insert.push((planned.pages[0].lower.clone(), segment));
        }
    }
}

/// A base page to be written.
struct NewPage<'a> {
    page: u32,
    lower: &'a [u8],
    upper: Option<&'a [u8]>,
    records: &'a Records,
    range: Range<usize>,
}

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

impl Tree {
    /// Reorganises the segments of these keys, with neighbours that have overflow pages or are small. With `sparse`, a
    /// segment is always merged with at least one neighbour.
    pub fn reorganise(&self, keys: &[Vec<u8>], sparse: bool) -> Result<Progress> {
        let (mut progress, mut rest, mut round) = (Progress::default(), keys, ROUND);
        while !rest.is_empty() {
            match self.reorganise_round(rest, sparse, round) {
                // One segment at a time needs the least space, since each round frees the pages that it replaces.
                Err(error) if error.is_no_space() && round > 1 => round = 1,
                ended => {
                    let (done, reorganised) = ended?;
                    progress.add(reorganised);
                    rest = &rest[done..];
                }
            }
        }
        Ok(progress)
    }

    /// Reorganises about `round` base pages. Returns how many of the keys were handled, and the progress.
    fn reorganise_round(&self, keys: &[Vec<u8>], sparse: bool, round: usize) -> Result<(usize, Progress)> {
        let mut claim = self.store.claims.claim();
        let (done, units) = self.detect(&mut claim, keys, sparse, PageBudget { round, unit: 0 });
        if units.is_empty() {
            return Ok((done, Progress::default()));
        }
        let left = self.rebuild(units, |tree, unit| {
            let plan = tree.plan(&unit.records, unit.lower(), unit.upper(), None);
            let pages: usize = plan.iter().map(|planned| planned.pages.len()).sum();
            // A merge of underfull pages pays only if it saves at least a quarter of the pages.
            if sparse && pages * 4 > unit.base_count() * 3 { None } else { Some(plan) }
        })?;
        Ok((done, Progress { is_any: true, left }))
    }

    /// Rebuilds claimed segments that cannot take their records. Returns the keys of segments that failed for lack of
    /// disk space and should be retried with fewer pages at a time.
    pub(crate) fn make_segments<'t>(
        &'t self,
        claim: &mut Claim<'_>,
        full: Vec<SegmentUpdate<'t>>,
        left: &mut Vec<Stretch>,
    ) -> Result<Vec<Vec<u8>>> {
        let (mut full, mut crowded) = (full.into_iter().peekable(), Vec::new());
        while full.peek().is_some() {
            let mut room = PageBudget { round: ROUND, unit: 0 };
            let (mut shares, mut pages) = (Vec::new(), 0);
            while let Some(mut share) = full.next_if(|share| shares.is_empty() || pages + share.base_count() <= ROUND) {
                share.narrow();
                pages += share.base_count();
                shares.push(share);
            }
            let keys: Vec<Vec<u8>> = shares.iter().map(|share| share.at.lower.clone()).collect();
            let snapshot = self.store.index.snapshot();
            let mut units = self.group_neighbours(shares, true);
            units.iter_mut().for_each(|unit| self.claim_neighbours(claim, &snapshot, unit, false, &mut room));
            match self.rebuild(units, |tree, unit| Some(tree.plan_grown(unit))) {
                Ok(rest) => left.extend(rest),
                Err(error) if error.is_no_space() => crowded.extend(keys),
                Err(error) => return Err(error),
            }
        }
        Ok(crowded)
    }

    /// Plans a unit whose segments are full. Keys that arrive in order get no later keys between them, so their pages
    /// are filled one after the other, and completely unless an option asks for free space in them.
    fn plan_grown(&self, unit: &ReorganisationUnit<'_>) -> Vec<SegmentPlan> {
        let is_in_order = unit.grows() && unit.arrival.is_in_order() && !self.forecast.is_on();
        let is_packed = unit.shares.iter().all(|share| share.is_packed || share.records.is_empty());
        let wants_room = self.options.fill < TreeOptions::default().fill || self.page_fill == PageFill::Spread;
        let fill = if is_packed && !wants_room { FULL } else { self.options.fill };
        self.plan(&unit.records, unit.lower(), unit.upper(), is_in_order.then_some(fill))
    }

    /// Groups neighbouring segments into units, unless a pinned boundary lies between them.
    pub(crate) fn group_neighbours<'t>(
        &self,
        shares: Vec<SegmentUpdate<'t>>,
        inserts: bool,
    ) -> Vec<ReorganisationUnit<'t>> {
        let mut units: Vec<ReorganisationUnit<'t>> = Vec::new();
        for share in shares {
            let lower = &share.at.lower;
            let is_next =
                |unit: &&mut ReorganisationUnit<'t>| unit.upper() == Some(lower) && !self.store.pinned.has(lower);
            match units.last_mut().filter(is_next) {
                Some(unit) => unit.shares.push(share),
                None => units.push(ReorganisationUnit { inserts, ..ReorganisationUnit::new(vec![share]) }),
            }
        }
        units
    }

    /// Range detection (T10): claims each key's segment and contiguous neighbours. Returns how many keys were handled,
    /// and the units.
    fn detect(
        &self,
        claim: &mut Claim<'_>,
        keys: &[Vec<u8>],
        sparse: bool,
        mut room: PageBudget,
    ) -> (usize, Vec<ReorganisationUnit<'_>>) {
        let snapshot = self.store.index.snapshot();
        let mut taken = HashSet::new();
        let mut units: Vec<ReorganisationUnit<'_>> = Vec::new();
        for (done, key) in keys.iter().enumerate() {
            let centre = self.store.locate(key);
            if taken.contains(&centre.segment.page) {
                continue;
            }
            if usize::from(centre.segment.base_count()) > room.round && !units.is_empty() {
                return (done, units);
            }
            let Some(centre) = self.claim_segment(claim, &centre) else { continue };
            let mut unit = ReorganisationUnit::new(vec![SegmentUpdate::empty(centre)]);
            self.claim_neighbours(claim, &snapshot, &mut unit, sparse, &mut room);
            taken.extend(unit.shares.iter().map(|share| share.at.segment.page));
            units.push(unit);
        }
        (keys.len(), units)
    }

    /// Claims neighbours on both sides that are worth including, and at least one if the unit is `sparse`. A unit that
    /// grows by itself needs none.
    fn claim_neighbours(
        &self,
        claim: &mut Claim<'_>,
        snapshot: &Snapshot,
        unit: &mut ReorganisationUnit<'_>,
        sparse: bool,
        room: &mut PageBudget,
    ) {
        let reach = usize::from(self.options.neighbours);
        room.begin(unit, self.options.segment_pages);
        if unit.grows() {
            return;
        }
        let left = self.extend_left(claim, snapshot, unit.lower(), reach, false, room);
        let right = unit.upper().map(|upper| self.extend_right(claim, snapshot, upper, reach, sparse, room));
        let mut shares: Vec<SegmentUpdate<'_>> = left.into_iter().map(SegmentUpdate::empty).collect();
        shares.append(&mut unit.shares);
        shares.extend(right.into_iter().flatten().map(SegmentUpdate::empty));
        unit.shares = shares;
        if sparse && unit.shares.len() == 1 {
            let left = self.extend_left(claim, snapshot, unit.lower(), 1, true, room);
            unit.shares.splice(0..0, left.into_iter().map(SegmentUpdate::empty));
        }
    }

    /// Claims neighbours to the left while they fit the budget and are worth including. Returns them in ascending
    /// order. With `any`, every neighbour is worth including.
    fn extend_left(
        &self,
        claim: &mut Claim<'_>,
        snapshot: &Snapshot,
        lower: &[u8],
        reach: usize,
        any: bool,
        room: &mut PageBudget,
    ) -> Vec<SegmentRange> {
        let before = descending(snapshot, Some(lower), false, reach);
        let is_pinned = |at: &SegmentRange| at.upper.as_ref().is_some_and(|upper| self.store.pinned.has(upper));
        let wanted = |at: &SegmentRange, room: &PageBudget| !is_pinned(at) && (any || room.wants(&at.segment));
        let next = |at: SegmentRange| if wanted(&at, room) { self.claim_within(claim, &at, room) } else { None };
        let mut left: Vec<SegmentRange> = before.into_iter().map_while(next).collect();
        left.reverse();
        left
    }

    /// Claims neighbours to the right. With `first`, the next one is always worth including.
    fn extend_right(
        &self,
        claim: &mut Claim<'_>,
        snapshot: &Snapshot,
        upper: &[u8],
        reach: usize,
        first: bool,
        room: &mut PageBudget,
    ) -> Vec<SegmentRange> {
        let after = ascending(snapshot, upper, reach.max(usize::from(first)));
        let wanted = |i: usize, at: &SegmentRange, room: &PageBudget| (first && i == 0) || room.wants(&at.segment);
        let next = |(i, at): (usize, SegmentRange)| {
            let mut left = *room;
            let claimed = if wanted(i, &at, room) { self.claim_within(claim, &at, &mut left) } else { None }?;
            // A boundary may have been pinned before the claim. Once claimed, a pin of this fence waits for the claim.
            if self.store.pinned.has(&claimed.lower) {
                claim.release(claimed.segment.base_pages());
                return None;
            }
            *room = left;
            Some(claimed)
        };
        after.into_iter().enumerate().map_while(next).collect()
    }

    fn claim_within(&self, claim: &mut Claim<'_>, at: &SegmentRange, room: &mut PageBudget) -> Option<SegmentRange> {
        let mut left = *room;
        if !left.take(&at.segment) {
            return None;
        }
        let claimed = self.claim_segment(claim, at)?;
        *room = left;
        Some(claimed)
    }

    /// Claims all base pages of a segment (tree-protocol.md, invariant 11). Returns the segment as the index has it
    /// now; `None` if one of its pages is claimed already, or if the index does not have the segment any more.
    pub(crate) fn claim_segment(&self, claim: &mut Claim<'_>, at: &SegmentRange) -> Option<SegmentRange> {
        if !claim.try_add(at.segment.base_pages()) {
            return None;
        }
        let current = self.store.current(at);
        if current.is_none() {
            claim.release(at.segment.base_pages());
        }
        current
    }

    /// Model building, write-out and index update (T11–T13) for claimed units. Their dirty records are included;
    /// returns the ranges whose dirty records were not taken. A unit without a plan stays unchanged.
    pub(crate) fn rebuild<'t>(
        &'t self,
        mut units: Vec<ReorganisationUnit<'t>>,
        layout: impl Fn(&Tree, &ReorganisationUnit<'t>) -> Option<Vec<SegmentPlan>>,
    ) -> Result<Vec<Stretch>> {
        let left = self.take_along(&mut units);
        // The new pages stay claimed until the taken records are settled, so no other operation takes records of these
        // keys.
        let mut claim = self.store.claims.claim();
        self.read_records(&mut units)?;
        units.retain_mut(|unit| match layout(self, unit) {
            Some(plan) => {
                unit.plan = plan;
                true
            }
            None => false,
        });
        let replaced = self.apply_plans(&mut units, &mut claim)?;
        units.iter_mut().flat_map(|unit| &mut unit.shares).for_each(SegmentUpdate::settle);
        drop(claim);
        self.forecast.observe(units.iter().flat_map(|unit| &unit.added).map(Vec::as_slice), 0);
        self.counters.reorganisations.add(units.len() as u64);
        replaced.iter().for_each(|replaced| self.give_back(replaced));
        Ok(left)
    }

    /// Takes the dirty records of segments that have no records to write yet. Returns the ranges that were left.
    fn take_along<'t>(&'t self, units: &mut [ReorganisationUnit<'t>]) -> Vec<Stretch> {
        let drawn: usize = units.iter().flat_map(|unit| &unit.shares).map(|share| share.records.bytes()).sum();
        let (mut most, mut left) = (self.batch_bytes().saturating_sub(drawn), Vec::new());
        let shares = units.iter_mut().flat_map(|unit| &mut unit.shares);
        for share in shares.filter(|share| share.portions.is_empty()) {
            let (taken, rest) = self.take(share.at.clone(), most);
            most = most.saturating_sub(taken.records.bytes());
            left.extend(rest);
            *share = taken;
        }
        left
    }

    /// Writes the pages of all plans, claims their base pages, and installs them.
    pub(crate) fn apply_plans(
        &self,
        units: &mut [ReorganisationUnit<'_>],
        claim: &mut Claim<'_>,
    ) -> Result<Option<Replaced>> {
        if units.is_empty() {
            return Ok(None);
        }
        self.take_pages(units)?;
        let pages: Vec<u32> = units.iter().flat_map(ReorganisationUnit::all_pages).collect();
        if !bug!(UnclaimedPages) {
            pages.iter().for_each(|page| claim.add_new(*page));
        }
        let written = self.sync_log().and_then(|()| {
            let production = self.store.production.fetch_add(1, Ordering::Relaxed) + 1;
            self.write_parts(units, production)?;
            let mut change = IndexEdit::default();
            units.iter().for_each(|unit| unit.change(&mut change));
            self.install(&LoggedEdit { production, change })
        });
        if written.is_err() {
            pages.iter().for_each(|page| claim.release(*page..*page + 1));
            self.store.space.free_now(&pages)?;
        }
        written.map(Some)
    }

    /// Reads all records that are not read yet, and merges the incoming records over them.
    fn read_records(&self, units: &mut [ReorganisationUnit<'_>]) -> Result<()> {
        let missing: Vec<PagePair> =
            units.iter().flat_map(|unit| &unit.shares).flat_map(SegmentUpdate::missing).collect();
        let mut read = self.store.read(&missing, IoPurpose::Reorganise)?.into_iter();
        for ReorganisationUnit { shares, records, arrival, added, inserts, .. } in units {
            let loaded = std::mem::take(records);
            let tells = *inserts && self.forecast.is_on();
            for share in shares {
                let stored = share.all_stored(&mut read);
                let pages = self.store.claimed_segment(&share.at, &stored)?;
                let mut portions = share.portions.iter().peekable();
                for (position, pages) in (0..).zip(&pages) {
                    let portion = portions.next_if(|portion| portion.position == position);
                    let dirty = portion.into_iter().flat_map(|portion| share.records_of(portion));
                    merge::visible(pages, dirty, records, |record| {
                        let new = record.filter(|record| record.value.is_some());
                        arrival.note(new.is_some());
                        added.extend(new.filter(|_| tells).map(|record| record.key.to_vec()));
                    });
                }
            }
            if loaded.len() > 0 {
                // Records of a bulk load are merged last: for a key in both, the stored record wins.
                *records = merge::union(records, &loaded);
            }
        }
        Ok(())
    }

    /// Allocates pages for all plans. If the file cannot grow and there are no free runs, each page of a single unit
    /// becomes a segment of its own.
    fn take_pages(&self, units: &mut [ReorganisationUnit<'_>]) -> Result<()> {
        match self.take_runs(units) {
            Err(error) if error.is_no_space() && units.len() == 1 => {
                units[0].take_apart();
                self.take_runs(units)
            }
            taken => taken,
        }
    }

    fn take_runs(&self, units: &mut [ReorganisationUnit<'_>]) -> Result<()> {
        let runs: Vec<u8> = units.iter().flat_map(|unit| &unit.plan).map(|planned| planned.pages.len() as u8).collect();
        let mut pages = self.allocate(&runs)?.into_iter();
        for unit in units {
            unit.pages = pages.by_ref().take(unit.plan.len()).collect();
        }
        Ok(())
    }

    fn write_parts(&self, units: &[ReorganisationUnit<'_>], production: u32) -> Result<()> {
        self.context.begin_session()?;
        let fresh: Vec<NewPage<'_>> = units.iter().flat_map(NewPage::of).collect();
        let pages: Vec<u32> = fresh.iter().map(|fresh| fresh.page).collect();
        self.write_new(IoPurpose::Reorganise, &pages, |n, place, block| {
            fresh[n].build(block, place, production, self.page_sequence());
        })
    }

    /// Reorganises a few segments with overflow pages, for idle times. False if there are none left.
    pub(crate) fn reorganise_when_idle(&self) -> Result<bool> {
        if self.store.overflow_pages() == 0 {
            return Ok(false);
        }
        let mut from = self.counters.cleanup_cursor.lock();
        let snapshot = self.store.index.snapshot();
        let overflowing = snapshot.ascend(&from).filter(|(_, segment)| segment.overflow_pages() > 0);
        let keys: Vec<Vec<u8>> = overflowing.map(|(lower, _)| lower).take(ROUND / 4).collect();
        let wrapped = keys.is_empty() && !from.is_empty();
        *from = keys.last().cloned().unwrap_or_default();
        drop(from);
        Ok(wrapped || self.reorganise(&keys, false)?.is_any)
    }
}

impl<'a> NewPage<'a> {
    /// The new pages of a unit.
    fn of(unit: &'a ReorganisationUnit<'_>) -> Vec<NewPage<'a>> {
        let parts: Vec<(u32, &PagePlan)> = unit.parts().collect();
        let uppers = parts.iter().skip(1).map(|(_, part)| Some(part.lower.as_slice())).chain([unit.upper()]);
        let fresh = |(&(page, part), upper): (&(u32, &'a PagePlan), Option<&'a [u8]>)| NewPage {
            page,
            lower: &part.lower,
            upper,
            records: &unit.records,
            range: part.records.clone(),
        };
        parts.iter().zip(uppers).map(fresh).collect()
    }

    fn build(&self, block: &mut [u8], place: PageAddress, production: u32, seq: u64) {
        let shape = PageSpec { kind: PageKind::Base, related: production, lower: self.lower, upper: self.upper };
        merge::build(block, place, shape, self.range.clone().map(|position| self.records.get(position)), seq);
    }
}
