//! Write-out: writes dirty records into their pages, segment by segment, in key order (T4; tree.md, "Write-out").
//!
//! One batch:
//! 1. claims segments and takes their dirty records, as [`SegmentUpdate`]s;
//! 2. reads their pages and merges the records into them;
//! 3. syncs the log as far as the records go;
//! 4. writes new overflow pages into free space and attaches them in the index, by one structural record;
//! 5. writes changed pages in place, through the double-write area, and makes their records clean;
//! 6. has the [`Reorganiser`] replace the segments that are too full, and merge those with underfull pages.
//!
//! The order of what reaches the disk is in tree-protocol.md, "Crash order".
//!
//! A [`Sweep`](crate::sweep::Sweep) divides the dirty records into batches; [`Writeback`](crate::writeback::Writeback)
//! runs the sweeps.

use std::sync::{Arc, atomic::Ordering};

use ecotone_engine::{job_lock::JobLock, superseded::LeftOut};
use ecotone_substrate::{
    Error, Result,
    double_write::PageWrite,
    lock_rank::LockRank,
    metrics::Counter,
    page::{Page, PageKind},
    storage::Block,
};
use ecotone_sys::primitive::Mutex;

use super::{
    cache::KeySpan,
    claims::Claim,
    dirty::DirtyRecord,
    forecast::Forecast,
    index::{Attach, IndexEdit, PagePair},
    keyspace_cache::KeyspaceCache,
    logged_edit::LoggedEdit,
    merge::{self, ChangedPages, PageContent, PageSpec, WriteOutResult},
    page_allocator::IoPurpose,
    page_writer::PageWriter,
    reorganise::{Progress, Reorganiser},
    segment_update::{PageUpdate, RecordsInFlight, SegmentUpdate},
    store::{PageMismatch, Pages, Store},
    structure_log::StructureLog,
};

/// A base page whose records take fewer bytes than this after a delete is underfull, and is merged with a neighbour.
const UNDERFULL: usize = ecotone_substrate::limits::PAGE / 4;

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
    /// Versions that leave its pages.
    left_out: LeftOut,
}

/// Pages to be written in place, and the new overflow page.
type Built = ([Option<PageWrite>; 2], Option<(Attach, Block)>);

/// New content of the pages of a page pair.
struct MergedPages {
    changed: ChangedPages,
    added: Vec<Vec<u8>>,
    left_out: LeftOut,
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
fn has_room_for(update: &SegmentUpdate<'_>, merged: &[MergedPages]) -> bool {
    let needed = update
        .page_updates
        .iter()
        .zip(merged)
        .filter(|(page_update, merged)| merged.needs_page(page_update.pair))
        .count();
    update.at.segment.has_room_for(needed)
}

fn new_pages(jobs: &[Job<'_>]) -> Vec<u32> {
    fresh(jobs).map(|(attach, _)| attach.overflow).collect()
}

/// The write-out of one keyspace.
#[derive(Debug)]
pub(crate) struct WriteOut {
    /// The number of the keyspace.
    pub(crate) keyspace: u32,
    pub(crate) cache: Arc<KeyspaceCache>,
    pub(crate) store: Arc<Store>,
    pub(crate) writer: Arc<PageWriter>,
    structure_log: Arc<StructureLog>,
    pub(crate) reorganiser: Arc<Reorganiser>,
    pub(crate) forecast: Arc<Forecast>,
    /// The job lock of a sweep over the dirty records, held across I/O. One thread sweeps at a time: several threads
    /// that each claim some pages of a full segment could prevent each other from reorganising it, possibly forever.
    pub(crate) sweeping: JobLock,
    /// The key up to which the background sweep has written out.
    elevator: Mutex<Vec<u8>>,
    /// Page pairs written out.
    pub(crate) written: Counter,
}

impl WriteOut {
    pub(crate) fn new(
        keyspace: u32,
        cache: Arc<KeyspaceCache>,
        store: Arc<Store>,
        writer: Arc<PageWriter>,
        structure_log: Arc<StructureLog>,
        reorganiser: Arc<Reorganiser>,
        forecast: Arc<Forecast>,
    ) -> Self {
        WriteOut {
            keyspace,
            cache,
            store,
            writer,
            structure_log,
            reorganiser,
            forecast,
            sweeping: JobLock::of(LockRank::FlushLock),
            elevator: Mutex::default(),
            written: Counter::default(),
        }
    }

    /// Writes out the dirty records of the segments of these keys: in place where they fit, otherwise by rebuilding the
    /// segment.
    pub(crate) fn write_segments(&self, keys: &[Vec<u8>]) -> Result<Progress> {
        let mut claim = self.store.claims.claim();
        let (updates, left) = self.claim_and_take(&mut claim, keys);
        let mut progress = Progress { is_any: !updates.is_empty(), left };
        let leftover = self.write_updates(updates, true)?;
        // Updates that lack space for overflow pages become dirty again; the others are written.
        drop(leftover.failed);
        let crowded = self.reorganiser.make_segments(&mut claim, leftover.full, &mut progress.left)?;
        drop(claim);
        progress.add(self.reorganiser.reorganise(&crowded, false)?);
        progress.add(self.reorganiser.reorganise(&leftover.sparse, true)?);
        Ok(progress)
    }

    /// Claims the segments of some keys and takes their dirty records. Also returns the ranges that were left.
    fn claim_and_take(&self, claim: &mut Claim<'_>, keys: &[Vec<u8>]) -> (Vec<SegmentUpdate<'_>>, Vec<KeySpan>) {
        let (mut updates, mut left, mut most) = (Vec::new(), Vec::new(), self.writer.batch_bytes());
        for (number, key) in keys.iter().enumerate() {
            let at = self.store.locate(key);
            if most == 0 {
                left.push(KeySpan { lower: key.clone(), upper: at.upper });
                continue;
            }
            let Some(at) = self.store.claim_segment(claim, &at) else { continue };
            let pages = at.segment.base_pages();
            // A segment gets at most half of the remaining bytes: records that find no space on a full disk must not
            // keep all others from being written.
            let of_segment = if number + 1 < keys.len() { most.div_ceil(2) } else { most };
            let (mut update, rest) = SegmentUpdate::take(&self.cache, at, of_segment);
            left.extend(rest);
            if update.page_updates.is_empty() {
                // The segment has no dirty records.
                update.settle();
                claim.release(pages);
                continue;
            }
            most = most.saturating_sub(update.records.bytes());
            updates.push(update);
        }
        (updates, left)
    }

    /// Writes records into the pages of their segments, in place, where they fit: all of a segment or none. With
    /// `inserts`, the forecast counts the new keys.
    pub(crate) fn write_updates<'t>(&'t self, updates: Vec<SegmentUpdate<'t>>, inserts: bool) -> Result<Leftover<'t>> {
        let (mut jobs, mut leftover) = (Vec::new(), Leftover::default());
        let prepared = self.prepare(updates, &mut jobs, &mut leftover);
        if prepared.is_ok() && jobs.is_empty() {
            return Ok(leftover);
        }
        let attach = |queue| self.attach_fresh(&jobs).map(|()| queue);
        let attached =
            prepared.and_then(|()| self.writer.sync_log()).and_then(|()| self.writer.queue()).and_then(attach);
        // After an error no index refers to the new pages.
        let queue = attached.or_else(|error| self.store.space.free_now(&new_pages(&jobs)).and(Err(error)))?;
        let left_out: LeftOut = jobs.iter_mut().map(|job| std::mem::take(&mut job.left_out)).collect();
        let writes = jobs.iter_mut().flat_map(|job| &mut job.in_place).filter_map(Option::take).collect();
        // From here on an error stops all writing (superseded.md, invariant 2).
        self.cache.reports().report_all(&left_out);
        self.writer.write_in_place(queue, writes)?;
        if inserts {
            let added = jobs.iter().flat_map(|job| &job.added).map(Vec::as_slice);
            self.forecast.observe(added, jobs.iter().map(|job| job.removed).sum());
        }
        self.written.add(jobs.len() as u64);
        jobs.into_iter().filter_map(|job| job.taken).for_each(RecordsInFlight::settle);
        Ok(leftover)
    }

    /// Reads the pages and merges the records into them.
    fn prepare<'t>(
        &self,
        updates: Vec<SegmentUpdate<'t>>,
        jobs: &mut Vec<Job<'t>>,
        leftover: &mut Leftover<'t>,
    ) -> Result<()> {
        let pairs: Vec<PagePair> =
            updates.iter().flat_map(|update| &update.page_updates).map(|page_update| page_update.pair).collect();
        let mut stored = self.store.read(&pairs, IoPurpose::WriteOut)?.into_iter();
        let mut no_space = None;
        for mut update in updates {
            update.page_updates.iter_mut().for_each(|page_update| page_update.stored = stored.next());
            let merged = update
                .page_updates
                .iter()
                .map(|page_update| self.merge(&update, page_update))
                .collect::<Result<Vec<_>>>()?;
            match merged.into_iter().collect::<Option<Vec<_>>>().filter(|merged| has_room_for(&update, merged)) {
                None => leftover.full.push(update),
                Some(merged) => no_space = self.prepare_pages(update, merged, jobs, leftover)?.or(no_space),
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
        mut update: SegmentUpdate<'t>,
        merged: Vec<MergedPages>,
        jobs: &mut Vec<Job<'t>>,
        leftover: &mut Leftover<'t>,
    ) -> Result<Option<Error>> {
        let mut no_space = None;
        let may_join = self.store.index.segments() > 1;
        for (number, merged) in merged.into_iter().enumerate() {
            let taken = update.take_part(number);
            let page_update = &update.page_updates[number];
            let (is_sparse, MergedPages { changed, added, left_out }) = (may_join && merged.is_sparse(), merged);
            match self.build_pages(&update, page_update, &changed) {
                Err(error) if error.is_no_space() => {
                    no_space = Some(error);
                    leftover.failed.push(update.of_page(page_update, taken));
                }
                Err(error) => return Err(error),
                Ok((in_place, fresh)) => {
                    let first = update.records_of(page_update).next().map(|record| record.key.to_vec());
                    leftover.sparse.extend(first.filter(|_| is_sparse));
                    jobs.push(Job { taken, in_place, fresh, added, removed: changed.removed, left_out });
                }
            }
        }
        Ok(no_space)
    }

    /// Merges dirty records into a page; `None` if they do not fit.
    fn merge(&self, update: &SegmentUpdate<'_>, page_update: &PageUpdate) -> Result<Option<MergedPages>> {
        let stored = page_update.stored.as_ref().expect("it was read");
        let (base, overflow) = self.store.claimed_pages(stored)?;
        let dirty = update.records_of(page_update);
        if !dirty.clone().all(|record| base.covers(record.key)) {
            return Err(self.store.damage(stored.pair.page, PageMismatch::Other));
        }
        match merge::write_out(&base, overflow.as_ref(), dirty.clone()) {
            WriteOutResult::Reorganise => Ok(None),
            WriteOutResult::Pages(changed) => {
                let (pages, mut left_out) = ((base, overflow), self.cache.reports().left_out());
                merge::collect_left_out(&pages, dirty.clone(), &mut left_out);
                let added = self.added(&pages, dirty);
                Ok(Some(MergedPages { changed, added, left_out }))
            }
        }
    }

    /// Builds the new pages of a page pair: those to be written in place, and a new overflow page. They are built at
    /// once, so that a batch keeps little more than these until they are written.
    fn build_pages(
        &self,
        update: &SegmentUpdate<'_>,
        page_update: &PageUpdate,
        changed: &ChangedPages,
    ) -> Result<Built> {
        let (stored, dirty) = (page_update.stored.as_ref().expect("it was read"), update.records_of(page_update));
        let base = &Page::reparse(&stored.base).expect("the page was looked at");
        let PagePair { page, overflow, .. } = stored.pair;
        let writer = &*self.writer;
        let build = |mut block: Block, content: &PageContent, kind, place| {
            let related = if kind == PageKind::Base { base.related() } else { page };
            let shape = PageSpec { kind, related, lower: base.lower(), upper: base.upper() };
            content.build(&mut block, self.store.file.place(place), shape, base, dirty.clone(), writer.page_sequence());
            block
        };
        let (mut in_place, mut fresh) = ([None, None], None);
        if let Some(content) = &changed.base {
            in_place[0] =
                Some(writer.page_write(page, &stored.base, build(writer.begin_page()?, content, PageKind::Base, page)));
        }
        if let Some(content) = &changed.overflow {
            let block = writer.begin_page()?;
            if let Some(old) = &stored.overflow {
                in_place[1] =
                    Some(writer.page_write(overflow, old, build(block, content, PageKind::Overflow, overflow)));
            } else if let Some(&overflow) = writer.allocate(&[1])?.first() {
                let attach = Attach { lower: update.at.lower.clone(), page, overflow };
                fresh = Some((attach, build(block, content, PageKind::Overflow, overflow)));
            }
        }
        Ok((in_place, fresh))
    }

    /// Keys of dirty records that neither page has, for the forecast.
    fn added<'d>(&self, (base, overflow): &Pages<'_>, dirty: impl Iterator<Item = DirtyRecord<'d>>) -> Vec<Vec<u8>> {
        if !self.forecast.is_on() {
            return Vec::new();
        }
        merge::added(base, overflow.as_ref(), dirty).map(<[u8]>::to_vec).collect()
    }

    /// Writes new overflow pages into free space, syncs them, and attaches them in the index.
    fn attach_fresh(&self, jobs: &[Job<'_>]) -> Result<()> {
        let (attach, blocks): (Vec<Attach>, Vec<&Block>) =
            fresh(jobs).map(|(attach, block)| (attach.clone(), block)).unzip();
        if attach.is_empty() {
            return Ok(());
        }
        self.writer.write_new(IoPurpose::Overflow, &new_pages(jobs), |i, _, block| block.copy_from_slice(blocks[i]))?;
        let production = self.store.production.load(Ordering::Relaxed);
        let edit = LoggedEdit { production, change: IndexEdit { attach, ..IndexEdit::default() } };
        self.structure_log.install(&edit, || ()).map(|replaced| self.structure_log.give_back(&replaced))
    }

    /// Notes the key up to which the background has written out.
    pub(crate) fn note_sweep_position(&self, key: &[u8]) {
        key.clone_into(&mut self.elevator.lock());
    }

    /// Notes that a round over the whole key space has ended, so an epoch of the forecast may end.
    pub(crate) fn end_round(&self) {
        self.forecast.round();
    }

    /// The ranges of a background round: all keys from its last position on, then those below.
    pub(crate) fn round(&self) -> Vec<KeySpan> {
        let elevator = self.elevator.lock().clone();
        let below = KeySpan { lower: Vec::new(), upper: Some(elevator.clone()) };
        let above = KeySpan { lower: elevator, upper: None };
        if above.lower.is_empty() { vec![above] } else { vec![above, below] }
    }
}
