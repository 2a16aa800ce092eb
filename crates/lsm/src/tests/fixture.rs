//! The fixture of the LSM tests: a keyspace on a simulated disk, with calls to write, flush, reopen and compare it with
//! a model.

use std::{
    collections::BTreeMap,
    io,
    ops::{Bound, RangeBounds},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ecotone_engine::{
    contract::{Context, Cursor, Engine, Operation, Ordered, Range, Record, Recover, Shared},
    record_cache::RecordCache,
    superseded::SupersededReports,
};
use ecotone_substrate::{
    Result, Seq,
    clock::Clock,
    environment::Environment,
    scheduler::Scheduler,
    storage::{FileKind, Storage},
    wal::WalOptions,
};
use ecotone_testkit::{
    engine::{context, stat},
    sim::SimStorage,
    suite::ReportRecorder,
};

use crate::{
    blob, cache::table_cache::TableCache, checker::ReadChecker, deps::LsmDeps, keyspace::LsmKeyspace,
    manifest::LevelManifest, memtable::pool::MemtablePool, options::LsmOptions, table::IndexKind, tuning::Tuning,
    version::version_set::VersionSet,
};

/// The records that a keyspace should have.
pub(super) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A distinct key for each number, in another order than the numbers.
pub(super) fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(0x9E37_79B9).to_be_bytes()
}

const LOG: WalOptions =
    WalOptions { first_bytes: 64 << 10, segment_bytes: 64 << 10, limit_bytes: 1 << 20, longest_bytes: 1 << 20 };

/// The range of all keys.
pub(super) const ALL: Range = (Bound::Unbounded, Bound::Unbounded);

pub(super) struct Fixture {
    pub(super) disk: SimStorage,
    pub(super) environment: Environment,
    pub(super) keyspace: Arc<LsmKeyspace>,
    context: Context,
    pool: Arc<MemtablePool>,
    cache: Arc<TableCache>,
    sequence: AtomicU64,
}

impl Fixture {
    /// An empty keyspace with an index of this kind; `None` chooses by cost.
    pub(super) fn new(seed: u64, index: impl Into<Option<IndexKind>>) -> Fixture {
        Fixture::with(seed, index, Tuning::TINY)
    }

    /// An empty keyspace that reports superseded versions.
    pub(super) fn reporting(seed: u64, recorder: &Arc<ReportRecorder>) -> Fixture {
        let mut fixture = Fixture::new(seed, IndexKind::Linear);
        fixture.context.shared.superseded = Some(recorder.clone());
        let options = LsmOptions { index: Some(IndexKind::Linear), ..LsmOptions::default() };
        let deps = LsmDeps { reports: SupersededReports::new(&fixture.context, true), ..LsmDeps::default() };
        fixture.keyspace = fixture.made(fixture.context.clone(), options, Tuning::TINY, deps);
        fixture
    }

    /// A keyspace with this tuning.
    pub(super) fn with(seed: u64, index: impl Into<Option<IndexKind>>, tuning: Tuning) -> Fixture {
        Fixture::on(SimStorage::new(seed), seed, index.into(), tuning, 0)
    }

    /// A keyspace whose indexes and filters have at most `bytes` bytes.
    pub(super) fn with_table_cache(seed: u64, index: IndexKind, tuning: Tuning, bytes: usize) -> Fixture {
        Fixture::within(SimStorage::new(seed), seed, (Some(index), tuning), 0, bytes)
    }

    /// A keyspace with background threads.
    pub(super) fn threaded(seed: u64, workers: usize) -> Fixture {
        Fixture::threaded_with(seed, workers, Tuning::TINY)
    }

    /// A keyspace with background threads and this tuning.
    pub(super) fn threaded_with(seed: u64, workers: usize, tuning: Tuning) -> Fixture {
        Fixture::on(SimStorage::new(seed), seed, Some(IndexKind::Linear), tuning, workers)
    }

    fn on(disk: SimStorage, seed: u64, index: Option<IndexKind>, tuning: Tuning, workers: usize) -> Fixture {
        Fixture::within(disk, seed, (index, tuning), workers, usize::MAX)
    }

    fn within(
        disk: SimStorage,
        seed: u64,
        (index, tuning): (Option<IndexKind>, Tuning),
        workers: usize,
        table_cache: usize,
    ) -> Fixture {
        let mut environment = disk.environment(7, 64 << 20);
        if workers > 0 {
            environment.scheduler = Scheduler::threaded(workers, environment.health.clone());
        }
        let context = context(&environment, LOG, true, seed);
        let pool = MemtablePool::new(&context.shared.memory);
        let options = LsmOptions { index, ..LsmOptions::default() };
        let cache = TableCache::new(&context.shared.memory, &context.shared.domain, table_cache);
        let files = VersionSet::new(context.clone(), options, LevelManifest::default(), &cache);
        let keyspace = Arc::new(LsmKeyspace::open(files, tuning, pool.clone(), LsmDeps::default(), None).begin_empty());
        Fixture { disk, environment, keyspace, context, pool, cache, sequence: AtomicU64::new(1) }
    }

    /// The keyspace after a flush and a reopen.
    pub(super) fn reopened(&self) -> Arc<LsmKeyspace> {
        self.keyspace.flush(Seq::MAX).unwrap();
        let (options, manifest) = blob::decode(&self.keyspace.checkpoint().unwrap().blob).unwrap();
        let files = VersionSet::new(self.context.clone(), options, manifest, &self.cache);
        let keyspace = LsmKeyspace::open(files, Tuning::TINY, self.pool.clone(), LsmDeps::default(), None);
        keyspace.structure_recovered().unwrap();
        Arc::new(keyspace)
    }

    /// Another empty keyspace of the same database.
    pub(super) fn another(&self, number: u32, tuning: Tuning) -> Arc<LsmKeyspace> {
        self.another_by(self.context.shared.clock.clone(), number, tuning)
    }

    /// Another keyspace with these options.
    pub(super) fn another_with(&self, number: u32, options: LsmOptions, tuning: Tuning) -> Arc<LsmKeyspace> {
        self.made(Context { keyspace: number, ..self.context.clone() }, options, tuning, LsmDeps::default())
    }

    /// Another keyspace behind a record cache.
    pub(super) fn another_behind(&self, number: u32, record_cache: Arc<dyn RecordCache>) -> Arc<LsmKeyspace> {
        let (context, deps) = (
            Context { keyspace: number, ..self.context.clone() },
            LsmDeps { record_cache: Some(record_cache), ..LsmDeps::default() },
        );
        self.made(context, LsmOptions::default(), Tuning::TINY, deps)
    }

    /// Another keyspace with a read checker.
    pub(super) fn another_judged(&self, number: u32, tuning: Tuning) -> Arc<LsmKeyspace> {
        let context = Context { keyspace: number, ..self.context.clone() };
        let files = VersionSet::new(context, LsmOptions::default(), LevelManifest::default(), &self.cache);
        let read_checker = Arc::new(ReadChecker::new(true, false));
        let (deps, pool) = (LsmDeps::default(), self.pool.clone());
        Arc::new(LsmKeyspace::open(files, tuning, pool, deps, Some(read_checker)).begin_empty())
    }

    /// Another keyspace with this clock.
    pub(super) fn another_by(&self, clock: Arc<dyn Clock>, number: u32, tuning: Tuning) -> Arc<LsmKeyspace> {
        let shared = Shared { clock, ..self.context.shared.clone() };
        let context = Context { keyspace: number, shared, ..self.context.clone() };
        self.made(context, LsmOptions::default(), tuning, LsmDeps::default())
    }

    fn made(&self, context: Context, options: LsmOptions, tuning: Tuning, deps: LsmDeps) -> Arc<LsmKeyspace> {
        let files = VersionSet::new(context, options, LevelManifest::default(), &self.cache);
        Arc::new(LsmKeyspace::open(files, tuning, self.pool.clone(), deps, None).begin_empty())
    }

    /// Writes a key as a commit does.
    pub(super) fn write(&self, key: &[u8], value: Option<&[u8]>) {
        self.write_to(&self.keyspace, key, value);
    }

    /// Writes a key to the keyspace and to the model.
    pub(super) fn write_both(&self, model: &mut Model, key: &[u8], value: Option<Vec<u8>>) {
        self.write(key, value.as_deref());
        match value {
            Some(value) => model.insert(key.to_vec(), value),
            None => model.remove(key),
        };
    }

    /// Writes a key of any keyspace.
    pub(super) fn write_to(&self, keyspace: &LsmKeyspace, key: &[u8], value: Option<&[u8]>) {
        let operation = Operation { key, value };
        let bytes = operation.key.len() + operation.value.map_or(0, <[u8]>::len);
        keyspace.throttle(bytes, operation.value.is_some()).expect("it is there");
        let admission = keyspace.admit(operation).expect("there is memory");
        keyspace.apply(admission, self.sequence.fetch_add(1, Ordering::Relaxed), operation);
    }

    pub(super) fn flush(&self) {
        self.keyspace.flush(Seq::MAX).expect("the disk takes it");
    }

    pub(super) fn stat(&self, name: &str) -> u64 {
        stat(&self.keyspace.stats(), name)
    }

    /// How far compaction is behind: the write stall fraction.
    pub(super) fn stall_fraction(&self) -> f64 {
        self.keyspace.lsm().stall_fraction()
    }

    /// The number of read requests to tables so far.
    pub(super) fn reads(&self) -> u64 {
        self.disk.counters_of(FileKind::Table).reads
    }

    /// Makes one I/O fail, after some others.
    pub(super) fn fail_io(&self, after: u64) {
        self.disk.fail_at(self.disk.io_index() + after, io::ErrorKind::Other);
    }

    /// The number of table files on the disk.
    pub(super) fn tables(&self) -> u64 {
        self.disk.files().keys().filter(|file| file.kind() == FileKind::Table).count() as u64
    }

    /// Asserts that the keyspace equals the model and passes the check.
    pub(super) fn expect(&self, model: &Model) {
        expect(&self.keyspace, model);
    }
}

/// Asserts that the keyspace equals the model and passes the check.
pub(super) fn expect(keyspace: &Arc<LsmKeyspace>, model: &Model) {
    let check = keyspace.verify().unwrap();
    assert_eq!((check.problems, check.records), (vec![], model.len() as u64));
    assert!(collect(keyspace, ALL, false).iter().map(|(key, value)| (key, value)).eq(model));
}

/// The records of a range, from its end if `reverse`.
pub(super) fn collect(keyspace: &Arc<LsmKeyspace>, range: Range, reverse: bool) -> Vec<Record> {
    let mut cursor = keyspace.clone().cursor(range);
    let mut records = Vec::new();
    while let Some(record) = step(&mut *cursor, reverse).unwrap() {
        records.push(record);
    }
    records
}

/// The next record from an end of the cursor.
pub(super) fn step(cursor: &mut dyn Cursor, reverse: bool) -> Result<Option<Record>> {
    let next = if reverse { cursor.next_back() } else { cursor.next() };
    Ok(next?.map(|(key, value)| (key.to_vec(), value.to_vec())))
}

/// The records of a range of the model.
pub(super) fn expected(model: &Model, range: &Range) -> Vec<Record> {
    model.iter().filter(|(key, _)| range.contains(*key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}
