//! The state of one LSM keyspace, and how its records are written and read. A write reserves memory, then goes into the
//! active memtable. A read looks in the memtables, then in the record cache, then in the tables from young to old, then
//! in the page tier (lsm.md, "Reading"; lsm-protocol.md, invariants 1 to 4).

use std::{array, sync::Arc};

use ecotone_engine::{
    contract::Operation, idle::IdleDetector, job_lock::JobLock, read_ahead::ScanLengths, record_cache::RecordCache,
};
use ecotone_substrate::{
    Error, Result, Seq,
    coalesced_job::CoalescedJob,
    limits::MAX_LEVELS,
    lock_rank::LockRank,
    metrics::{Counter, Histogram},
};
use ecotone_sys::{chunk::Size, primitive::Mutex};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    cache::table_reader::TableReader,
    compaction::{
        executor::cpu_time::CpuTime,
        full::FullCompactions,
        strategy::{cursors::CompactionCursors, read_budget::ReadCompactionBudget},
        throttle::{disk_shortage::DiskShortage, write_stall::WriteStall},
    },
    family::Tuning,
    flush::to_pages::ConvertingRange,
    idle::Use,
    manifest::{PagedRanges, RunId},
    memtable::{
        Memtable,
        pool::MemtablePool,
        slab_reserve::{Reservation, SlabReserve, size_of_next},
    },
    pages::{
        tier::{LsmDeps, PageTier},
        to_pages::ConversionState,
    },
    version::{
        Version,
        super_version::{CurrentVersion, HashedKey, MemtableMiss},
        version_set::VersionSet,
    },
};

/// The state of one keyspace: memtables, tables, background jobs and statistics.
#[derive(Debug)]
pub struct Lsm {
    pub(super) current: CurrentVersion<Version<TableReader>>,
    pub(super) slabs: Arc<SlabReserve>,
    pub(super) pool: Arc<MemtablePool>,
    pub(super) files: Arc<VersionSet>,
    pub(super) deps: LsmDeps,
    pub(super) tuning: Tuning,
    /// Held during a flush, across its I/O. A thread that has waited for the lock checks again whether its flush is
    /// still needed. The holder schedules the background job when it releases the lock, as that job only tries the lock
    /// (compaction-pace.md, invariants 14 and 17).
    pub(super) flush_lock: JobLock,
    /// Held during a compaction, a conversion or a bulk load, across its I/O, likewise. Taken before `flush_lock`.
    pub(super) compaction_lock: JobLock,
    pub(super) conversion: ConversionState,
    /// Set under `compaction_lock`, with `flush_lock` held for a moment; cleared without `flush_lock`.
    pub(super) converting: ConvertingRange,
    /// The background jobs: one flushes immutable memtables, one runs the compactions that are due.
    pub(super) flush_job: CoalescedJob,
    pub(super) compaction_job: CoalescedJob,
    /// Full compactions. Intra-L0 merges stop while one runs.
    pub(super) full_compactions: FullCompactions,
    pub(super) read_budget: ReadCompactionBudget,
    /// Changed by the thread that holds `compaction_lock`.
    pub(super) cursors: Mutex<CompactionCursors>,
    /// Finished compactions.
    pub(super) compactions: Counter,
    /// Slices of compactions that were cut up because space was short.
    pub(super) slices: Counter,
    /// Subcompactions.
    pub(super) parts: Counter,
    pub(super) conversion_parts: Counter,
    /// Memtables that were flushed.
    pub(super) flushes: Counter,
    /// Records that flushes wrote to the page tier, and how often such a flush was given up.
    pub(super) flushed_to_pages: Counter,
    pub(super) page_flushes_given_up: Counter,
    /// Paged ranges, or parts of them, in which all tables became visible again.
    pub(super) reactivated: Counter,
    /// Bytes of keys and values that were written to tables.
    pub(super) written: Counter,
    /// Bytes of pages and tables that were written to convert ranges.
    pub(super) conversion_bytes: Counter,
    /// CPU time of subcompactions and conversions.
    pub(super) cpu_time: Arc<CpuTime>,
    /// Lengths of scans: first those of all runs of L0, then those of each level, by its number.
    lengths: [Arc<ScanLengths>; MAX_LEVELS as usize + 1],
    /// Point reads and scan steps that reached the page tier.
    pub(super) below: Counter,
    pub(super) write_stall: WriteStall,
    pub(super) shortage: DiskShortage,
    pub(super) idle: IdleDetector<Use>,
    /// How long writers are delayed.
    pub(super) delays: Histogram,
    seed: u64,
}

impl Lsm {
    /// Creates the state of a keyspace with these tables; its memtables belong to `pool`.
    pub(super) fn new(
        files: &Arc<VersionSet>,
        tuning: Tuning,
        pool: &Arc<MemtablePool>,
        version: Version<TableReader>,
        deps: LsmDeps,
    ) -> Lsm {
        let current = CurrentVersion::new(&files.context().shared.domain, Memtable::new(b""), version);
        Lsm {
            current,
            slabs: Arc::new(SlabReserve::new(pool)),
            pool: pool.clone(),
            files: files.clone(),
            deps,
            tuning,
            flush_lock: JobLock::of(LockRank::FlushLock),
            compaction_lock: JobLock::of(LockRank::CompactionLock),
            conversion: ConversionState::default(),
            converting: ConvertingRange::default(),
            flush_job: CoalescedJob::default(),
            compaction_job: CoalescedJob::default(),
            full_compactions: FullCompactions::default(),
            read_budget: ReadCompactionBudget::default(),
            cursors: Mutex::default(),
            compactions: Counter::default(),
            slices: Counter::default(),
            parts: Counter::default(),
            conversion_parts: Counter::default(),
            flushes: Counter::default(),
            flushed_to_pages: Counter::default(),
            page_flushes_given_up: Counter::default(),
            reactivated: Counter::default(),
            written: Counter::default(),
            conversion_bytes: Counter::default(),
            cpu_time: CpuTime::new(&files.context().shared.clock),
            lengths: array::from_fn(|_| Arc::new(ScanLengths::new(1))),
            below: Counter::default(),
            write_stall: WriteStall::default(),
            shortage: DiskShortage::default(),
            idle: IdleDetector::default(),
            delays: Histogram::default(),
            seed: files.environment().database,
        }
    }

    /// Lengths of scans in a run or a level.
    pub(super) fn lengths_of(&self, run_id: RunId) -> &Arc<ScanLengths> {
        match run_id {
            RunId::L0(_) => &self.lengths[0],
            RunId::Level(level) => &self.lengths[usize::from(level.number())],
        }
    }

    /// The record cache in front of the tables, if there is one.
    pub(super) fn record_cache(&self) -> Option<&dyn RecordCache> {
        self.deps.record_cache.as_deref()
    }

    /// The page tier below the tables, if there is one.
    pub(super) fn page_tier(&self) -> Option<&Arc<dyn PageTier>> {
        self.deps.page_tier.as_ref()
    }

    /// Hash of a key for filters, memtable shortcuts and skip-list height.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }

    /// Free words in the memtables that can still be written.
    pub(super) fn free(&self) -> u64 {
        self.current.load(&self.current.pin()).writable_memtables().map(|memtable| memtable.free() as u64).sum()
    }

    /// The size of the next memtable slab.
    fn size_of_next(&self) -> Size {
        size_of_next(self.memtable_bytes() + self.slabs.bytes())
    }

    /// Reserves memory for a write. Rotates the active memtable before, if that is full.
    pub(super) fn admit(self: &Arc<Self>, Operation { key, value }: Operation<'_>) -> Result<Reservation> {
        let words = Memtable::words(self.hash(key), key, value);
        loop {
            self.rotate_if_full()?;
            match self.slabs.admit(words, || self.size_of_next(), || self.free()) {
                Err(Error::Memory { .. }) if self.pool.free_memtable_memory()? => {}
                Err(Error::Memory { .. }) => {
                    return self.slabs.reserve_essential(words, || self.size_of_next(), || self.free());
                }
                admitted => return admitted,
            }
        }
    }

    /// The same for a record that is replayed from the log. On a full disk nothing is flushed; memtables then take the
    /// record as long as there is memory at all. So recovery needs no disk space.
    pub(super) fn admit_logged(self: &Arc<Self>, operation: Operation<'_>) -> Result<Reservation> {
        match self.admit(operation) {
            Err(error) if error.is_no_space() => {}
            admitted => return admitted,
        }
        if let (_, _, Some(full)) = self.fill_level() {
            self.rotate(&full)?;
        }
        let words = Memtable::words(self.hash(operation.key), operation.key, operation.value);
        self.slabs.reserve_essential(words, || self.size_of_next(), || self.free())
    }

    /// Makes a write, on the reservation that it was admitted with.
    pub(super) fn apply(&self, reservation: Reservation, seq: Seq, Operation { key, value }: Operation<'_>) {
        self.read_checker().into_iter().for_each(|read_checker| read_checker.begin(key, value, seq));
        {
            let pin = self.current.pin();
            self.current.load(&pin).active().apply(self.hash(key), key, value, seq, &mut || self.slabs.take());
        }
        self.read_checker().into_iter().for_each(|read_checker| read_checker.end(key, true));
        self.slabs.release(reservation);
    }

    /// Overwrites a value in place, if the active memtable has a shortcut to the key and the new value fits. False if
    /// it did not.
    pub(super) fn overwrite(&self, seq: Seq, Operation { key, value }: Operation<'_>) -> bool {
        self.read_checker().into_iter().for_each(|read_checker| read_checker.begin(key, value, seq));
        let is_done = self.current.load(&self.current.pin()).active().overwrite(self.hash(key), key, value, seq);
        self.read_checker().into_iter().for_each(|read_checker| read_checker.end(key, is_done));
        is_done
    }

    /// Replaces `value` by the newest value of a key. If there is none, `value` is empty and the result is false.
    #[inline]
    pub(super) fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        match self.read_checker() {
            Some(read_checker) => self.find_checked(read_checker, key, value),
            None => self.find(key, value),
        }
    }

    /// The same for an empty `value`, without the read checker.
    pub(super) fn find(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let (sought, record_cache) = ((self.hash(key), key), self.record_cache());
        self.current.search(sought, value, record_cache).or_else(|MemtableMiss { version, ticket }| {
            let found = self.find_on_disk(&version, sought, value)?;
            if let (true, Some(record_cache), Some(ticket)) = (found, record_cache, ticket) {
                record_cache.admit(key, value, ticket);
            }
            Ok(found)
        })
    }

    /// Looks for a key that no memtable has: in the tables, then in the page tier.
    fn find_on_disk(&self, version: &Version<TableReader>, sought: HashedKey<'_>, value: &mut Vec<u8>) -> Result<bool> {
        let (key, mut memory) = (sought.1, None);
        let find = |reader: &TableReader, value: &mut Vec<u8>| reader.find(sought, &mut memory, value);
        version.search(key, value, find, |value| self.find_in_pages(key, value))
    }

    /// Looks in the page tier for a key of a paged range.
    fn find_in_pages(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(page_tier) = self.page_tier() else { return Ok(false) };
        self.below.increment();
        page_tier.find(key, value)
    }

    /// Records that were written to the active memtable.
    pub fn written(&self) -> u64 {
        self.current.load(&self.current.pin()).active().writes()
    }

    /// The current paged ranges.
    pub fn paged_ranges(&self) -> Arc<PagedRanges> {
        self.version().paged_ranges().clone()
    }

    /// Whether the tables with keys of a range, whose upper bound is excluded, have more tombstones than values: then
    /// the levels below have little left of the range.
    pub fn is_mostly_deleted(&self, range: (&[u8], &[u8])) -> bool {
        self.version().is_mostly_deleted(range)
    }

    /// The current version.
    pub(crate) fn version(&self) -> Arc<Version<TableReader>> {
        self.current.load(&self.current.pin()).version.clone()
    }

    /// An error if the keyspace was dropped.
    #[inline]
    pub(super) fn check_live(&self) -> Result<()> {
        self.files.check_live()
    }
}
