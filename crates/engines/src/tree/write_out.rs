//! Write-out: dirty records into their pages, whole chains at a time, in page order (T4; decision 2, "Write-out").

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
    cache::DirtyRecord,
    claims::Claim,
    index::{Attach, Change, Home, Segment},
    merge::{self, Changed, Outcome, Shape},
    records::Records,
    space::Cause,
    store::{Pages, Stored, Strange},
    structure::Structure,
};

/// A base page whose records take less than this part of a page, after a delete, is put together with a neighbour.
const UNDERFULL: usize = ecotone_substrate::limits::PAGE / 4;

/// Bytes of a chain that one write-out or a reorganisation of several segments takes at most; more than two pages hold would not fit anyway.
pub(crate) const CHAIN_BYTES: usize = 16 << 10;

/// A base page on its way to disk: its records that are dirty, and its segment with the lower fence.
struct Detached {
    home: Home,
    lower: Vec<u8>,
    segment: Segment,
    dirty: Vec<DirtyRecord>,
}

/// One home of a batch on its way to disk.
struct Job {
    stored: Stored,
    /// Lower fence of its segment.
    segment: Vec<u8>,
    changed: Changed,
    /// Keys that were in neither page, if somebody wants to know.
    added: Vec<Vec<u8>>,
    /// The overflow page that it gets, if it had none and needs one.
    fresh: Option<u32>,
}

impl Job {
    /// Whether it needs an overflow page that it does not have.
    fn needs_page(&self) -> bool {
        self.changed.overflow.is_some() && self.stored.home.overflow == Home::NONE
    }

    /// Whether deletes left its base page too empty.
    fn is_sparse(&self) -> bool {
        self.changed.removed > 0 && self.changed.base_bytes < UNDERFULL
    }
}

/// What a batch leaves to reorganisation: a key of each page that is too full, and of each that is too empty.
#[derive(Debug, Default)]
pub(crate) struct Leftover {
    pub(crate) full: Vec<Vec<u8>>,
    pub(crate) sparse: Vec<Vec<u8>>,
}

impl Tree {
    /// Writes out until nothing below `below` is dirty.
    pub(crate) fn write_out_below(&self, below: Seq) -> Result<()> {
        while self.cache.first_dirty(self.number).is_some_and(|first| first < below) {
            let pages = self.cache.dirty_pages(self.number, below);
            if !self.writeback.write_all(&self.context.shared, self, pages)? {
                // Others hold the claims; their write-out ends ours.
                self.context.shared.health.check()?;
                ecotone_sys::primitive::thread::sleep(std::time::Duration::from_micros(100));
            }
        }
        self.forecast.round();
        Ok(())
    }

    /// Writes out the chains of these base pages, and reorganises the segments of those that cannot take theirs. False if nothing could be done since
    /// others hold the claims.
    pub(crate) fn write_pages(&self, pages: &[u32]) -> Result<bool> {
        let (written, leftover) = self.write_batch(pages)?;
        let mut progress = written;
        progress |= self.reorganise(&leftover.full, false)?;
        progress |= self.reorganise(&leftover.sparse, true)?;
        Ok(progress)
    }

    /// Pages of one batch: fewer where the budget is small, since a batch holds two frames a page for a while.
    pub(crate) fn batch_pages(&self) -> usize {
        (self.context.shared.memory.budget() >> 18).clamp(32, DOUBLE_WRITE_PAGES)
    }

    fn write_batch(&self, pages: &[u32]) -> Result<(bool, Leftover)> {
        let mut claim = self.store.claims.claim();
        let detached = self.detach(&mut claim, pages);
        let progress = !detached.is_empty();
        let mut jobs = Vec::new();
        let mut leftover = Leftover::default();
        let written = self.prepare_jobs(detached, &mut jobs, &mut leftover).and_then(|()| {
            self.sync_log()?;
            self.write_fresh(&jobs)?;
            self.attach_fresh(&jobs)?;
            self.write_in_place(&mut jobs)
        });
        for job in &jobs {
            let page = job.stored.home.page;
            match &written {
                Ok(()) => self.cache.end_write(self.number, page),
                Err(_) => self.cache.abort_write(self.number, page),
            }
        }
        if written.is_ok() {
            let added = jobs.iter().flat_map(|job| &job.added).map(Vec::as_slice);
            self.forecast.observe(added, jobs.iter().map(|job| job.changed.removed).sum());
        }
        self.counters.write_outs.add(jobs.len() as u64);
        written.map(|()| (progress, leftover))
    }

    /// Claims pages and detaches their chains.
    fn detach(&self, claim: &mut Claim<'_>, pages: &[u32]) -> Vec<Detached> {
        let mut detached = Vec::with_capacity(pages.len());
        for &page in pages {
            if !claim.try_add(page) {
                continue;
            }
            let dirty = self.cache.begin_write(self.number, page, CHAIN_BYTES);
            match dirty.first() {
                // Its chain was dealt out to other pages meanwhile.
                None => claim.release(page),
                Some(first) => {
                    let (lower, segment) = self.store.segment(&first.key);
                    let home = segment.home(segment.position_of(&lower, &first.key));
                    debug_assert_eq!(home.page, page, "a chain belongs to a page that the index names");
                    detached.push(Detached { home, lower, segment, dirty });
                }
            }
        }
        detached
    }

    /// Reads the pages and decides what becomes of each. What cannot be written goes back to its chain. After an error nothing is left detached but `jobs`.
    fn prepare_jobs(&self, mut detached: Vec<Detached>, jobs: &mut Vec<Job>, leftover: &mut Leftover) -> Result<()> {
        let homes: Vec<Home> = detached.iter().map(|detached| detached.home).collect();
        let mut failure = None;
        match self.store.read(&homes, Cause::WriteOut) {
            Err(error) => failure = Some(error),
            Ok(stored) => {
                let mut stored = stored.into_iter();
                // The pages of a segment are neighbours.
                for detached in detached.chunk_by_mut(|one, next| one.lower == next.lower) {
                    let stored = stored.by_ref().take(detached.len()).collect();
                    let prepared = self.prepare_segment(stored, detached, jobs, leftover);
                    failure = failure.or(prepared.err());
                }
            }
        }
        for detached in detached.iter().filter(|detached| !detached.dirty.is_empty()) {
            self.cache.abort_write(self.number, detached.home.page);
        }
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
        let merged = merged.collect::<Result<Vec<Option<Job>>>>()?.into_iter().collect::<Option<Vec<Job>>>();
        let room_for = |jobs: &Vec<Job>| detached[0].segment.has_room_for(jobs.iter().filter(|job| job.needs_page()).count());
        let Some(merged) = merged.filter(room_for) else {
            leftover.full.push(detached[0].lower.clone());
            return Ok(());
        };
        let mut failure = None;
        for (mut job, detached) in merged.into_iter().zip(detached) {
            if job.needs_page() {
                match self.allocate(&[1]) {
                    Ok(pages) => job.fresh = pages.first().copied(),
                    Err(error) => {
                        failure = Some(error);
                        continue;
                    }
                }
            }
            if job.is_sparse() && self.store.index.segments() > 1 {
                leftover.sparse.extend(detached.dirty.first().map(|record| record.key.clone()));
            }
            detached.dirty.clear();
            jobs.push(job);
        }
        failure.map_or(Ok(()), Err)
    }

    /// What becomes of a page with its dirty records; none if it cannot take them.
    fn merge(&self, stored: Stored, detached: &Detached) -> Result<Option<Job>> {
        let pages = self.store.claimed_pages(&stored)?;
        let ends = [detached.dirty.first(), detached.dirty.last()];
        if !ends.into_iter().flatten().all(|record| pages.0.covers(&record.key)) {
            return Err(self.store.damage(stored.home.page, Strange::Other));
        }
        let Outcome::Pages(changed) = merge::write_out(&pages.0, pages.1.as_ref(), &detached.dirty) else { return Ok(None) };
        let added = self.added(&pages, &detached.dirty);
        Ok(Some(Job { stored, segment: detached.lower.clone(), changed, added, fresh: None }))
    }

    /// The keys of dirty records that neither page has, for the forecast.
    pub(crate) fn added(&self, (base, overflow): &Pages<'_>, dirty: &[DirtyRecord]) -> Vec<Vec<u8>> {
        if !self.forecast.is_on() {
            return Vec::new();
        }
        merge::added(base, overflow.as_ref(), dirty).map(<[u8]>::to_vec).collect()
    }

    /// Takes free runs of so many pages, those that the log has freed meanwhile included; gives the first page of each.
    pub(crate) fn allocate(&self, runs: &[u8]) -> Result<Vec<u32>> {
        self.store.space.release(self.context.shared.wal.synced());
        self.store.space.allocate_runs(runs)
    }

    /// The write-ahead rule, for everything that is detached now.
    pub(crate) fn sync_log(&self) -> Result<()> {
        if !self.context.logged || bug!(SkipWriteAhead) {
            return Ok(());
        }
        self.context.shared.wal.commit(self.context.shared.wal.tail(), Durability::Sync)
    }

    /// Writes new overflow pages into free space and syncs them.
    fn write_fresh(&self, jobs: &[Job]) -> Result<()> {
        let fresh: Vec<(&Job, u32)> = jobs.iter().filter_map(|job| Some((job, job.fresh?))).collect();
        if fresh.is_empty() {
            return Ok(());
        }
        let pages: Vec<u32> = fresh.iter().map(|(_, page)| *page).collect();
        self.store.file.writing()?.pages(Cause::Overflow, &pages, |i, place, block| {
            let (job, _) = &fresh[i];
            if let Some(records) = &job.changed.overflow {
                self.build(block, place, PageKind::Overflow, &job.stored, records);
            }
        })
    }

    fn attach_fresh(&self, jobs: &[Job]) -> Result<()> {
        let attach = |job: &Job| Some(Attach { lower: job.segment.clone(), page: job.stored.home.page, overflow: job.fresh? });
        let attach: Vec<Attach> = jobs.iter().filter_map(attach).collect();
        if attach.is_empty() {
            return Ok(());
        }
        let production = self.store.production.load(Ordering::Relaxed);
        let structure = Structure { production, change: Change { attach, ..Change::default() } };
        let installed = self.install(&structure).map(|replaced| self.give_back(&replaced));
        if installed.is_err() {
            let fresh: Vec<u32> = jobs.iter().filter_map(|job| job.fresh).collect();
            self.store.space.free_now(&fresh)?;
        }
        installed
    }

    /// Writes changed pages through the double-write area.
    fn write_in_place(&self, jobs: &mut [Job]) -> Result<()> {
        let mut writes = Vec::new();
        for job in jobs.iter() {
            let Home { page, overflow } = job.stored.home;
            if let Some(records) = &job.changed.base {
                let build = |block: &mut Block, place| self.build(block, place, PageKind::Base, &job.stored, records);
                writes.push(self.page_write(page, &job.stored.base, build)?);
            }
            if let (Some(records), Some(old)) = (&job.changed.overflow, &job.stored.overflow) {
                let build = |block: &mut Block, place| self.build(block, place, PageKind::Overflow, &job.stored, records);
                writes.push(self.page_write(overflow, old, build)?);
            }
        }
        self.store.file.traffic().written(Cause::WriteOut, writes.len());
        let mut queue = self.context.shared.storage.queue()?;
        while !writes.is_empty() {
            let rest = writes.split_off(writes.len().min(DOUBLE_WRITE_PAGES));
            self.context.shared.double_write.write(&mut *queue, writes)?;
            writes = rest;
        }
        Ok(())
    }

    fn page_write(&self, page: u32, old: &Block, build: impl FnOnce(&mut Block, Place)) -> Result<PageWrite> {
        let mut block = self.context.shared.memory.lease_essential(Component::Frames, Size::Frame)?;
        build(&mut block, self.store.file.place(page));
        Ok(PageWrite { file: self.store.file.file().clone(), page, sectors: changed_sectors(old, &block), block })
    }

    /// Builds a base page anew, with the fences and the production id that it has, or its overflow page.
    fn build(&self, block: &mut Block, place: Place, kind: PageKind, stored: &Stored, records: &Records) {
        let base = Page::reparse(&stored.base).expect("the page was looked at");
        let related = if kind == PageKind::Base { base.related() } else { stored.home.page };
        let shape = Shape { kind, related, lower: base.lower(), upper: base.upper() };
        merge::build(block, place, shape, records.iter(), self.context.shared.wal.tail());
    }

    /// The background has written out up to this page; where it is below the last one, a round is complete.
    pub(crate) fn elevator_reached(&self, page: u32) {
        if self.counters.elevator.swap(page, Ordering::Relaxed) > page {
            self.forecast.round();
        }
    }

    /// The pages that are dirty now, going up from the one that the background wrote last, and then from the lowest.
    pub(crate) fn sweep(&self) -> Vec<u32> {
        let mut dirty = self.cache.dirty_pages(self.number, Seq::MAX);
        let elevator = self.counters.elevator.load(Ordering::Relaxed);
        let from = dirty.partition_point(|page| *page <= elevator);
        dirty.rotate_left(from);
        dirty
    }
}
