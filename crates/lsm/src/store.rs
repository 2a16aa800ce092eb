//! The state of one LSM keyspace, how its records are read, and what its jobs share. A write reserves memory, then goes
//! into the active memtable. A read looks in the memtables, then in the record cache, then in the tables from young to
//! old, then in the page tier (lsm.md, "Reading"; lsm-protocol.md, invariants 1 to 4).

use std::{array, fmt, sync::Arc};

use ecotone_engine::{
    contract::{Cursor, Stats, VisitValue},
    idle::IdleDetector,
    read_ahead::ScanLengths,
    record_cache::RecordCache,
    superseded::SupersededReports,
};
use ecotone_substrate::{Result, Seq, limits::MAX_LEVELS, metrics::Counter};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    cache::table_reader::TableReader,
    compaction::{
        Compactor,
        inputs::output_splitter::OutputSplitter,
        throttle::{Throttle, disk_shortage::space_to_go_on},
    },
    deps::LsmDeps,
    flush::Flusher,
    manifest::{PagedRanges, RunId, VersionEdit},
    memtable::{Memtable, pool::MemtablePool, slab_reserve::SlabReserve},
    observer::ScanObserver,
    pages::{
        Conversions,
        range_size::{RangeSizes, key_after},
        tier::PageTier,
    },
    table::{Options, block_size},
    tuning::Tuning,
    version::{
        TableMeta, Version,
        super_version::{CurrentVersion, HashedKey, MemtableMiss},
        version_set::VersionSet,
    },
};

/// The state of one keyspace: memtables, tables, background jobs and statistics.
#[derive(Debug)]
pub struct Lsm {
    /// The memtables and the version, for readers.
    pub(super) current: CurrentVersion<Version<TableReader>>,
    pub(super) slabs: Arc<SlabReserve>,
    pub(super) files: Arc<VersionSet>,
    pub(super) deps: LsmDeps,
    pub(super) tuning: Tuning,
    pub(super) flusher: Flusher,
    pub(super) compactor: Compactor,
    pub(super) conversions: Conversions,
    pub(super) throttle: Throttle,
    pub(super) reads: Reads,
    pub(super) idle: IdleDetector<Use>,
    /// Seed of the hashes of keys.
    seed: u64,
}

/// Stands in front of the reads of a keyspace, and sees its writes. Tests install one (adaptive-protocol.md, "The read
/// checker"); other keyspaces have none.
pub(crate) trait ReadObserver: fmt::Debug + Send + Sync {
    /// A write begins; no thread can see it yet.
    fn on_write(&self, key: &[u8], value: Option<&[u8]>, seq: Seq);
    /// The write of a key has ended; it was applied, or was not.
    fn on_written(&self, key: &[u8], is_applied: bool);
    /// Replay has ended.
    fn on_replayed(&self);
    /// Records between two keys are about to be loaded in bulk.
    fn on_bulk_load(&self, first: &[u8], last: &[u8]);
    /// Reads a key by [`Lsm::find`].
    fn get(&self, lsm: &Lsm, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// Reads many keys by `find_many`.
    fn multi_get(&self, lsm: &Lsm, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()>;
    /// Reads by a new cursor.
    fn cursor(self: Arc<Self>, cursor: Box<dyn Cursor>) -> Box<dyn Cursor>;
    /// A cursor has met a key, with these records from young to old; `None` is a tombstone.
    fn on_key(&self, key: &[u8], memtable: Option<Met<'_>>, tables: &[Met<'_>], page: Option<Met<'_>>);
}

/// The record of a key that a cursor met in one place; a tombstone has no value.
pub(crate) type Met<'a> = Option<&'a [u8]>;

/// Use counters of a keyspace and of its record cache.
pub(super) type Use = ((u64, u64), Stats);

/// What reads leave behind, and who watches them.
#[derive(Debug)]
pub(super) struct Reads {
    observer: Option<Arc<dyn ReadObserver>>,
    /// Lengths of scans: first those of all runs of L0, then those of each level, by its number.
    lengths: [Arc<ScanLengths>; MAX_LEVELS as usize + 1],
    /// Point reads that reached the page tier, and fragments of scans that read it.
    pub(super) of_pages: Counter,
}

impl Reads {
    fn new(observer: Option<Arc<dyn ReadObserver>>) -> Reads {
        let lengths = array::from_fn(|_| Arc::new(ScanLengths::new(1)));
        Reads { observer, lengths, of_pages: Counter::default() }
    }
}

impl Lsm {
    /// Creates the state of a keyspace with these tables; its memtables belong to `pool`.
    pub(super) fn new(
        files: &Arc<VersionSet>,
        tuning: Tuning,
        pool: &Arc<MemtablePool>,
        version: Version<TableReader>,
        deps: LsmDeps,
        read_observer: Option<Arc<dyn ReadObserver>>,
    ) -> Lsm {
        let current = CurrentVersion::new(&files.context().shared.domain, Memtable::new(b""), version);
        Lsm {
            current,
            slabs: Arc::new(SlabReserve::new(pool)),
            files: files.clone(),
            deps,
            tuning,
            flusher: Flusher::default(),
            compactor: Compactor::new(&files.context().shared.clock),
            conversions: Conversions::default(),
            throttle: Throttle::default(),
            reads: Reads::new(read_observer),
            idle: IdleDetector::default(),
            seed: files.environment().database,
        }
    }

    /// Lengths of scans in a run or a level.
    pub(super) fn lengths_of(&self, run_id: RunId) -> &Arc<ScanLengths> {
        match run_id {
            RunId::L0(_) => &self.reads.lengths[0],
            RunId::Level(level) => &self.reads.lengths[usize::from(level.number())],
        }
    }

    /// The observer of reads and writes, if there is one.
    #[inline]
    pub(super) fn read_observer(&self) -> Option<&Arc<dyn ReadObserver>> {
        self.reads.observer.as_ref()
    }

    /// The record cache in front of the tables, if there is one.
    pub(super) fn record_cache(&self) -> Option<&dyn RecordCache> {
        self.deps.record_cache.as_deref()
    }

    /// The page tier below the tables, if there is one.
    pub(super) fn page_tier(&self) -> Option<&Arc<dyn PageTier>> {
        self.deps.page_tier.as_ref()
    }

    /// The observer of scans and flushes, if there is one.
    pub(super) fn observer(&self) -> Option<&dyn ScanObserver> {
        self.deps.observer.as_deref()
    }

    /// The reports of superseded versions.
    #[inline]
    pub(super) fn reports(&self) -> &SupersededReports {
        &self.deps.reports
    }

    /// Hash of a key for filters, memtable shortcuts and skip-list height.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }

    /// Replaces `value` by the newest value of a key. If there is none, `value` is empty and the result is false.
    #[inline]
    pub(super) fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        match self.read_observer() {
            Some(observer) => observer.get(self, key, value),
            None => self.find(key, value),
        }
    }

    /// The same for an empty `value`, without the observer.
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
        self.reads.of_pages.increment();
        page_tier.find(key, value)
    }

    /// The current paged ranges.
    pub fn paged_ranges(&self) -> Arc<PagedRanges> {
        self.version().paged_ranges().clone()
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

    /// The ranges of the current version.
    pub fn range_sizes(&self) -> RangeSizes {
        RangeSizes::new(self.version(), self.page_tier().cloned())
    }

    /// The smallest key of all memtables, tables and paged ranges, and a key behind the largest, if there are any.
    pub fn key_bounds(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let super_version = self.current.get();
        let version = &super_version.version;
        let memtables: Vec<_> =
            super_version.memtables.iter().filter_map(|memtable_ref| memtable_ref.memtable.ends()).collect();
        let firsts =
            memtables.iter().map(|(first, _)| first.as_slice()).chain(version.tables().map(|table| table.first()));
        let lasts = memtables.iter().map(|(_, last)| last.as_slice()).chain(version.tables().map(|table| table.last()));
        let lower = firsts.chain(version.paged_ranges().bounds()).min()?.to_vec();
        let upper = lasts.map(key_after).chain(version.paged_ranges().bounds().map(<[u8]>::to_vec)).max()?;
        Some((lower, upper))
    }

    /// CPU time of subcompactions and conversions so far, in nanoseconds.
    pub fn cpu_time(&self) -> u64 {
        self.compactor.cpu_time.get()
    }

    /// Bytes of pages and tables that conversions wrote so far.
    pub fn converted_bytes(&self) -> u64 {
        self.conversions.bytes.get()
    }

    /// How far compaction is behind, from 0 to 1.
    pub fn stall_fraction(&self) -> f64 {
        self.throttle.stall.stall_fraction()
    }

    /// Computes the debt ratio anew: the tables have changed, or a compaction has made progress.
    pub(crate) fn update_debt(&self) {
        let version = self.version();
        self.look_for_space(&version);
        self.throttle.stall.update(&version, self.tuning.l0_target, self.files.environment().memory.budget() as u64);
    }

    /// Checks whether the disk has the space that flushes and compaction need to go on.
    pub(crate) fn look_for_space(&self, version: &Version<TableReader>) {
        // Storage that cannot tell its free space is never short; the writes themselves fail then.
        let free = self.files.environment().storage.free_space().unwrap_or(u64::MAX);
        let needed = space_to_go_on(version, self.tuning, self.memtable_bytes() as u64);
        self.throttle.shortage.set(needed.saturating_sub(free), self.files.context().shared.clock.now());
    }

    /// Activity counters: they change when records are written, or when blocks or the page tier are read for keys.
    pub(crate) fn activity(&self) -> (u64, u64) {
        let pin = self.current.pin();
        let super_version = self.current.load(&pin);
        (
            super_version.active().writes(),
            self.files.loader().read_frequency.reads(&super_version.version) + self.reads.of_pages.get(),
        )
    }

    /// Applies an edit; `publish` gets the version that follows.
    pub(crate) fn install(
        &self,
        change: &VersionEdit,
        fresh: &[Arc<TableReader>],
        publish: impl FnOnce(Arc<Version<TableReader>>),
    ) -> Result<()> {
        self.files.change(change, fresh, || self.version(), publish)?;
        self.update_debt();
        self.slabs.pool().count(fresh.iter().map(|reader| u64::from(reader.table().blocks())).sum());
        Ok(())
    }

    /// The splitter for output into a run or level.
    pub(crate) fn output_splitter(&self, run_id: RunId, version: &Version<TableReader>) -> OutputSplitter<TableReader> {
        // Tables of L0 end at the bounds of hot ranges, so that a hot range moves down without its neighbours.
        let observer = self.observer().filter(|_| run_id.is_l0());
        let guards = observer.map_or_else(Vec::new, ScanObserver::hot_bounds);
        let next = version.next_level_of(run_id, self.tuning.l0_target);
        OutputSplitter::new(self.tuning.table, next).with_guards(guards)
    }

    /// Options for tables of a run or level, whose records have `mean` bytes and come from the tables `inputs`.
    pub(crate) fn table_options<'t>(
        &self,
        run_id: RunId,
        mean: usize,
        inputs: impl Iterator<Item = &'t TableReader>,
        version: &Version<TableReader>,
    ) -> Options {
        let (options, read_frequency) = (self.files.options(), self.files.loader().read_frequency.of(inputs, version));
        let (filter_bits, compression) = (options.filter_bits_at(run_id), options.compression);
        Options { block: block_size(mean), filter_bits, compression, index: options.wanted(read_frequency) }
    }
}
