//! Write-out: dirty records into their pages, all of a page at a time, in key order (T4; decision 2, "Write-out").

use std::sync::atomic::Ordering;

use ecotone_substrate::{
    Result, Seq, bug,
    double_write::{PageWrite, changed_sectors},
    limits::DOUBLE_WRITE_PAGES,
    memory::Component,
    page::{Page, PageKind, Place},
    storage::Block,
    wal::Durability,
};
use ecotone_sys::chunk::Size;

use super::{
    Tree,
    cache::{DirtyRecord, Stretch},
    claims::Claim,
    index::{Attach, Change, Home},
    merge::{self, Changed, Content, Outcome, Shape},
    reorganise::Progress,
    space::Cause,
    store::{Pages, Stored, Strange},
    structure::Structure,
};

/// A base page whose records take less than this part of a page, after a delete, is put together with a neighbour.
const UNDERFULL: usize = ecotone_substrate::limits::PAGE / 4;

/// Dirty bytes of a page that one write-out or a reorganisation of several segments takes at most; more than two pages hold would not fit anyway.
pub(crate) const PAGE_BYTES: usize = 16 << 10;

/// A base page on its way to disk, with its records that are dirty.
#[derive(Debug)]
pub(crate) struct Detached {
    pub(crate) home: Home,
    pub(crate) dirty: Vec<DirtyRecord>,
    /// The keys whose records were taken from the cache; none if they come from elsewhere.
    pub(crate) taken: Option<Stretch>,
}

/// One home of a batch on its way to disk.
struct Job {
    taken: Option<Stretch>,
    /// What becomes of its base page and of the overflow page that it has.
    in_place: [Option<PageWrite>; 2],
    /// The overflow page that it gets, if it had none and needs one.
    fresh: Option<(Attach, Block)>,
    /// Keys that were in neither page, if somebody wants to know.
    added: Vec<Vec<u8>>,
    /// Records that were deleted.
    removed: usize,
}

/// Pages to be written in place, and the overflow page that is added.
type Built = ([Option<PageWrite>; 2], Option<(Attach, Block)>);

/// The pages of a home and what becomes of them.
struct Merged {
    stored: Stored,
    changed: Changed,
    added: Vec<Vec<u8>>,
}

impl Merged {
    /// Whether it needs an overflow page that it does not have.
    fn needs_page(&self) -> bool {
        self.changed.overflow.is_some() && self.stored.home.overflow == Home::NONE
    }

    /// Whether deletes left its base page too empty.
    fn is_sparse(&self) -> bool {
        self.changed.removed > 0 && self.changed.base_bytes < UNDERFULL
    }
}

/// What a batch leaves to reorganisation: a key of each page that is too full, and of each that is too empty. What was not written keeps its records.
#[derive(Debug, Default)]
pub(crate) struct Leftover {
    pub(crate) full: Vec<Vec<u8>>,
    pub(crate) sparse: Vec<Vec<u8>>,
    pub(crate) unwritten: Vec<Detached>,
}

/// The overflow pages that a batch adds.
fn fresh(jobs: &[Job]) -> impl Iterator<Item = &(Attach, Block)> {
    jobs.iter().filter_map(|job| job.fresh.as_ref())
}

fn new_pages(jobs: &[Job]) -> Vec<u32> {
    fresh(jobs).map(|(attach, _)| attach.overflow).collect()
}

impl Tree {
    /// Writes out until nothing below `below` is dirty. One thread sweeps at a time: several that each claim some pages of a full segment would keep each
    /// other from reorganising it, for ever if they are many.
    pub(crate) fn write_out_below(&self, below: Seq) -> Result<()> {
        let is_dirty = || self.cache.next_dirty(self.space(), &Stretch::default(), below).is_some();
        while is_dirty() {
            // The jobs of a manual scheduler run on the thread that waits, which may have the turn.
            let turn = if self.is_threaded() { Some(self.sweeping.lock()) } else { self.sweeping.try_lock() };
            // Another has swept meanwhile.
            let swept = if is_dirty() { self.writeback.write_all(&self.context.shared, self, below) } else { Ok(true) };
            drop(turn);
            self.writeback.swept(&self.context.shared);
            if !swept? {
                // Others hold the claims, of whom each does one thing and ends: a check, a reorganisation.
                self.context.shared.health.check()?;
                ecotone_sys::primitive::thread::sleep(std::time::Duration::from_micros(100));
            }
        }
        self.forecast.round();
        Ok(())
    }

    /// Writes out what is dirty of the pages that have these keys, and reorganises the segments of those that cannot take theirs.
    pub(crate) fn write_pages(&self, keys: &[Vec<u8>]) -> Result<Progress> {
        let (mut progress, leftover) = self.write_batch(keys)?;
        progress.add(self.reorganise(&leftover.full, false)?);
        progress.add(self.reorganise(&leftover.sparse, true)?);
        Ok(progress)
    }

    /// Pages of one batch: fewer where the budget is small, since a batch holds two frames a page for a while.
    pub(crate) fn batch_pages(&self) -> usize {
        (self.context.shared.memory.budget() >> 18).clamp(32, DOUBLE_WRITE_PAGES)
    }

    fn write_batch(&self, keys: &[Vec<u8>]) -> Result<(Progress, Leftover)> {
        let mut claim = self.store.claims.claim();
        let (detached, left) = self.detach(&mut claim, keys);
        let mut progress = Progress { is_any: !detached.is_empty(), left };
        let leftover = self.write_detached(detached, true)?;
        // Of what was not written whoever reorganises takes more.
        let is_written = |left: &Stretch| {
            leftover
                .unwritten
                .iter()
                .all(|page| page.taken.as_ref().is_none_or(|taken| taken.upper.as_ref() != Some(&left.lower)))
        };
        progress.left.retain(is_written);
        // They are dirty still.
        Ok((progress, Leftover { unwritten: Vec::new(), ..leftover }))
    }

    /// Writes pages that are claimed, with records of theirs, that are dirty or that somebody brings. The forecast is told of those that are `inserts`.
    pub(crate) fn write_detached(&self, detached: Vec<Detached>, inserts: bool) -> Result<Leftover> {
        let mut jobs = Vec::new();
        let mut leftover = Leftover::default();
        let prepared = self.prepare_jobs(detached, &mut jobs, &mut leftover);
        let attached = prepared.and_then(|()| self.sync_log()).and_then(|()| self.attach_fresh(&jobs));
        // No index names its new pages.
        let attached = attached.or_else(|error| self.store.space.free_now(&new_pages(&jobs)).and(Err(error)));
        let written = attached.and_then(|()| self.write_in_place(&mut jobs));
        for taken in jobs.iter().filter_map(|job| job.taken.as_ref()) {
            match &written {
                Ok(()) => self.end_write(taken),
                Err(_) => self.abort_write(taken),
            }
        }
        if written.is_ok() && inserts {
            let added = jobs.iter().flat_map(|job| &job.added).map(Vec::as_slice);
            self.forecast.observe(added, jobs.iter().map(|job| job.removed).sum());
        }
        self.counters.write_outs.add(jobs.len() as u64);
        written.map(|()| leftover)
    }

    /// Claims the pages of some keys and takes what is dirty of them. Gives what was left of that, too.
    fn detach(&self, claim: &mut Claim<'_>, keys: &[Vec<u8>]) -> (Vec<Detached>, Vec<Stretch>) {
        let (mut detached, mut left) = (Vec::with_capacity(keys.len()), Vec::new());
        for key in keys {
            let page = self.store.index.lookup(key).page;
            if !claim.try_add(page) {
                continue;
            }
            let (home, stretch) = self.store.locate(key).home(key);
            // It may have become another page until the claim.
            let taken = (home.page == page).then(|| self.cache.begin_write(self.space(), &stretch, PAGE_BYTES));
            match taken.filter(|(dirty, _)| !dirty.is_empty()) {
                Some((dirty, taken)) => {
                    left.extend(stretch.behind(&taken));
                    detached.push(Detached { home, dirty, taken: Some(taken) });
                }
                None => claim.release(page),
            }
        }
        (detached, left)
    }

    /// Reads the pages and decides what becomes of each. What cannot be written is dirty as before. After an error nothing is left detached but `jobs`.
    fn prepare_jobs(&self, mut detached: Vec<Detached>, jobs: &mut Vec<Job>, leftover: &mut Leftover) -> Result<()> {
        let homes: Vec<Home> = detached.iter().map(|detached| detached.home).collect();
        let mut failure = None;
        match self.store.read(&homes, Cause::WriteOut) {
            Err(error) => failure = Some(error),
            Ok(stored) => {
                let mut stored = stored.into_iter();
                // The pages of a segment are neighbours.
                for detached in detached.chunk_by_mut(|one, next| one.home.segment == next.home.segment) {
                    let stored = stored.by_ref().take(detached.len()).collect();
                    let prepared = self.prepare_segment(stored, detached, jobs, leftover);
                    failure = failure.or(prepared.err());
                }
            }
        }
        detached.retain(|detached| !detached.dirty.is_empty());
        detached.iter().filter_map(|detached| detached.taken.as_ref()).for_each(|taken| self.abort_write(taken));
        leftover.unwritten = detached;
        // Without space for new pages the others can still be written.
        match failure {
            Some(error) if !error.is_no_space() || jobs.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    /// Decides for some pages of one segment: all of them are written, or none is and the segment is reorganised. Its fresh pages then take the records of all
    /// along.
    fn prepare_segment(
        &self,
        stored: Vec<Stored>,
        detached: &mut [Detached],
        jobs: &mut Vec<Job>,
        leftover: &mut Leftover,
    ) -> Result<()> {
        let merged = stored.into_iter().zip(&*detached).map(|(stored, detached)| self.merge(stored, detached));
        let merged = merged.collect::<Result<Vec<_>>>()?.into_iter().collect::<Option<Vec<Merged>>>();
        let Some(merged) = merged.filter(|merged| self.has_room_for(merged, detached)) else {
            leftover.full.extend(detached[0].dirty.first().map(|record| record.key.clone()));
            return Ok(());
        };
        let mut failure = None;
        for (merged, detached) in merged.into_iter().zip(detached) {
            let is_sparse = merged.is_sparse() && self.store.index.segments() > 1;
            match self.prepare_job(merged, detached) {
                Err(error) => failure = Some(error),
                Ok(job) => {
                    jobs.push(job);
                    let key = detached.dirty.drain(..).next().map(|record| record.key);
                    leftover.sparse.extend(key.filter(|_| is_sparse));
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// What becomes of a page with its dirty records; none if it cannot take them.
    fn merge(&self, stored: Stored, detached: &Detached) -> Result<Option<Merged>> {
        let (base, overflow) = self.store.claimed_pages(&stored)?;
        let ends = [detached.dirty.first(), detached.dirty.last()];
        if !ends.into_iter().flatten().all(|record| base.covers(&record.key)) {
            return Err(self.store.damage(stored.home.page, Strange::Other));
        }
        match merge::write_out(&base, overflow.as_ref(), &detached.dirty) {
            Outcome::Reorganise => Ok(None),
            Outcome::Pages(changed) => {
                let added = self.added(&(base, overflow), &detached.dirty);
                Ok(Some(Merged { stored, changed, added }))
            }
        }
    }

    /// Whether the segment of these pages may have the overflow pages that they need.
    fn has_room_for(&self, merged: &[Merged], detached: &[Detached]) -> bool {
        let needed = merged.iter().filter(|merged| merged.needs_page()).count();
        let segment = || self.store.segment(&detached[0].dirty[0].key).1;
        needed == 0 || segment().has_room_for(needed)
    }

    /// Builds the new pages at once, so that of a batch little but these is kept until they are written.
    fn prepare_job(&self, merged: Merged, detached: &Detached) -> Result<Job> {
        let Merged { stored, changed, added } = merged;
        let base = Page::reparse(&stored.base).expect("the page was looked at");
        let (in_place, fresh) = self.build_pages(&stored, &base, &changed, &detached.dirty)?;
        Ok(Job { taken: detached.taken.clone(), in_place, fresh, added, removed: changed.removed })
    }

    /// The pages of a home as they are to be: those that have their place, and a new overflow page.
    fn build_pages(&self, stored: &Stored, base: &Page<'_>, changed: &Changed, dirty: &[DirtyRecord]) -> Result<Built> {
        let Home { page, overflow, .. } = stored.home;
        self.context.begin_session()?;
        let lease = || self.context.shared.memory.lease_essential(Component::Frames, Size::Frame);
        let build = |mut block: Block, content: &Content, kind, place| {
            let related = if kind == PageKind::Base { base.related() } else { page };
            let shape = Shape { kind, related, lower: base.lower(), upper: base.upper() };
            content.build(&mut block, self.store.file.place(place), shape, base, dirty, self.page_sequence());
            block
        };
        let (mut in_place, mut fresh) = ([None, None], None);
        if let Some(content) = &changed.base {
            in_place[0] = Some(self.page_write(page, &stored.base, build(lease()?, content, PageKind::Base, page)));
        }
        if let Some(content) = &changed.overflow {
            let block = lease()?;
            if let Some(old) = &stored.overflow {
                in_place[1] = Some(self.page_write(overflow, old, build(block, content, PageKind::Overflow, overflow)));
            } else if let Some(&overflow) = self.allocate(&[1])?.first() {
                let attach = Attach { lower: self.store.segment(base.lower()).0, page, overflow };
                fresh = Some((attach, build(block, content, PageKind::Overflow, overflow)));
            }
        }
        Ok((in_place, fresh))
    }

    fn page_write(&self, page: u32, old: &Block, block: Block) -> PageWrite {
        PageWrite { file: self.store.file.file().clone(), page, sectors: changed_sectors(old, &block), block }
    }

    /// The keys of dirty records that neither page has, for the forecast.
    pub(crate) fn added(&self, (base, overflow): &Pages<'_>, dirty: &[DirtyRecord]) -> Vec<Vec<u8>> {
        if !self.forecast.is_on() {
            return Vec::new();
        }
        merge::added(base, overflow.as_ref(), dirty).map(<[u8]>::to_vec).collect()
    }

    /// Takes free runs of so many pages, those that the log has freed meanwhile included; gives the first page of each. Where much waits for a sync of the log, which
    /// nobody else may ask for without logged writes, and where the file cannot grow, the log is synced to have all that it frees.
    pub(crate) fn allocate(&self, runs: &[u8]) -> Result<Vec<u32>> {
        let space = &self.store.space;
        space.release(self.context.shared.wal.synced());
        if space.owes_much() {
            self.free_all()?;
        }
        match space.allocate_runs(runs) {
            Err(error) if error.is_no_space() => {
                self.free_all()?;
                space.allocate_runs(runs)
            }
            taken => taken,
        }
    }

    fn free_all(&self) -> Result<()> {
        let wal = &self.context.shared.wal;
        wal.commit(wal.tail(), Durability::Sync)?;
        self.store.space.release(wal.synced());
        Ok(())
    }

    /// The write-ahead rule, for everything that is detached now.
    pub(crate) fn sync_log(&self) -> Result<()> {
        if !self.context.logged || bug!(SkipWriteAhead) {
            return Ok(());
        }
        self.context.shared.wal.commit(self.context.shared.wal.tail(), Durability::Sync)
    }

    /// Writes new overflow pages into free space, syncs them, and has the index name them.
    fn attach_fresh(&self, jobs: &[Job]) -> Result<()> {
        let (attach, blocks): (Vec<Attach>, Vec<&Block>) = fresh(jobs).map(|(attach, block)| (attach.clone(), block)).unzip();
        if attach.is_empty() {
            return Ok(());
        }
        self.write_new(Cause::Overflow, &new_pages(jobs), |i, _, block| block.copy_from_slice(blocks[i]))?;
        let production = self.store.production.load(Ordering::Relaxed);
        let structure = Structure { production, change: Change { attach, ..Change::default() } };
        self.install(&structure).map(|replaced| self.give_back(&replaced))
    }

    /// Writes pages into free space and syncs them. What the page cache has of an earlier life of theirs is forgotten then.
    pub(crate) fn write_new(&self, cause: Cause, pages: &[u32], fill: impl FnMut(usize, Place, &mut [u8])) -> Result<()> {
        self.store.file.writing()?.pages(cause, pages, fill)?;
        self.forget_pages(pages);
        Ok(())
    }

    /// To be called when pages are written, before anything relies on it (decision 8, invariant 17).
    fn forget_pages(&self, pages: &[u32]) {
        pages.iter().for_each(|page| self.pages.forget(self.page_id(*page)));
    }

    /// Writes changed pages through the double-write area.
    fn write_in_place(&self, jobs: &mut [Job]) -> Result<()> {
        let mut writes: Vec<PageWrite> = jobs.iter_mut().flat_map(|job| &mut job.in_place).filter_map(Option::take).collect();
        let pages: Vec<u32> = writes.iter().map(|write| write.page).collect();
        self.store.file.traffic().written(Cause::WriteOut, writes.len());
        let mut queue = self.context.shared.storage.queue()?;
        while !writes.is_empty() {
            let rest = writes.split_off(writes.len().min(DOUBLE_WRITE_PAGES));
            self.context.shared.double_write.write(&mut *queue, writes)?;
            writes = rest;
        }
        self.forget_pages(&pages);
        Ok(())
    }

    /// What a data page that is written now has as its sequence (decision 7, "Which page is current"): it never goes back, also by a power failure, and every
    /// opening makes it higher. Claims on the page, or on what it replaces, are held.
    pub(crate) fn page_sequence(&self) -> Seq {
        self.context.shared.wal.synced().saturating_add(self.context.incarnation())
    }

    /// The background has written out up to this key; where it is below the last one, a round is complete.
    pub(crate) fn elevator_reached(&self, key: &[u8]) {
        let mut elevator = self.counters.elevator.lock();
        let is_round = elevator.as_slice() > key;
        key.clone_into(&mut elevator);
        drop(elevator);
        if is_round {
            self.forecast.round();
        }
    }

    /// All that was brought so far has come, in the whole key space: an epoch of the forecast may end.
    pub(crate) fn all_has_come(&self) {
        self.forecast.round();
    }

    /// All keys, from the one on that the background wrote last, and then from the first.
    pub(crate) fn round(&self) -> Vec<Stretch> {
        let elevator = self.counters.elevator.lock().clone();
        let below = Stretch { lower: Vec::new(), upper: Some(elevator.clone()) };
        let above = Stretch { lower: elevator, upper: None };
        if above.lower.is_empty() { vec![above] } else { vec![above, below] }
    }
}
