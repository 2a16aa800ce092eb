//! The tree engine: a record cache over a segment store of update-in-place pages (after TreeLine, VLDB 2023).
//!
//! Protocol and invariants are told in `docs/decisions/0002-tree-first-form.md`; the parts are [`cache`] (T1, T3, T4),
//! [`store`] with [`index`] and [`space`] (T5, T6), [`lookup`], [`scan`] (T17), [`write_out`], [`reorganise`]
//! (T10–T13), [`bulk`]. What the adaptive engine has below its tables is made by [`absorb`] and [`carve`].

mod absorb;
mod blob;
mod bulk;
pub mod cache;
mod carve;
mod check;
mod claims;
mod counters;
mod dirty;
mod family;
mod forecast;
pub(crate) mod front;
mod goals;
pub mod index;
mod install;
mod layout;
mod lookup;
mod merge;
mod options;
mod records;
mod reorganise;
pub mod repair;
mod scan;
mod share;
pub mod space;
mod store;
mod structure;
mod survey;
mod sweep;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
mod walls;
mod write_out;
mod writeback;

use ecotone_sys::primitive::atomic::{AtomicBool, AtomicU64};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ecotone_substrate::{
    Error, Result, Seq,
    limits::PAGE,
    memory::Component,
    storage::{Block, FileId, Reads},
};
use ecotone_sys::chunk::Size;

use self::{
    cache::{Applied, Cache, Found, Purpose, Space, Stretch, Ticket},
    counters::Counters,
    forecast::Forecast,
    lookup::{Lookup, Step},
    space::Cause,
    store::Store,
    writeback::Writeback,
};
use crate::{
    delay::Delay,
    engine::{
        Admission, Check, Context, Cursor, Engine, Operation, Ordered, Range, Record, Root, Stats, Survey, VisitValue,
    },
    idle::{self, FEW, LITTLE},
    lengths::Lengths,
    page_cache::{PageCache, PageId},
    turn::Turn,
};

pub use self::{family::TreeFamily, forecast::ForecastKind, goals::PageFill, layout::Model, options::TreeOptions};

/// Page reads that one `multi_get` keeps in flight.
const IN_FLIGHT: usize = 64;
/// Bytes that a delete may hide.
const DELETED: u64 = 512;
/// How often a write looks for room in the cache while nothing is dirty, and the time between two looks.
const MOST_TRIES: u32 = 500;
const TRY_AGAIN: Duration = Duration::from_millis(2);

/// One of many keys, which the cache does not hold.
#[derive(Debug)]
struct Sought<'k> {
    /// The caller's.
    position: usize,
    /// If the cache was asked.
    ticket: Option<Ticket>,
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
    /// Held by the one that sweeps over its dirty pages, across I/O.
    sweeping: Turn,
    counters: Counters,
    /// How long scans are.
    lengths: Lengths,
    /// Where inserts will come.
    forecast: Forecast,
    /// The largest sequence applied.
    newest: AtomicU64,
    /// Deletes since the last flush of everything.
    deletes: AtomicU64,
    retired: AtomicBool,
}

impl Tree {
    fn check_live(&self) -> Result<()> {
        if self.retired.load(Ordering::Acquire) { Err(Error::Closed { what: "the keyspace" }) } else { Ok(()) }
    }

    /// Whether jobs run on threads of their own.
    fn is_threaded(&self) -> bool {
        self.context.shared.scheduler.is_threaded()
    }

    fn space(&self) -> Space {
        Space { number: self.number, logged: self.context.logged }
    }

    /// The file of the pages.
    pub(crate) fn file(&self) -> FileId {
        self.store.file.id()
    }

    /// Pages that a checkpoint would give back to the file system, if they are many.
    pub(crate) fn spare_pages(&self) -> u32 {
        self.store.space.spare()
    }

    /// The name of a page in the page cache.
    fn page_id(&self, page: u32) -> PageId {
        PageId::of_tree(self.number, page)
    }

    /// A slot in the cache for an operation, once write-out has made room for it.
    ///
    /// # Errors
    /// [`Error::Memory`] if nothing is dirty and there is no room for long: what takes it is not the cache's.
    fn take_slot(&self, operation: Operation<'_>, delay: &mut Delay<'_>) -> Result<Admission> {
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
            // Others have reserved room for writes that they are about to make.
            shared.health.check()?;
            delay.sleep(TRY_AGAIN);
        }
        Err(Error::Memory { what: Component::RecordCache.name(), budget: shared.memory.budget() as u64 })
    }

    fn no_delay(&self) -> Delay<'_> {
        Delay::new(&self.writeback.delays, &*self.context.shared.clock)
    }

    /// Puts a record into the cache as dirty.
    fn put(&self, slot: u64, seq: Seq, Operation { key, value }: Operation<'_>) {
        self.newest.fetch_max(seq, Ordering::AcqRel);
        self.count_delete(value);
        // If the keyspace was dropped since the write was admitted, nobody will read it or write it out.
        let is_dropped = || self.retired.load(Ordering::Acquire);
        self.cache.apply(slot, self.space(), Applied { key, value, seq }, &is_dropped);
    }

    fn count_delete(&self, value: Option<&[u8]>) {
        if value.is_none() {
            self.deletes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Looks for the value of a key in the cache, then in its page, and appends it to `value`. False if there is none.
    fn find(&self, key: &[u8], value: &mut Vec<u8>, purpose: Purpose) -> Result<bool> {
        self.check_live()?;
        let ticket = match self.cache.get(self.number, key, purpose, |found| value.extend_from_slice(found)) {
            Found::Value(()) => return Ok(true),
            Found::Tombstone => return Ok(false),
            Found::Missing(ticket) => ticket,
        };
        let start = value.len();
        let found = self.find_in_pages(key, value)?;
        if found && purpose == Purpose::Read {
            self.admit_clean(key, &value[start..], &ticket);
        }
        Ok(found)
    }

    /// Looks for the value of a key in its page alone, and appends it to `value`. False if there is none.
    pub(crate) fn find_in_pages(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut block = self.context.shared.memory.lease_essential(Component::Frames, Size::Frame)?;
        let (mut lookup, mut page) = Lookup::begin(&self.store, key);
        loop {
            self.store.file.traffic().read(Cause::Get, 1);
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

    /// Offers a record that a page read brought to the cache, unless the keyspace keeps none.
    pub(crate) fn admit_clean(&self, key: &[u8], value: &[u8], ticket: &Ticket) {
        if self.options.record_cache {
            self.cache.admit_clean(self.number, key, value, ticket);
        }
    }

    /// The records that were taken of some keys are in their pages.
    fn end_write(&self, taken: &Stretch) {
        self.cache.end_write(self.space(), taken, self.options.record_cache);
    }

    /// The records that were taken of some keys were not written.
    fn abort_write(&self, taken: &Stretch) {
        self.cache.abort_write(self.space(), taken);
    }
}

impl Engine for Tree {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    fn get_to_update(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
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
                Found::Value(()) => found(position, Some(&value)),
                Found::Tombstone => found(position, None),
                Found::Missing(ticket) => lookups.push((position, Some(ticket))),
            }
        }
        if lookups.is_empty() { Ok(()) } else { self.get_from_pages(keys, lookups, found) }
    }

    fn pace(&self, bytes: usize, _adds: bool) -> Result<()> {
        self.check_live()?;
        self.writeback.slow_down(&self.context.shared, bytes, &mut self.no_delay())
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
        // What is applied later need not be waited for, so a flush ends under any load.
        self.write_out_below(below.min(newest.saturating_add(1)))?;
        if below > newest {
            let _ = self
                .deletes
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| Some(all.saturating_sub(deletes)));
        }
        self.writeback.start_tidying(&self.context.shared);
        Ok(())
    }

    fn litter(&self) -> u64 {
        let (deletes, used) = (self.deletes.load(Ordering::Relaxed), u64::from(self.store.space.used()) * PAGE as u64);
        let hidden = used.min(deletes * DELETED);
        if deletes > FEW && idle::is_littered(used, hidden, LITTLE) { deletes } else { 0 }
    }

    fn checkpoint(&self) -> Result<Root> {
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
        self.writeback.hold_back(&self.context.shared, &mut delay)?;
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

    fn survey(&self) -> Result<Option<Survey>> {
        self.check_live()?;
        self.take_survey().map(Some)
    }

    fn retire(&self) {
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
    /// Looks for many keys in their pages alone.
    pub(crate) fn find_many_in_pages(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.check_live()?;
        self.get_from_pages(keys, (0..keys.len()).map(|position| (position, None)).collect(), found)
    }

    /// Searches the pages for keys that the cache does not hold, with many reads in flight. While `found` runs, which
    /// may call the database, nothing is held but windows.
    fn get_from_pages(
        &self,
        keys: &[&[u8]],
        missing: Vec<(usize, Option<Ticket>)>,
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
        self.store.file.traffic().read(Cause::Get, 1);
        reads.ask(sought, self.store.file.file().clone(), u64::from(page) * PAGE as u64, PAGE, block);
    }
}
