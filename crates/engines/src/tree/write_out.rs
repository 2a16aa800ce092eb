//! Write-out: dirty records into their pages, a segment at a time, in key order (T4; decision 2, "Write-out").

use std::sync::atomic::Ordering;

use ecotone_substrate::{
    Error, Result, Seq, bug,
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
    cache::Stretch,
    claims::Claim,
    dirty::DirtyRecord,
    index::{Attach, Change, Home},
    merge::{self, Changed, Content, Outcome, Shape},
    reorganise::Progress,
    share::{Portion, Share, Taken},
    space::Cause,
    store::{Located, Pages, Strange},
    structure::Structure,
};

/// A base page whose records take less than this part of a page, after a delete, is put together with a neighbour.
const UNDERFULL: usize = ecotone_substrate::limits::PAGE / 4;

/// Dirty bytes that go with one batch at least.
const LEAST_BYTES: usize = 16 << 10;
/// And at most: the structural record must stay within a log record even if every page gets the longest fences.
const MOST_BYTES: usize = 1 << 20;

/// One home of a batch on its way to disk.
struct Job<'t> {
    taken: Option<Taken<'t>>,
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

/// What becomes of the pages of a home.
struct Merged {
    changed: Changed,
    added: Vec<Vec<u8>>,
}

impl Merged {
    /// Whether it needs an overflow page that the home does not have.
    fn needs_page(&self, home: Home) -> bool {
        self.changed.overflow.is_some() && home.overflow == Home::NONE
    }

    /// Whether deletes left its base page too empty.
    fn is_sparse(&self) -> bool {
        self.changed.removed > 0 && self.changed.base_bytes < UNDERFULL
    }
}

/// What could not be written in place.
#[derive(Debug, Default)]
pub(crate) struct Leftover<'t> {
    /// What does not fit into its segment.
    pub(crate) full: Vec<Share<'t>>,
    /// What is for pages that cannot have an overflow page, for want of space.
    pub(crate) failed: Vec<Share<'t>>,
    /// A key of each page that deletes left too empty.
    pub(crate) sparse: Vec<Vec<u8>>,
}

/// The overflow pages that a batch adds.
fn fresh<'j>(jobs: &'j [Job<'_>]) -> impl Iterator<Item = &'j (Attach, Block)> {
    jobs.iter().filter_map(|job| job.fresh.as_ref())
}

/// Whether the segment may have the overflow pages that its pages need.
fn has_room_for(share: &Share<'_>, merged: &[Merged]) -> bool {
    let needed = share.portions.iter().zip(merged).filter(|(portion, merged)| merged.needs_page(portion.home)).count();
    share.at.segment.has_room_for(needed)
}

fn new_pages(jobs: &[Job<'_>]) -> Vec<u32> {
    fresh(jobs).map(|(attach, _)| attach.overflow).collect()
}

impl Tree {
    /// Writes out until nothing below `below` is dirty. One thread sweeps at a time: several that each claim some pages
    /// of a full segment would keep each other from reorganising it, for ever if they are many.
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

    /// Writes out what is dirty of the segments that have these keys: in place where it fits, and else the segments
    /// anew.
    pub(crate) fn write_segments(&self, keys: &[Vec<u8>]) -> Result<Progress> {
        let mut claim = self.store.claims.claim();
        let (shares, left) = self.draw(&mut claim, keys);
        let mut progress = Progress { is_any: !shares.is_empty(), left };
        let leftover = self.write_shares(shares, true)?;
        // Without space for overflow pages the others could still be written.
        drop(leftover.failed);
        let crowded = self.make_segments(&mut claim, leftover.full, &mut progress.left)?;
        drop(claim);
        progress.add(self.reorganise(&crowded, false)?);
        progress.add(self.reorganise(&leftover.sparse, true)?);
        Ok(progress)
    }

    /// Pages of one batch: fewer where the budget is small, since a batch holds two frames a page for a while.
    pub(crate) fn batch_pages(&self) -> usize {
        (self.context.shared.memory.budget() >> 18).clamp(32, DOUBLE_WRITE_PAGES)
    }

    /// At most how many pages of a segment have dirty records.
    pub(crate) fn dirty_pages(&self, at: &Located) -> usize {
        let most = at.segment.base_count().into();
        self.cache.dirty_within(self.space(), &at.all(), most).min(most)
    }

    /// Bytes of dirty records that a batch takes along.
    pub(crate) fn batch_bytes(&self) -> usize {
        (self.context.shared.memory.budget() >> 5).clamp(LEAST_BYTES, MOST_BYTES)
    }

    /// Claims the segments of some keys and takes what is dirty of them. Gives what was left of that, too.
    fn draw(&self, claim: &mut Claim<'_>, keys: &[Vec<u8>]) -> (Vec<Share<'_>>, Vec<Stretch>) {
        let (mut shares, mut left, mut most) = (Vec::new(), Vec::new(), self.batch_bytes());
        for (number, key) in keys.iter().enumerate() {
            let at = self.store.locate(key);
            if most == 0 {
                left.push(Stretch { lower: key.clone(), upper: at.upper });
                continue;
            }
            let Some(at) = self.claim_segment(claim, &at) else { continue };
            let pages = at.segment.base_pages();
            // What has no room on a full disk does not keep all others from being written.
            let of_segment = if number + 1 < keys.len() { most.div_ceil(2) } else { most };
            let (mut share, rest) = self.take(at, of_segment);
            left.extend(rest);
            if share.portions.is_empty() {
                // Nothing is being written of it.
                share.settle();
                claim.release(pages);
                continue;
            }
            most = most.saturating_sub(share.records.bytes());
            shares.push(share);
        }
        (shares, left)
    }

    /// Writes records into the pages of their segments, in place, where they fit: all of a segment, or none. The
    /// forecast is told of those that are `inserts`.
    pub(crate) fn write_shares<'t>(&'t self, shares: Vec<Share<'t>>, inserts: bool) -> Result<Leftover<'t>> {
        let (mut jobs, mut leftover) = (Vec::new(), Leftover::default());
        let prepared = self.prepare(shares, &mut jobs, &mut leftover);
        if prepared.is_ok() && jobs.is_empty() {
            return Ok(leftover);
        }
        let attached = prepared.and_then(|()| self.sync_log()).and_then(|()| self.attach_fresh(&jobs));
        // No index names its new pages.
        attached.or_else(|error| self.store.space.free_now(&new_pages(&jobs)).and(Err(error)))?;
        self.write_in_place(&mut jobs)?;
        if inserts {
            let added = jobs.iter().flat_map(|job| &job.added).map(Vec::as_slice);
            self.forecast.observe(added, jobs.iter().map(|job| job.removed).sum());
        }
        self.counters.write_outs.add(jobs.len() as u64);
        jobs.into_iter().filter_map(|job| job.taken).for_each(Taken::settle);
        Ok(leftover)
    }

    /// Reads the pages and decides what becomes of each.
    fn prepare<'t>(&self, shares: Vec<Share<'t>>, jobs: &mut Vec<Job<'t>>, leftover: &mut Leftover<'t>) -> Result<()> {
        let homes: Vec<Home> = shares.iter().flat_map(|share| &share.portions).map(|portion| portion.home).collect();
        let mut stored = self.store.read(&homes, Cause::WriteOut)?.into_iter();
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
        // Without space for new pages the others can still be written.
        match no_space.filter(|_| jobs.is_empty() && leftover.full.is_empty()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Prepares all pages of a segment that get records, but those for which space is wanting: the error, then.
    fn prepare_pages<'t>(
        &self,
        mut share: Share<'t>,
        merged: Vec<Merged>,
        jobs: &mut Vec<Job<'t>>,
        leftover: &mut Leftover<'t>,
    ) -> Result<Option<Error>> {
        let mut no_space = None;
        let may_join = self.store.index.segments() > 1;
        for (number, merged) in merged.into_iter().enumerate() {
            let taken = share.take_part(number);
            let portion = &share.portions[number];
            let (is_sparse, Merged { changed, added }) = (may_join && merged.is_sparse(), merged);
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

    /// What becomes of a page with its dirty records; none if it cannot take them.
    fn merge(&self, share: &Share<'_>, portion: &Portion) -> Result<Option<Merged>> {
        let stored = portion.stored.as_ref().expect("it was read");
        let (base, overflow) = self.store.claimed_pages(stored)?;
        let dirty = share.records_of(portion);
        if !dirty.clone().all(|record| base.covers(record.key)) {
            return Err(self.store.damage(stored.home.page, Strange::Other));
        }
        match merge::write_out(&base, overflow.as_ref(), dirty.clone()) {
            Outcome::Reorganise => Ok(None),
            Outcome::Pages(changed) => {
                let added = self.added(&(base, overflow), dirty);
                Ok(Some(Merged { changed, added }))
            }
        }
    }

    /// The pages of a home as they are to be: those that have their place, and a new overflow page. They are built at
    /// once, so that of a batch little but these is kept until they are written.
    fn build_pages(&self, share: &Share<'_>, portion: &Portion, changed: &Changed) -> Result<Built> {
        let (stored, dirty) = (portion.stored.as_ref().expect("it was read"), share.records_of(portion));
        let base = &Page::reparse(&stored.base).expect("the page was looked at");
        let Home { page, overflow, .. } = stored.home;
        self.context.begin_session()?;
        let lease = || self.context.shared.memory.lease_essential(Component::Frames, Size::Frame);
        let build = |mut block: Block, content: &Content, kind, place| {
            let related = if kind == PageKind::Base { base.related() } else { page };
            let shape = Shape { kind, related, lower: base.lower(), upper: base.upper() };
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

    /// The keys of dirty records that neither page has, for the forecast.
    fn added<'d>(&self, (base, overflow): &Pages<'_>, dirty: impl Iterator<Item = DirtyRecord<'d>>) -> Vec<Vec<u8>> {
        if !self.forecast.is_on() {
            return Vec::new();
        }
        merge::added(base, overflow.as_ref(), dirty).map(<[u8]>::to_vec).collect()
    }

    /// Takes free runs of so many pages, those that the log has freed meanwhile included; gives the first page of each.
    /// Where much waits for a sync of the log, which nobody else may ask for without logged writes, and where the file
    /// cannot grow, the log is synced to have all that it frees.
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
    fn attach_fresh(&self, jobs: &[Job<'_>]) -> Result<()> {
        let (attach, blocks): (Vec<Attach>, Vec<&Block>) =
            fresh(jobs).map(|(attach, block)| (attach.clone(), block)).unzip();
        if attach.is_empty() {
            return Ok(());
        }
        self.write_new(Cause::Overflow, &new_pages(jobs), |i, _, block| block.copy_from_slice(blocks[i]))?;
        let production = self.store.production.load(Ordering::Relaxed);
        let structure = Structure { production, change: Change { attach, ..Change::default() } };
        self.install(&structure).map(|replaced| self.give_back(&replaced))
    }

    /// Writes pages into free space and syncs them. What the page cache has of an earlier life of theirs is forgotten
    /// then.
    pub(crate) fn write_new(
        &self,
        cause: Cause,
        pages: &[u32],
        fill: impl FnMut(usize, Place, &mut [u8]),
    ) -> Result<()> {
        self.store.file.writing()?.pages(cause, pages, fill)?;
        self.forget_pages(pages);
        Ok(())
    }

    /// To be called when pages are written, before anything relies on it (decision 8, invariant 17).
    fn forget_pages(&self, pages: &[u32]) {
        pages.iter().for_each(|page| self.pages.forget(self.page_id(*page)));
    }

    /// Writes changed pages through the double-write area.
    fn write_in_place(&self, jobs: &mut [Job<'_>]) -> Result<()> {
        let mut writes: Vec<PageWrite> =
            jobs.iter_mut().flat_map(|job| &mut job.in_place).filter_map(Option::take).collect();
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

    /// What a data page that is written now has as its sequence (decision 7, "Which page is current"): it never goes
    /// back, also by a power failure, and every opening makes it higher. Claims on the page, or on what it replaces,
    /// are held.
    pub(crate) fn page_sequence(&self) -> Seq {
        self.context.shared.wal.synced().saturating_add(self.context.incarnation())
    }

    /// The background has written out up to this key.
    pub(crate) fn elevator_reached(&self, key: &[u8]) {
        key.clone_into(&mut self.counters.elevator.lock());
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
