//! Write-out: writes dirty records into their pages, segment by segment, in key order (T4; tree.md, "Write-out").
//!
//! A batch claims segments, takes their dirty records, reads their pages, and merges. Changed pages are written in
//! place through the double-write area; new overflow pages go into free space. Segments that are too full are
//! reorganised.

use std::sync::atomic::Ordering;

use ecotone_substrate::{
    Error, Result, Seq, bug,
    double_write::{PageWrite, changed_sectors},
    limits::DOUBLE_WRITE_PAGES,
    memory::Component,
    page::{Page, PageAddress, PageKind},
    storage::Block,
    wal::Durability,
};
use ecotone_sys::chunk::Size;

use super::{
    Tree,
    cache::Stretch,
    claims::Claim,
    dirty::DirtyRecord,
    index::{Attach, IndexEdit, PagePair},
    logged_edit::LoggedEdit,
    merge::{self, ChangedPages, PageContent, PageSpec, WriteOutResult},
    page_allocator::IoPurpose,
    reorganise::Progress,
    segment_update::{PageUpdate, RecordsInFlight, SegmentUpdate},
    store::{PageMismatch, Pages, SegmentRange},
};

/// A base page whose records take fewer bytes than this after a delete is underfull, and is merged with a neighbour.
const UNDERFULL: usize = ecotone_substrate::limits::PAGE / 4;

/// Least limit of the dirty bytes of one batch.
const LEAST_BYTES: usize = 16 << 10;
/// Greatest limit. The structural record must fit into a log record even if every page gets the longest fences.
const MOST_BYTES: usize = 1 << 20;

/// One page pair of a batch on its way to disk.
struct Job<'t> {
    taken: Option<RecordsInFlight<'t>>,
    /// The new versions of its base page and of its present overflow page.
    in_place: [Option<PageWrite>; 2],
    /// The overflow page to be added, if it has none and needs one.
    fresh: Option<(Attach, Block)>,
    /// Keys that were in neither page, if the forecast is on.
    added: Vec<Vec<u8>>,
    /// Number of deleted records.
    removed: usize,
}

/// Pages to be written in place, and the new overflow page.
type Built = ([Option<PageWrite>; 2], Option<(Attach, Block)>);

/// New content of the pages of a page pair.
struct MergedPages {
    changed: ChangedPages,
    added: Vec<Vec<u8>>,
}

impl MergedPages {
    /// Whether a new overflow page is needed.
    fn needs_page(&self, pair: PagePair) -> bool {
        self.changed.overflow.is_some() && pair.overflow == PagePair::NONE
    }

    /// Whether deletes left the base page underfull.
    fn is_sparse(&self) -> bool {
        self.changed.removed > 0 && self.changed.base_bytes < UNDERFULL
    }
}

/// Records that could not be written in place, and underfull pages.
#[derive(Debug, Default)]
pub(crate) struct Leftover<'t> {
    /// Updates that do not fit into their segment.
    pub(crate) full: Vec<SegmentUpdate<'t>>,
    /// Updates of pages that need an overflow page when disk space is short.
    pub(crate) failed: Vec<SegmentUpdate<'t>>,
    /// A key of each underfull page.
    pub(crate) sparse: Vec<Vec<u8>>,
}

/// The overflow pages that a batch adds.
fn fresh<'j>(jobs: &'j [Job<'_>]) -> impl Iterator<Item = &'j (Attach, Block)> {
    jobs.iter().filter_map(|job| job.fresh.as_ref())
}

/// Whether the segment can hold the overflow pages that its pages need.
fn has_room_for(share: &SegmentUpdate<'_>, merged: &[MergedPages]) -> bool {
    let needed = share.portions.iter().zip(merged).filter(|(portion, merged)| merged.needs_page(portion.pair)).count();
    share.at.segment.has_room_for(needed)
}

fn new_pages(jobs: &[Job<'_>]) -> Vec<u32> {
    fresh(jobs).map(|(attach, _)| attach.overflow).collect()
}

impl Tree {
    /// Writes out until no record below `below` is dirty. One thread sweeps at a time: several threads that each claim
    /// some pages of a full segment could prevent each other from reorganising it, possibly forever.
    pub(crate) fn write_out_below(&self, below: Seq) -> Result<()> {
        let is_dirty = || self.cache.next_dirty(self.space(), &Stretch::default(), below).is_some();
        while is_dirty() {
            // The jobs of a manual scheduler run on the waiting thread, which may hold the job lock already.
            let turn = if self.is_threaded() { Some(self.sweeping.lock()) } else { self.sweeping.try_lock() };
            // Another thread may have swept meanwhile.
            let swept = if is_dirty() { self.writeback.write_all(&self.context.shared, self, below) } else { Ok(true) };
            drop(turn);
            self.writeback.swept(&self.context.shared);
            if !swept? {
                // Other operations hold the claims. Each is short: a check or a reorganisation.
                self.context.shared.health.check()?;
                ecotone_sys::primitive::thread::sleep(std::time::Duration::from_micros(100));
            }
        }
        self.forecast.round();
        Ok(())
    }

    /// Writes out the dirty records of the segments of these keys: in place where they fit, otherwise by rebuilding the
    /// segment.
    pub(crate) fn write_segments(&self, keys: &[Vec<u8>]) -> Result<Progress> {
        let mut claim = self.store.claims.claim();
        let (shares, left) = self.claim_and_take(&mut claim, keys);
        let mut progress = Progress { is_any: !shares.is_empty(), left };
        let leftover = self.write_shares(shares, true)?;
        // Updates that lack space for overflow pages become dirty again; the others are written.
        drop(leftover.failed);
        let crowded = self.make_segments(&mut claim, leftover.full, &mut progress.left)?;
        drop(claim);
        progress.add(self.reorganise(&crowded, false)?);
        progress.add(self.reorganise(&leftover.sparse, true)?);
        Ok(progress)
    }

    /// Pages of one batch. Fewer if the memory budget is small, since a batch holds two frames a page for a while.
    pub(crate) fn batch_pages(&self) -> usize {
        (self.context.shared.memory.budget() >> 18).clamp(32, DOUBLE_WRITE_PAGES)
    }

    /// Upper bound of the number of pages of a segment that have dirty records.
    pub(crate) fn dirty_pages(&self, at: &SegmentRange) -> usize {
        let most = at.segment.base_count().into();
        self.cache.dirty_within(self.space(), &at.all(), most).min(most)
    }

    /// Bytes of dirty records that a batch takes.
    pub(crate) fn batch_bytes(&self) -> usize {
        (self.context.shared.memory.budget() >> 5).clamp(LEAST_BYTES, MOST_BYTES)
    }

    /// Claims the segments of some keys and takes their dirty records. Also returns the ranges that were left.
    fn claim_and_take(&self, claim: &mut Claim<'_>, keys: &[Vec<u8>]) -> (Vec<SegmentUpdate<'_>>, Vec<Stretch>) {
        let (mut shares, mut left, mut most) = (Vec::new(), Vec::new(), self.batch_bytes());
        for (number, key) in keys.iter().enumerate() {
            let at = self.store.locate(key);
            if most == 0 {
                left.push(Stretch { lower: key.clone(), upper: at.upper });
                continue;
            }
            let Some(at) = self.claim_segment(claim, &at) else { continue };
            let pages = at.segment.base_pages();
            // A segment gets at most half of the remaining bytes: records that find no space on a full disk must not
            // keep all others from being written.
            let of_segment = if number + 1 < keys.len() { most.div_ceil(2) } else { most };
            let (mut share, rest) = self.take(at, of_segment);
            left.extend(rest);
            if share.portions.is_empty() {
                // The segment has no dirty records.
                share.settle();
                claim.release(pages);
                continue;
            }
            most = most.saturating_sub(share.records.bytes());
            shares.push(share);
        }
        (shares, left)
    }

    /// Writes records into the pages of their segments, in place, where they fit: all of a segment or none. With
    /// `inserts`, the forecast counts the new keys.
    pub(crate) fn write_shares<'t>(&'t self, shares: Vec<SegmentUpdate<'t>>, inserts: bool) -> Result<Leftover<'t>> {
        let (mut jobs, mut leftover) = (Vec::new(), Leftover::default());
        let prepared = self.prepare(shares, &mut jobs, &mut leftover);
        if prepared.is_ok() && jobs.is_empty() {
            return Ok(leftover);
        }
        let attached = prepared.and_then(|()| self.sync_log()).and_then(|()| self.attach_fresh(&jobs));
        // After an error no index refers to the new pages.
        attached.or_else(|error| self.store.space.free_now(&new_pages(&jobs)).and(Err(error)))?;
        self.write_in_place(&mut jobs)?;
        if inserts {
            let added = jobs.iter().flat_map(|job| &job.added).map(Vec::as_slice);
            self.forecast.observe(added, jobs.iter().map(|job| job.removed).sum());
        }
        self.counters.write_outs.add(jobs.len() as u64);
        jobs.into_iter().filter_map(|job| job.taken).for_each(RecordsInFlight::settle);
        Ok(leftover)
    }

    /// Reads the pages and merges the records into them.
    fn prepare<'t>(
        &self,
        shares: Vec<SegmentUpdate<'t>>,
        jobs: &mut Vec<Job<'t>>,
        leftover: &mut Leftover<'t>,
    ) -> Result<()> {
        let pairs: Vec<PagePair> =
            shares.iter().flat_map(|share| &share.portions).map(|portion| portion.pair).collect();
        let mut stored = self.store.read(&pairs, IoPurpose::WriteOut)?.into_iter();
        let mut no_space = None;
        for mut share in shares {
            share.portions.iter_mut().for_each(|portion| portion.stored = stored.next());
            let merged =
                share.portions.iter().map(|portion| self.merge(&share, portion)).collect::<Result<Vec<_>>>()?;
            match merged.into_iter().collect::<Option<Vec<_>>>().filter(|merged| has_room_for(&share, merged)) {
                None => leftover.full.push(share),
                Some(merged) => no_space = self.prepare_pages(share, merged, jobs, leftover)?.or(no_space),
            }
        }
        // If space for new pages is short, the other pages can still be written.
        match no_space.filter(|_| jobs.is_empty() && leftover.full.is_empty()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Prepares all pages of a segment that get records, except those that lack disk space. Returns the error for
    /// these.
    fn prepare_pages<'t>(
        &self,
        mut share: SegmentUpdate<'t>,
        merged: Vec<MergedPages>,
        jobs: &mut Vec<Job<'t>>,
        leftover: &mut Leftover<'t>,
    ) -> Result<Option<Error>> {
        let mut no_space = None;
        let may_join = self.store.index.segments() > 1;
        for (number, merged) in merged.into_iter().enumerate() {
            let taken = share.take_part(number);
            let portion = &share.portions[number];
            let (is_sparse, MergedPages { changed, added }) = (may_join && merged.is_sparse(), merged);
            match self.build_pages(&share, portion, &changed) {
                Err(error) if error.is_no_space() => {
                    no_space = Some(error);
                    leftover.failed.push(share.of_page(portion, taken));
                }
                Err(error) => return Err(error),
                Ok((in_place, fresh)) => {
                    let first = share.records_of(portion).next().map(|record| record.key.to_vec());
                    leftover.sparse.extend(first.filter(|_| is_sparse));
                    jobs.push(Job { taken, in_place, fresh, added, removed: changed.removed });
                }
            }
        }
        Ok(no_space)
    }

    /// Merges dirty records into a page; `None` if they do not fit.
    fn merge(&self, share: &SegmentUpdate<'_>, portion: &PageUpdate) -> Result<Option<MergedPages>> {
        let stored = portion.stored.as_ref().expect("it was read");
        let (base, overflow) = self.store.claimed_pages(stored)?;
        let dirty = share.records_of(portion);
        if !dirty.clone().all(|record| base.covers(record.key)) {
            return Err(self.store.damage(stored.pair.page, PageMismatch::Other));
        }
        match merge::write_out(&base, overflow.as_ref(), dirty.clone()) {
            WriteOutResult::Reorganise => Ok(None),
            WriteOutResult::Pages(changed) => {
                let added = self.added(&(base, overflow), dirty);
                Ok(Some(MergedPages { changed, added }))
            }
        }
    }

    /// Builds the new pages of a page pair: those to be written in place, and a new overflow page. They are built at
    /// once, so that a batch keeps little more than these until they are written.
    fn build_pages(&self, share: &SegmentUpdate<'_>, portion: &PageUpdate, changed: &ChangedPages) -> Result<Built> {
        let (stored, dirty) = (portion.stored.as_ref().expect("it was read"), share.records_of(portion));
        let base = &Page::reparse(&stored.base).expect("the page was looked at");
        let PagePair { page, overflow, .. } = stored.pair;
        self.context.begin_session()?;
        let lease = || self.context.shared.memory.lease_essential(Component::Frames, Size::Frame);
        let build = |mut block: Block, content: &PageContent, kind, place| {
            let related = if kind == PageKind::Base { base.related() } else { page };
            let shape = PageSpec { kind, related, lower: base.lower(), upper: base.upper() };
            content.build(&mut block, self.store.file.place(place), shape, base, dirty.clone(), self.page_sequence());
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
                let attach = Attach { lower: share.at.lower.clone(), page, overflow };
                fresh = Some((attach, build(block, content, PageKind::Overflow, overflow)));
            }
        }
        Ok((in_place, fresh))
    }

    fn page_write(&self, page: u32, old: &Block, block: Block) -> PageWrite {
        PageWrite { file: self.store.file.file().clone(), page, sectors: changed_sectors(old, &block), block }
    }

    /// Keys of dirty records that neither page has, for the forecast.
    fn added<'d>(&self, (base, overflow): &Pages<'_>, dirty: impl Iterator<Item = DirtyRecord<'d>>) -> Vec<Vec<u8>> {
        if !self.forecast.is_on() {
            return Vec::new();
        }
        merge::added(base, overflow.as_ref(), dirty).map(<[u8]>::to_vec).collect()
    }

    /// Allocates runs of pages, including pages freed by syncs of the log meanwhile. Returns the first page of each
    /// run. Syncs the log to free all pending pages if many pages wait for a sync, which may not come without logged
    /// writes, or if the file cannot grow.
    pub(crate) fn allocate(&self, runs: &[u8]) -> Result<Vec<u32>> {
        let space = &self.store.space;
        space.release(self.context.shared.wal.synced());
        if space.has_many_pending_frees() {
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

    /// The write-ahead rule: syncs the log up to its tail before any taken record is written to a page.
    pub(crate) fn sync_log(&self) -> Result<()> {
        if !self.context.logged || bug!(SkipWriteAhead) {
            return Ok(());
        }
        self.context.shared.wal.commit(self.context.shared.wal.tail(), Durability::Sync)
    }

    /// Writes new overflow pages into free space, syncs them, and attaches them in the index.
    fn attach_fresh(&self, jobs: &[Job<'_>]) -> Result<()> {
        let (attach, blocks): (Vec<Attach>, Vec<&Block>) =
            fresh(jobs).map(|(attach, block)| (attach.clone(), block)).unzip();
        if attach.is_empty() {
            return Ok(());
        }
        self.write_new(IoPurpose::Overflow, &new_pages(jobs), |i, _, block| block.copy_from_slice(blocks[i]))?;
        let production = self.store.production.load(Ordering::Relaxed);
        let structure = LoggedEdit { production, change: IndexEdit { attach, ..IndexEdit::default() } };
        self.install(&structure).map(|replaced| self.give_back(&replaced))
    }

    /// Writes pages into free space and syncs them. Then drops what the page cache has of their former content.
    pub(crate) fn write_new(
        &self,
        cause: IoPurpose,
        pages: &[u32],
        fill: impl FnMut(usize, PageAddress, &mut [u8]),
    ) -> Result<()> {
        self.store.file.writing()?.pages(cause, pages, fill)?;
        self.forget_pages(pages);
        Ok(())
    }

    /// Drops pages from the page cache. Must be called after pages are written, before anything relies on the new
    /// content (tree-protocol.md, invariant 17).
    fn forget_pages(&self, pages: &[u32]) {
        pages.iter().for_each(|page| self.pages.forget(self.page_id(*page)));
    }

    /// Writes changed pages through the double-write area.
    fn write_in_place(&self, jobs: &mut [Job<'_>]) -> Result<()> {
        let mut writes: Vec<PageWrite> =
            jobs.iter_mut().flat_map(|job| &mut job.in_place).filter_map(Option::take).collect();
        let pages: Vec<u32> = writes.iter().map(|write| write.page).collect();
        self.store.file.traffic().written(IoPurpose::WriteOut, writes.len());
        let mut queue = self.context.shared.storage.queue()?;
        while !writes.is_empty() {
            let rest = writes.split_off(writes.len().min(DOUBLE_WRITE_PAGES));
            self.context.shared.double_write.write(&mut *queue, writes)?;
            writes = rest;
        }
        self.forget_pages(&pages);
        Ok(())
    }

    /// The sequence of a data page that is written now (repair.md, "Which page is current"). It never decreases, not
    /// even after a power failure, and every open raises it. The caller holds claims on the page or on the pages that
    /// it replaces.
    pub(crate) fn page_sequence(&self) -> Seq {
        self.context.shared.wal.synced().saturating_add(self.context.incarnation())
    }

    /// Notes the key up to which the background has written out.
    pub(crate) fn note_sweep_position(&self, key: &[u8]) {
        key.clone_into(&mut self.counters.elevator.lock());
    }

    /// Notes that a round over the whole key space has ended, so an epoch of the forecast may end.
    pub fn end_forecast_round(&self) {
        self.forecast.round();
    }

    /// The ranges of a background round: all keys from its last position on, then those below.
    pub(crate) fn round(&self) -> Vec<Stretch> {
        let elevator = self.counters.elevator.lock().clone();
        let below = Stretch { lower: Vec::new(), upper: Some(elevator.clone()) };
        let above = Stretch { lower: elevator, upper: None };
        if above.lower.is_empty() { vec![above] } else { vec![above, below] }
    }
}
