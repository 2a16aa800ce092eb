//! The tree engine: a record cache over a segment store of update-in-place pages (after TreeLine, VLDB 2023).
//!
//! Writes go into the record cache and the log; reads ask the cache, then the page. Write-out merges dirty records into
//! their pages in place, in key order. A segment whose records do not fit any more is reorganised into fresh pages.
//!
//! The parts are [`cache`] (the record cache: T1, T3, T4), [`store`] with [`index`] and [`page_allocator`] (T5, T6),
//! [`lookup`], [`scan`] (T17), [`write_out`], [`reorganise`] (T10–T13) and [`bulk`]. [`ingest`] and [`clear_range`]
//! change the page tier of the adaptive engine, below its tables. The protocol and its invariants are in
//! `docs/decisions/0002-tree-first-form.md`.

mod blob;
mod bulk;
pub mod cache;
mod check;
mod claims;
mod clear_range;
mod counters;
mod dirty;
mod factory;
mod fill_policy;
mod forecast;
pub mod index;
mod ingest;
mod install;
mod layout;
mod logged_edit;
mod lookup;
mod merge;
mod options;
pub mod page_allocator;
mod pinned_boundaries;
pub(crate) mod record_cache;
mod records;
mod reorganise;
pub mod repair;
mod sampled_stats;
mod scan;
mod segment_update;
mod store;
mod sweep;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
mod write_out;
mod writeback;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ecotone_engine::{
    contract::{
        Admission, Check, Context, Cursor, Engine, EngineCheckpoint, Operation, Ordered, Range, Record, SampledStats,
        Stats, VisitValue,
    },
    idle::{self, MIN_GARBAGE_BYTES, MIN_TOMBSTONES},
    job_lock::JobLock,
    page_cache::{PageCache, PageId},
    read_ahead::ScanLengths,
    write_delay::WriteDelay,
};
use ecotone_substrate::{
    Error, Result, Seq,
    limits::PAGE,
    memory::Component,
    storage::{Block, FileId, Reads},
};
use ecotone_sys::{
    chunk::Size,
    primitive::atomic::{AtomicBool, AtomicU64},
};

#[cfg(feature = "loom")]
pub use self::record_cache::model_cache;
use self::{
    cache::{Applied, Cache, CacheKeyspace, Purpose, RecordLookup, RecordTicket, Stretch},
    counters::Counters,
    forecast::Forecast,
    lookup::{Lookup, Step},
    page_allocator::IoPurpose,
    store::Store,
    writeback::Writeback,
};
pub use self::{
    factory::TreeFamily, fill_policy::PageFill, forecast::ForecastKind, layout::Model, options::TreeOptions,
};

/// Page reads that one `multi_get` keeps in flight.
const IN_FLIGHT: usize = 64;
/// Estimated bytes that one delete hides.
const DELETED: u64 = 512;
/// How often a write retries a reservation in the cache while nothing is dirty, and the time between two tries.
const MOST_TRIES: u32 = 500;
const TRY_AGAIN: Duration = Duration::from_millis(2);

/// One key of a `multi_get` that the cache does not hold.
#[derive(Debug)]
struct Sought<'k> {
    /// Position of the key among the caller's keys.
    position: usize,
    /// The ticket of the cache lookup; `None` if the cache was not asked.
    ticket: Option<RecordTicket>,
    lookup: Lookup<'k>,
}

/// One tree keyspace.
#[derive(Debug)]
pub struct Tree {
    context: Context,
    /// The keyspace's number within the caches.
    number: u16,
    cache: Arc<Cache>,
    pages: Arc<PageCache>,
    store: Store,
    options: TreeOptions,
    page_fill: PageFill,
    writeback: Arc<Writeback>,
    /// The job lock of a sweep over the dirty records, held across I/O.
    sweeping: JobLock,
    counters: Counters,
    /// Statistics of the lengths of scans.
    lengths: ScanLengths,
    /// Forecast of where inserts will arrive.
    forecast: Forecast,
    /// The largest applied sequence.
    newest: AtomicU64,
    /// Deletes since the last full flush.
    deletes: AtomicU64,
    retired: AtomicBool,
}

impl Tree {
    fn check_live(&self) -> Result<()> {
        if self.retired.load(Ordering::Acquire) { Err(Error::Closed { what: "the keyspace" }) } else { Ok(()) }
    }

    /// Whether background jobs run on their own threads.
    fn is_threaded(&self) -> bool {
        self.context.shared.scheduler.is_threaded()
    }

    fn space(&self) -> CacheKeyspace {
        CacheKeyspace { number: self.number, logged: self.context.logged }
    }

    /// The file of the pages.
    pub fn file(&self) -> FileId {
        self.store.file.id()
    }

    /// Pages that a checkpoint could return to the file system; 0 if they are few.
    pub fn spare_pages(&self) -> u32 {
        self.store.space.spare()
    }

    /// The identifier of a page in the page cache.
    fn page_id(&self, page: u32) -> PageId {
        PageId::of_tree(self.number, page)
    }

    /// Reserves a slot in the cache for an operation. Waits for write-out if there is no space.
    ///
    /// # Errors
    /// [`Error::Memory`] if nothing is dirty and there is still no space after many tries: other components hold the
    /// memory.
    fn take_slot(&self, operation: Operation<'_>, delay: &mut WriteDelay<'_>) -> Result<Admission> {
        let shared = &self.context.shared;
        for _ in 0..MOST_TRIES {
            let value_len = operation.value.map_or(0, <[u8]>::len);
            if let Some(slot) = self.cache.reserve(self.space(), operation.key, value_len) {
                return Ok(Admission(slot));
            }
            while self.cache.dirty_bytes() > 0 {
                self.writeback.make_room(shared, delay)?;
                if let Some(slot) = self.cache.reserve(self.space(), operation.key, value_len) {
                    return Ok(Admission(slot));
                }
            }
            // Other writers hold reservations that they have not applied yet.
            shared.health.check()?;
            delay.sleep(TRY_AGAIN);
        }
        Err(Error::Memory { what: Component::RecordCache.name(), budget: shared.memory.budget() as u64 })
    }

    fn no_delay(&self) -> WriteDelay<'_> {
        WriteDelay::new(&self.writeback.delays, &*self.context.shared.clock)
    }

    /// Puts a record into the cache as dirty.
    fn put(&self, slot: u64, seq: Seq, Operation { key, value }: Operation<'_>) {
        self.newest.fetch_max(seq, Ordering::AcqRel);
        self.count_delete(value);
        // If the keyspace was dropped since the write was admitted, the record is never read or written out.
        let is_dropped = || self.retired.load(Ordering::Acquire);
        self.cache.apply(slot, self.space(), Applied { key, value, seq }, &is_dropped);
    }

    fn count_delete(&self, value: Option<&[u8]>) {
        if value.is_none() {
            self.deletes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Looks up a key in the cache, then in its page, and appends its value to `value`. False if there is none.
    fn find(&self, key: &[u8], value: &mut Vec<u8>, purpose: Purpose) -> Result<bool> {
        self.check_live()?;
        let ticket = match self.cache.get(self.number, key, purpose, |found| value.extend_from_slice(found)) {
            RecordLookup::Value(()) => return Ok(true),
            RecordLookup::Tombstone => return Ok(false),
            RecordLookup::Missing(ticket) => ticket,
        };
        let start = value.len();
        let found = self.find_in_pages(key, value)?;
        if found && purpose == Purpose::Read {
            self.admit_clean(key, &value[start..], &ticket);
        }
        Ok(found)
    }

    /// Looks up a key in its page only, and appends its value to `value`. False if there is none.
    pub fn find_in_pages(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut block = self.context.shared.memory.lease_essential(Component::Frames, Size::Frame)?;
        let (mut lookup, mut page) = Lookup::begin(&self.store, key);
        loop {
            self.store.file.traffic().read(IoPurpose::Get, 1);
            self.store.file.file().read(&mut block, u64::from(page) * PAGE as u64)?;
            match lookup.resume(&self.store, &mut block)? {
                Step::Read(next) => page = next,
                Step::Done(None) => return Ok(false),
                Step::Done(Some(found)) => {
                    value.extend_from_slice(&found);
                    return Ok(true);
                }
            }
        }
    }

    /// Offers a record that was read from a page to the cache, unless the record cache is off.
    pub(crate) fn admit_clean(&self, key: &[u8], value: &[u8], ticket: &RecordTicket) {
        if self.options.record_cache {
            self.cache.admit_clean(self.number, key, value, ticket);
        }
    }

    /// Ends a write: the records taken from this range are in their pages.
    fn end_write(&self, taken: &Stretch) {
        self.cache.end_write(self.space(), taken, self.options.record_cache);
    }

    /// Aborts a write: the records taken from this range become dirty again.
    fn abort_write(&self, taken: &Stretch) {
        self.cache.abort_write(self.space(), taken);
    }
}

impl Engine for Tree {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    fn get_for_update(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.find(key, &mut value, Purpose::Update)?.then_some(value))
    }

    fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        self.find(key, value, Purpose::Read)
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.check_live()?;
        let (mut lookups, mut value) = (Vec::new(), Vec::new());
        for (position, key) in keys.iter().enumerate() {
            value.clear();
            match self.cache.get(self.number, key, Purpose::Read, |cached| value.extend_from_slice(cached)) {
                RecordLookup::Value(()) => found(position, Some(&value)),
                RecordLookup::Tombstone => found(position, None),
                RecordLookup::Missing(ticket) => lookups.push((position, Some(ticket))),
            }
        }
        if lookups.is_empty() { Ok(()) } else { self.get_from_pages(keys, lookups, found) }
    }

    fn throttle(&self, bytes: usize, _adds: bool) -> Result<()> {
        self.check_live()?;
        self.writeback.delay_writer(&self.context.shared, bytes, &mut self.no_delay())
    }

    fn admit(&self, operation: Operation<'_>) -> Result<Admission> {
        self.check_live()?;
        self.take_slot(operation, &mut self.no_delay())
    }

    fn apply(&self, admission: Admission, seq: Seq, operation: Operation<'_>) {
        self.put(admission.0, seq, operation);
    }

    fn overwrite(&self, operation: Operation<'_>) -> bool {
        let is_done = self.cache.overwrite(self.space(), operation.key, operation.value);
        if is_done {
            self.count_delete(operation.value);
        }
        is_done
    }

    fn cancel(&self, admission: Admission) {
        self.cache.cancel(admission.0, self.space());
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.cache.first_dirty(self.space())
    }

    fn flush(&self, below: Seq) -> Result<()> {
        let (deletes, newest) = (self.deletes.load(Ordering::Relaxed), self.newest.load(Ordering::Acquire));
        // Records applied later are not waited for, so a flush ends under any load.
        self.write_out_below(below.min(newest.saturating_add(1)))?;
        if below > newest {
            let _ = self
                .deletes
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| Some(all.saturating_sub(deletes)));
        }
        self.writeback.start_tidying(&self.context.shared);
        Ok(())
    }

    fn reclaimable_deletes(&self) -> u64 {
        let (deletes, used) = (self.deletes.load(Ordering::Relaxed), u64::from(self.store.space.used()) * PAGE as u64);
        let hidden = used.min(deletes * DELETED);
        if deletes > MIN_TOMBSTONES && idle::has_excess_garbage(used, hidden, MIN_GARBAGE_BYTES) { deletes } else { 0 }
    }

    fn checkpoint(&self) -> Result<EngineCheckpoint> {
        self.take_checkpoint()
    }

    fn checkpoint_is_durable(&self) {
        let space = &self.store.space;
        space.checkpoint_is_durable();
        space.release(self.context.shared.wal.synced());
        self.writeback.start_trimming(&self.context.shared);
    }

    fn replay_structure(&self, _seq: Seq, body: &[u8]) -> Result<()> {
        self.reinstall(body)
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        let mut delay = self.no_delay();
        self.writeback.stall(&self.context.shared, &mut delay)?;
        let admission = self.take_slot(operation, &mut delay)?;
        self.apply(admission, seq, operation);
        Ok(())
    }

    fn structure_recovered(&self) -> Result<()> {
        self.store.space.settle();
        self.writeback.refresh_limit();
        Ok(())
    }

    fn verify(&self) -> Result<Check> {
        self.check_live()?;
        self.check_all()
    }

    fn stats(&self) -> Stats {
        self.collect_stats()
    }

    fn sampled_stats(&self) -> Result<Option<SampledStats>> {
        self.check_live()?;
        self.sample().map(Some)
    }

    fn mark_dropped(&self) {
        self.retired.store(true, Ordering::SeqCst);
        self.cache.forget_keyspace(self.space());
        self.pages.forget_keyspace(self.number);
    }
}

impl Ordered for Tree {
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor> {
        Box::new(scan::Scan::new(self, range, memory))
    }

    fn bulk_load(self: Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        self.check_live()?;
        self.load_sorted(records)
    }
}

impl Tree {
    /// Looks up many keys in their pages only.
    pub fn find_many_in_pages(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.check_live()?;
        self.get_from_pages(keys, (0..keys.len()).map(|position| (position, None)).collect(), found)
    }

    /// Searches the pages for keys that the cache does not hold, with many reads in flight. `found` may call the
    /// database, so nothing but the windows of the reads is held while `found` runs.
    fn get_from_pages(
        &self,
        keys: &[&[u8]],
        missing: Vec<(usize, Option<RecordTicket>)>,
        found: &mut VisitValue<'_>,
    ) -> Result<()> {
        let mut queue = self.context.shared.storage.queue()?;
        let (mut reads, mut missing) = (Reads::new(&mut *queue), missing.into_iter().peekable());
        loop {
            while reads.in_flight() < IN_FLIGHT && missing.peek().is_some() {
                let Some(block) = reads.lease(&self.context.shared.memory, Size::Frame)? else { break };
                let Some((position, ticket)) = missing.next() else { break };
                let (lookup, page) = Lookup::begin(&self.store, keys[position]);
                self.ask(&mut reads, Sought { position, ticket, lookup }, page, block);
            }
            let Some((mut sought, mut block)) = reads.wait()? else { return Ok(()) };
            match sought.lookup.resume(&self.store, &mut block)? {
                Step::Read(page) => self.ask(&mut reads, sought, page, block),
                Step::Done(value) => {
                    drop(block);
                    if let Some((value, ticket)) = value.as_deref().zip(sought.ticket.as_ref()) {
                        self.admit_clean(keys[sought.position], value, ticket);
                    }
                    found(sought.position, value.as_deref());
                }
            }
        }
    }

    fn ask<'k>(&self, reads: &mut Reads<'_, Sought<'k>>, sought: Sought<'k>, page: u32, block: Block) {
        self.store.file.traffic().read(IoPurpose::Get, 1);
        reads.ask(sought, self.store.file.file().clone(), u64::from(page) * PAGE as u64, PAGE, block);
    }
}
