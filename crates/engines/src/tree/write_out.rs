//! Write-out: dirty records into their pages, whole chains at a time, in page order (T4; decision 2, "Write-out").

use std::sync::atomic::Ordering;

use ecotone_substrate::{
    Result, Seq, bug,
    double_write::{PageWrite, changed_sectors},
    limits::DOUBLE_WRITE_PAGES,
    memory::Component,
    page::{PageKind, Place},
    storage::Block,
    wal::Durability,
};
use ecotone_sys::chunk::Size;

use super::{
    Tree,
    cache::DirtyRecord,
    claims::Claim,
    index::{Change, Segment},
    merge::{self, Changed, Outcome, Shape},
    records::Records,
    space::Cause,
    store::{Located, Stored},
};

/// A base page whose records take less than this part of a page, after a delete, is put together with a neighbour.
const UNDERFULL: usize = ecotone_substrate::limits::PAGE / 4;

/// Bytes of a chain that one write-out or a reorganisation of several segments takes at most; more than two pages hold would not fit anyway.
pub(crate) const CHAIN_BYTES: usize = 16 << 10;

/// One segment of a batch on its way to disk.
struct Job {
    stored: Stored,
    changed: Changed,
    /// The overflow page that the segment gets, if it had none and needs one.
    fresh: Option<u32>,
}

/// What a batch leaves to reorganisation: a key of each segment, and whether the segment is too empty rather than too full.
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
            let mut progress = false;
            for batch in pages.chunks(self.batch_pages()) {
                progress |= self.write_pages(batch)?;
            }
            if !progress {
                // Others hold the claims; their write-out ends ours.
                self.context.shared.health.check()?;
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        }
        Ok(())
    }

    /// Writes out the chains of these base pages, and reorganises the segments that cannot take theirs. False if nothing could be done since
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
            let page = job.stored.at.segment.page;
            match &written {
                Ok(()) => self.cache.end_write(self.number, page),
                Err(_) => self.cache.abort_write(self.number, page),
            }
        }
        self.counters.write_outs.add(jobs.len() as u64);
        written.map(|()| (progress, leftover))
    }

    /// Claims pages and detaches their chains.
    fn detach(&self, claim: &mut Claim<'_>, pages: &[u32]) -> Vec<(Located, Vec<DirtyRecord>)> {
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
                    let at = self.store.locate(&first.key);
                    debug_assert_eq!(at.segment.page, page, "a chain belongs to a page that the index names");
                    detached.push((at, dirty));
                }
            }
        }
        detached
    }

    /// Reads the pages and decides what becomes of each. What cannot be written goes back to its chain. After an error nothing is left detached but `jobs`.
    fn prepare_jobs(
        &self,
        detached: Vec<(Located, Vec<DirtyRecord>)>,
        jobs: &mut Vec<Job>,
        leftover: &mut Leftover,
    ) -> Result<()> {
        let (located, mut chains): (Vec<_>, Vec<_>) = detached.into_iter().unzip();
        let pages: Vec<u32> = located.iter().map(|at| at.segment.page).collect();
        let mut failure = None;
        match self.store.read(located, Cause::WriteOut) {
            Err(error) => failure = Some(error),
            Ok(stored) => {
                for (stored, dirty) in stored.into_iter().zip(&mut chains) {
                    match self.prepare_job(stored, dirty, leftover) {
                        Ok(job) => jobs.extend(job),
                        Err(error) => failure = failure.or(Some(error)),
                    }
                }
            }
        }
        for (page, _) in pages.into_iter().zip(&chains).filter(|(_, dirty)| !dirty.is_empty()) {
            self.cache.abort_write(self.number, page);
        }
        // Without space for new pages the others can still be written.
        match failure {
            Some(error) if !error.is_no_space() || jobs.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    /// Clears `dirty` if it is to be written.
    fn prepare_job(&self, stored: Stored, dirty: &mut Vec<DirtyRecord>, leftover: &mut Leftover) -> Result<Option<Job>> {
        let (base, overflow) = self.store.claimed_pages(&stored)?;
        let changed = match merge::write_out(&base, overflow.as_ref(), dirty) {
            Outcome::Pages(changed) => changed,
            Outcome::Reorganise => {
                leftover.full.extend(dirty.first().map(|record| record.key.clone()));
                return Ok(None);
            }
        };
        let needs_page = changed.overflow.is_some() && stored.at.segment.overflow == Segment::NONE;
        let fresh = if needs_page { self.allocate(1)?.first().copied() } else { None };
        if changed.shrank && changed.base_bytes < UNDERFULL && self.store.index.segments() > 1 {
            leftover.sparse.push(stored.at.lower.clone());
        }
        dirty.clear();
        Ok(Some(Job { stored, changed, fresh }))
    }

    /// Takes free pages, those that the log has freed meanwhile included.
    pub(crate) fn allocate(&self, pages: usize) -> Result<Vec<u32>> {
        self.store.space.release(self.context.shared.wal.synced());
        self.store.space.allocate(pages)
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
                self.build(block, place, &job.stored.at, Some(job.stored.at.segment.page), records.iter());
            }
        })
    }

    fn attach_fresh(&self, jobs: &[Job]) -> Result<()> {
        let mut change = Change::default();
        for (job, overflow) in jobs.iter().filter_map(|job| Some((job, job.fresh?))) {
            let at = &job.stored.at;
            change.remove.push(at.lower.clone());
            change.insert.push((at.lower.clone(), Segment { page: at.segment.page, overflow }));
        }
        if change.insert.is_empty() {
            return Ok(());
        }
        let installed = self.install(&change).map(|replaced| self.give_back(&replaced));
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
            let Segment { page, overflow } = job.stored.at.segment;
            if let Some(records) = &job.changed.base {
                writes.push(self.page_write(page, &job.stored.base, &job.stored.at, None, records)?);
            }
            if let (Some(records), Some(old)) = (&job.changed.overflow, &job.stored.overflow) {
                writes.push(self.page_write(overflow, old, &job.stored.at, Some(page), records)?);
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

    fn page_write(&self, page: u32, old: &Block, at: &Located, base: Option<u32>, records: &Records) -> Result<PageWrite> {
        let mut block = self.context.shared.memory.lease_essential(Component::Frames, Size::Frame)?;
        self.build(&mut block, self.store.file.place(page), at, base, records.iter());
        Ok(PageWrite { file: self.store.file.file().clone(), page, sectors: changed_sectors(old, &block), block })
    }

    /// Builds the base page of a segment, or with `base` its overflow page.
    pub(crate) fn build<'a>(
        &self,
        block: &mut Block,
        place: Place,
        at: &Located,
        base: Option<u32>,
        records: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        let kind = if base.is_some() { PageKind::Overflow } else { PageKind::Base };
        let shape = Shape { kind, related: base.unwrap_or(0), lower: &at.lower, upper: at.upper.as_deref() };
        merge::build(block, place, shape, records, self.context.shared.wal.tail());
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
