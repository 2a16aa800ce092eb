//! A reorganisation unit: a row of contiguous segments that is replaced as a whole, with its records and its plan.

use std::ops::Range;

use ecotone_engine::superseded::LeftOut;
use ecotone_substrate::{
    limits::PAGE,
    page::{PageAddress, PageKind},
};

use crate::{
    index::{IndexEdit, Placement, Segment},
    layout::{PagePlan, SegmentPlan},
    merge::{self, PageSpec},
    pinned_boundaries::PinnedBoundaries,
    records::Records,
    segment_update::SegmentUpdate,
};

/// Fewest stored records from which the insert pattern is judged.
const MIN_STORED: usize = 8;

/// How new records lie among the stored ones.
#[derive(Debug, Default)]
pub(super) struct InsertPattern {
    stored: usize,
    /// Runs of new records without a stored record between them.
    runs: usize,
    is_in_run: bool,
}

impl InsertPattern {
    pub(super) fn note(&mut self, is_new: bool) {
        self.stored += usize::from(!is_new);
        self.runs += usize::from(is_new && !self.is_in_run);
        self.is_in_run = is_new;
    }

    /// Whether all new records lie at one place or two: inserts in key order. Random inserts lie at more places.
    fn is_in_order(&self) -> bool {
        self.stored >= MIN_STORED && (1..=2).contains(&self.runs)
    }
}

/// A reorganisation unit: contiguous segments that are replaced by other segments, with their records.
pub(crate) struct ReorganisationUnit<'t> {
    /// The segments, each with the records that go into it.
    pub(crate) updates: Vec<SegmentUpdate<'t>>,
    /// Whether the forecast counts keys that no page has as inserts.
    pub(crate) inserts: bool,
    pub(crate) records: Records,
    /// How new records lie among the stored ones.
    pub(super) arrival: InsertPattern,
    /// Keys that no page had before.
    pub(super) added: Vec<Vec<u8>>,
    /// Versions that the new pages leave out.
    pub(super) left_out: LeftOut,
    pub(crate) plan: Vec<SegmentPlan>,
    /// The first page of each planned segment.
    pub(super) pages: Vec<u32>,
}

impl<'t> ReorganisationUnit<'t> {
    pub(crate) fn new(updates: Vec<SegmentUpdate<'t>>) -> Self {
        let (records, arrival) = (Records::default(), InsertPattern::default());
        ReorganisationUnit {
            updates,
            inserts: true,
            records,
            arrival,
            added: Vec::new(),
            left_out: LeftOut::default(),
            plan: Vec::new(),
            pages: Vec::new(),
        }
    }

    /// Groups neighbouring segments into units, unless a pinned boundary lies between them.
    pub(crate) fn group(updates: Vec<SegmentUpdate<'t>>, inserts: bool, pinned: &PinnedBoundaries) -> Vec<Self> {
        let mut units: Vec<Self> = Vec::new();
        for update in updates {
            let lower = &update.at.lower;
            let is_next = |unit: &&mut Self| unit.upper() == Some(lower) && !pinned.has(lower);
            match units.last_mut().filter(is_next) {
                Some(unit) => unit.updates.push(update),
                None => units.push(ReorganisationUnit { inserts, ..ReorganisationUnit::new(vec![update]) }),
            }
        }
        units
    }

    pub(crate) fn lower(&self) -> &[u8] {
        self.updates.first().map_or(&[], |update| &update.at.lower)
    }

    pub(crate) fn upper(&self) -> Option<&[u8]> {
        self.updates.last().and_then(|update| update.at.upper.as_deref())
    }

    pub(super) fn base_count(&self) -> usize {
        self.updates.iter().map(SegmentUpdate::base_count).sum()
    }

    /// Whether the incoming records exceed the bytes of the present pages.
    pub(super) fn grows(&self) -> bool {
        self.updates.iter().map(|update| update.records.bytes()).sum::<usize>() > self.base_count() * PAGE
    }

    /// Whether the unit grows by keys that arrive in order.
    pub(crate) fn grows_in_order(&self) -> bool {
        self.grows() && self.arrival.is_in_order()
    }

    /// Whether all taken records were inserted in key order.
    pub(crate) fn is_packed(&self) -> bool {
        self.updates.iter().all(|update| update.is_packed || update.records.is_empty())
    }

    /// The planned base pages, with their page numbers.
    fn parts(&self) -> impl Iterator<Item = (u32, &PagePlan)> {
        self.plan.iter().zip(&self.pages).flat_map(|(planned, first)| (*first..).zip(&planned.pages))
    }

    pub(super) fn all_pages(&self) -> Vec<u32> {
        self.parts().map(|(page, _)| page).collect()
    }

    /// Turns every planned page into a segment of its own.
    pub(super) fn take_apart(&mut self) {
        let parts = std::mem::take(&mut self.plan).into_iter().flat_map(|planned| planned.pages);
        self.plan = parts.map(|part| SegmentPlan { placement: Placement::Single, pages: vec![part] }).collect();
    }

    pub(super) fn change(&self, change: &mut IndexEdit) {
        change.remove.extend(self.updates.iter().map(|update| update.begin().to_vec()));
        let kept = self.updates.iter().flat_map(|update| &update.kept);
        change.insert.extend(kept.map(|at| (at.lower.clone(), at.segment.clone())));
        for (planned, page) in self.plan.iter().zip(&self.pages) {
            let segment = Segment::placed(*page, planned.pages.len() as u8, planned.placement.clone());
            change.insert.push((planned.pages[0].lower.clone(), segment));
        }
    }
}

/// A base page to be written.
pub(super) struct NewPage<'a> {
    pub(super) page: u32,
    lower: &'a [u8],
    upper: Option<&'a [u8]>,
    records: &'a Records,
    range: Range<usize>,
}

impl<'a> NewPage<'a> {
    /// The new pages of a unit.
    pub(super) fn of(unit: &'a ReorganisationUnit<'_>) -> Vec<NewPage<'a>> {
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

    pub(super) fn build(&self, block: &mut [u8], place: PageAddress, production: u32, seq: u64) {
        let shape = PageSpec { kind: PageKind::Base, related: production, lower: self.lower, upper: self.upper };
        merge::build(block, place, shape, self.range.clone().map(|position| self.records.get(position)), seq);
    }
}
