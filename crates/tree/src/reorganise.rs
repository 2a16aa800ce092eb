//! Reorganisation: merges full segments, and neighbours that are worth including, into fresh pages (T10–T13; decisions
//! 2 and 5).
//!
//! One round:
//! 1. [`range_detection`] claims a key's segment and its neighbours, as a [`ReorganisationUnit`];
//! 2. the dirty records of the unit are taken, its pages are read, and both are merged;
//! 3. the [`SegmentPlanner`] plans new segments for all records;
//! 4. pages are allocated and claimed, the log is synced, and the planned pages are written and synced;
//! 5. one structural record replaces the old segments by the new ones, the records become clean, and the claims end;
//! 6. the old pages are given back. They are reused once the record is synced (tree-protocol.md, "Crash order").

mod range_detection;
mod unit;

use std::sync::{Arc, atomic::Ordering};

use ecotone_engine::superseded::LeftOut;
use ecotone_substrate::{Result, bug, metrics::Counter};
use ecotone_sys::primitive::Mutex;

pub(crate) use self::unit::ReorganisationUnit;
use self::{range_detection::RangeDetection, unit::NewPage};
use super::{
    cache::KeySpan,
    claims::Claim,
    fill_policy::SegmentPlanner,
    forecast::Forecast,
    index::{IndexEdit, PagePair},
    keyspace_cache::KeyspaceCache,
    layout::SegmentPlan,
    logged_edit::LoggedEdit,
    merge,
    page_allocator::IoPurpose,
    page_writer::PageWriter,
    segment_update::SegmentUpdate,
    store::Store,
    structure_log::{Replaced, StructureLog},
};

/// Base pages that one round reads at most, so that it stays within its memory (64 in TreeLine).
pub(crate) const ROUND: usize = 64;

/// The outcome of a write-out or a reorganisation.
#[derive(Debug, Default)]
pub struct Progress {
    /// Whether anything was done. False if other operations hold all claims.
    pub is_any: bool,
    /// Ranges with dirty records that were not taken.
    pub(crate) left: Vec<KeySpan>,
}

impl Progress {
    pub(crate) fn add(&mut self, other: Progress) {
        self.is_any |= other.is_any;
        self.left.extend(other.left);
    }
}

/// The reorganisation of one keyspace.
#[derive(Debug)]
pub(crate) struct Reorganiser {
    cache: Arc<KeyspaceCache>,
    store: Arc<Store>,
    writer: Arc<PageWriter>,
    structure_log: Arc<StructureLog>,
    forecast: Arc<Forecast>,
    pub(crate) planner: SegmentPlanner,
    /// The lower fence that idle reorganisation has reached.
    cleanup_cursor: Mutex<Vec<u8>>,
    /// Units that were rebuilt.
    pub(crate) rebuilt: Counter,
}

impl Reorganiser {
    pub(crate) fn new(
        cache: Arc<KeyspaceCache>,
        store: Arc<Store>,
        writer: Arc<PageWriter>,
        structure_log: Arc<StructureLog>,
        forecast: Arc<Forecast>,
        planner: SegmentPlanner,
    ) -> Self {
        Reorganiser {
            cache,
            store,
            writer,
            structure_log,
            forecast,
            planner,
            cleanup_cursor: Mutex::default(),
            rebuilt: Counter::default(),
        }
    }

    /// Reorganises the segments of these keys, with neighbours that have overflow pages or are small. With `sparse`, a
    /// segment is always merged with at least one neighbour.
    pub(crate) fn reorganise(&self, keys: &[Vec<u8>], sparse: bool) -> Result<Progress> {
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
        let (done, units) = self.detection(&mut claim, round).detect(keys, sparse);
        if units.is_empty() {
            return Ok((done, Progress::default()));
        }
        let left = self.rebuild(units, |unit| {
            let plan = self.planner.plan(unit, None);
            let pages: usize = plan.iter().map(|planned| planned.pages.len()).sum();
            // A merge of underfull pages pays only if it saves at least a quarter of the pages.
            if sparse && pages * 4 > unit.base_count() * 3 { None } else { Some(plan) }
        })?;
        Ok((done, Progress { is_any: true, left }))
    }

    fn detection<'a, 'c>(&'a self, claim: &'a mut Claim<'c>, round: usize) -> RangeDetection<'a, 'c> {
        RangeDetection::new(&self.store, self.planner.options, claim, round)
    }

    /// Rebuilds claimed segments that cannot take their records. Returns the keys of segments that failed for lack of
    /// disk space and should be retried with fewer pages at a time.
    pub(crate) fn make_segments<'t>(
        &'t self,
        claim: &mut Claim<'_>,
        full: Vec<SegmentUpdate<'t>>,
        left: &mut Vec<KeySpan>,
    ) -> Result<Vec<Vec<u8>>> {
        let (mut full, mut crowded) = (full.into_iter().peekable(), Vec::new());
        while full.peek().is_some() {
            let (mut updates, mut pages) = (Vec::new(), 0);
            while let Some(mut update) =
                full.next_if(|update| updates.is_empty() || pages + update.base_count() <= ROUND)
            {
                update.narrow();
                pages += update.base_count();
                updates.push(update);
            }
            let keys: Vec<Vec<u8>> = updates.iter().map(|update| update.at.lower.clone()).collect();
            let mut detection = self.detection(claim, ROUND);
            let mut units = ReorganisationUnit::group(updates, true, &self.store.pinned);
            units.iter_mut().for_each(|unit| detection.claim_neighbours(unit, false));
            match self.rebuild(units, |unit| Some(self.planner.plan_grown(unit))) {
                Ok(rest) => left.extend(rest),
                Err(error) if error.is_no_space() => crowded.extend(keys),
                Err(error) => return Err(error),
            }
        }
        Ok(crowded)
    }

    /// Model building, write-out and index update (T11–T13) for claimed units. Their dirty records are included;
    /// returns the ranges whose dirty records were not taken. A unit without a plan stays unchanged.
    pub(crate) fn rebuild<'t>(
        &'t self,
        mut units: Vec<ReorganisationUnit<'t>>,
        plan: impl Fn(&ReorganisationUnit<'t>) -> Option<Vec<SegmentPlan>>,
    ) -> Result<Vec<KeySpan>> {
        let left = self.take_along(&mut units);
        // The new pages stay claimed until the taken records are settled, so no other operation takes records of these
        // keys.
        let mut claim = self.store.claims.claim();
        self.read_records(&mut units)?;
        units.retain_mut(|unit| match plan(unit) {
            Some(planned) => {
                unit.plan = planned;
                true
            }
            None => false,
        });
        let replaced = self.apply_plans(&mut units, &mut claim)?;
        units.iter_mut().flat_map(|unit| &mut unit.updates).for_each(SegmentUpdate::settle);
        drop(claim);
        self.forecast.observe(units.iter().flat_map(|unit| &unit.added).map(Vec::as_slice), 0);
        self.rebuilt.add(units.len() as u64);
        replaced.iter().for_each(|replaced| self.structure_log.give_back(replaced));
        Ok(left)
    }

    /// Takes the dirty records of segments that have no records to write yet. Returns the ranges that were left.
    fn take_along<'t>(&'t self, units: &mut [ReorganisationUnit<'t>]) -> Vec<KeySpan> {
        let drawn: usize = units.iter().flat_map(|unit| &unit.updates).map(|update| update.records.bytes()).sum();
        let (mut most, mut left) = (self.writer.batch_bytes().saturating_sub(drawn), Vec::new());
        let updates = units.iter_mut().flat_map(|unit| &mut unit.updates);
        for update in updates.filter(|update| update.page_updates.is_empty()) {
            let (taken, rest) = SegmentUpdate::take(&self.cache, update.at.clone(), most);
            most = most.saturating_sub(taken.records.bytes());
            left.extend(rest);
            *update = taken;
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
        let written = self.writer.sync_log().and_then(|()| {
            let production = self.store.production.fetch_add(1, Ordering::Relaxed) + 1;
            self.write_parts(units, production)?;
            let mut change = IndexEdit::default();
            units.iter().for_each(|unit| unit.change(&mut change));
            let left_out: LeftOut = units.iter_mut().map(|unit| std::mem::take(&mut unit.left_out)).collect();
            let on_install = || self.cache.reports().report_all(&left_out);
            self.structure_log.install(&LoggedEdit { production, change }, on_install)
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
            units.iter().flat_map(|unit| &unit.updates).flat_map(SegmentUpdate::missing).collect();
        let mut read = self.store.read(&missing, IoPurpose::Reorganise)?.into_iter();
        for ReorganisationUnit { updates, records, arrival, added, inserts, left_out, .. } in units {
            let loaded = std::mem::take(records);
            let tells = *inserts && self.forecast.is_on();
            *left_out = self.cache.reports().left_out();
            for update in updates {
                let stored = update.all_stored(&mut read);
                let pages = self.store.claimed_segment(&update.at, &stored)?;
                let mut page_updates = update.page_updates.iter().peekable();
                for (position, pages) in (0..).zip(&pages) {
                    let page_update = page_updates.next_if(|page_update| page_update.position == position);
                    let dirty = page_update.into_iter().flat_map(|page_update| update.records_of(page_update));
                    merge::collect_left_out(pages, dirty.clone(), left_out);
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
        let mut pages = self.writer.allocate(&runs)?.into_iter();
        for unit in units {
            unit.pages = pages.by_ref().take(unit.plan.len()).collect();
        }
        Ok(())
    }

    fn write_parts(&self, units: &[ReorganisationUnit<'_>], production: u32) -> Result<()> {
        let fresh: Vec<NewPage<'_>> = units.iter().flat_map(NewPage::of).collect();
        let pages: Vec<u32> = fresh.iter().map(|fresh| fresh.page).collect();
        self.writer.write_new(IoPurpose::Reorganise, &pages, |n, place, block| {
            fresh[n].build(block, place, production, self.writer.page_sequence());
        })
    }

    /// Reorganises a few segments with overflow pages, for idle times. False if there are none left.
    pub(crate) fn reorganise_when_idle(&self) -> Result<bool> {
        if self.store.overflow_pages() == 0 {
            return Ok(false);
        }
        let mut from = self.cleanup_cursor.lock();
        let snapshot = self.store.index.snapshot();
        let overflowing = snapshot.ascend(&from).filter(|(_, segment)| segment.overflow_pages() > 0);
        let keys: Vec<Vec<u8>> = overflowing.map(|(lower, _)| lower).take(ROUND / 4).collect();
        let wrapped = keys.is_empty() && !from.is_empty();
        *from = keys.last().cloned().unwrap_or_default();
        drop(from);
        Ok(wrapped || self.reorganise(&keys, false)?.is_any)
    }
}
