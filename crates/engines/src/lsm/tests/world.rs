//! A keyspace on a disk, as tests drive it.

use std::{
    collections::BTreeMap,
    io,
    ops::{Bound, RangeBounds},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ecotone_substrate::{
    Result, Seq,
    clock::Clock,
    environment::Environment,
    scheduler::Scheduler,
    storage::{FileKind, Storage},
    wal::WalOptions,
};
use ecotone_testkit::sim::SimStorage;

use crate::{
    engine::{Context, Cursor, Engine, Operation, Ordered, Range, Record, Shared},
    front::Front,
    lsm::{
        base::Around, blob, family::Sizes, install::Files, keyspace::LsmKeyspace, ledger::Ledger, options::LsmOptions,
        pool::Pool, structure::Structure, table::Kind, table_cache::TableCache,
    },
    tests::{context, stat},
};

/// What a keyspace should have.
pub(super) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A key of its own for each number, in no order of these.
pub(super) fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(0x9E37_79B9).to_be_bytes()
}

const LOG: WalOptions =
    WalOptions { first_bytes: 64 << 10, segment_bytes: 64 << 10, limit_bytes: 1 << 20, longest_bytes: 1 << 20 };

/// All keys.
pub(super) const ALL: Range = (Bound::Unbounded, Bound::Unbounded);

pub(super) struct World {
    pub(super) disk: SimStorage,
    pub(super) environment: Environment,
    pub(super) keyspace: Arc<LsmKeyspace>,
    context: Context,
    pool: Arc<Pool>,
    cache: Arc<TableCache>,
    sequence: AtomicU64,
}

impl World {
    /// An empty keyspace with an index of this kind, or of whichever costs least.
    pub(super) fn new(seed: u64, index: impl Into<Option<Kind>>) -> World {
        World::with(seed, index, Sizes::TINY)
    }

    /// One whose parts have these sizes.
    pub(super) fn with(seed: u64, index: impl Into<Option<Kind>>, sizes: Sizes) -> World {
        World::on(SimStorage::new(seed), seed, index.into(), sizes, 0)
    }

    /// One whose indexes and filters have so many bytes at most.
    pub(super) fn with_table_cache(seed: u64, index: Kind, sizes: Sizes, bytes: usize) -> World {
        World::within(SimStorage::new(seed), seed, (Some(index), sizes), 0, bytes)
    }

    /// The same with so many threads in the background.
    pub(super) fn threaded(seed: u64, workers: usize) -> World {
        World::threaded_with(seed, workers, Sizes::TINY)
    }

    /// The same whose parts have these sizes.
    pub(super) fn threaded_with(seed: u64, workers: usize, sizes: Sizes) -> World {
        World::on(SimStorage::new(seed), seed, Some(Kind::Linear), sizes, workers)
    }

    fn on(disk: SimStorage, seed: u64, index: Option<Kind>, sizes: Sizes, workers: usize) -> World {
        World::within(disk, seed, (index, sizes), workers, usize::MAX)
    }

    fn within(
        disk: SimStorage,
        seed: u64,
        (index, sizes): (Option<Kind>, Sizes),
        workers: usize,
        table_cache: usize,
    ) -> World {
        let mut environment = disk.environment(7, 64 << 20);
        if workers > 0 {
            environment.scheduler = Scheduler::threaded(workers, environment.health.clone());
        }
        let context = context(&environment, LOG, true, seed);
        let pool = Pool::new(&context.shared.memory);
        let options = LsmOptions { index, ..LsmOptions::default() };
        let cache = TableCache::new(&context.shared.memory, &context.shared.domain, table_cache);
        let files = Files::new(context.clone(), options, Structure::default(), &cache);
        let keyspace = Arc::new(LsmKeyspace::create(files, sizes, pool.clone(), Around::default()));
        World { disk, environment, keyspace, context, pool, cache, sequence: AtomicU64::new(1) }
    }

    /// What there is after a flush and another opening.
    pub(super) fn reopened(&self) -> Arc<LsmKeyspace> {
        self.keyspace.flush(Seq::MAX).unwrap();
        let (options, structure) = blob::decode(&self.keyspace.checkpoint().unwrap().blob).unwrap();
        let files = Files::new(self.context.clone(), options, structure, &self.cache);
        let keyspace = LsmKeyspace::open(files, Sizes::TINY, self.pool.clone(), Around::default());
        keyspace.structure_recovered().unwrap();
        Arc::new(keyspace)
    }

    /// Another empty keyspace of the same database.
    pub(super) fn another(&self, number: u32, sizes: Sizes) -> Arc<LsmKeyspace> {
        self.another_by(self.context.shared.clock.clone(), number, sizes)
    }

    /// The same with these options.
    pub(super) fn another_with(&self, number: u32, options: LsmOptions, sizes: Sizes) -> Arc<LsmKeyspace> {
        self.made(Context { keyspace: number, ..self.context.clone() }, options, sizes, Around::default())
    }

    /// The same behind a cache.
    pub(super) fn another_behind(&self, number: u32, front: Arc<dyn Front>) -> Arc<LsmKeyspace> {
        let (context, around) =
            (Context { keyspace: number, ..self.context.clone() }, Around { front: Some(front), ..Around::default() });
        self.made(context, LsmOptions::default(), Sizes::TINY, around)
    }

    /// The same whose reads are judged.
    pub(super) fn another_judged(&self, number: u32, sizes: Sizes) -> Arc<LsmKeyspace> {
        let around = Around { ledger: Some(Arc::new(Ledger::new(true, false))), ..Around::default() };
        self.made(Context { keyspace: number, ..self.context.clone() }, LsmOptions::default(), sizes, around)
    }

    /// The same by a clock of its own.
    pub(super) fn another_by(&self, clock: Arc<dyn Clock>, number: u32, sizes: Sizes) -> Arc<LsmKeyspace> {
        let shared = Shared { clock, ..self.context.shared.clone() };
        let context = Context { keyspace: number, shared, ..self.context.clone() };
        self.made(context, LsmOptions::default(), sizes, Around::default())
    }

    fn made(&self, context: Context, options: LsmOptions, sizes: Sizes, around: Around) -> Arc<LsmKeyspace> {
        let files = Files::new(context, options, Structure::default(), &self.cache);
        Arc::new(LsmKeyspace::create(files, sizes, self.pool.clone(), around))
    }

    /// Writes a key as a commit does.
    pub(super) fn write(&self, key: &[u8], value: Option<&[u8]>) {
        self.write_to(&self.keyspace, key, value);
    }

    /// The same, and in the model.
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
        keyspace.pace(bytes, operation.value.is_some()).expect("it is there");
        let admission = keyspace.admit(operation).expect("there is memory");
        keyspace.apply(admission, self.sequence.fetch_add(1, Ordering::Relaxed), operation);
    }

    pub(super) fn flush(&self) {
        self.keyspace.flush(Seq::MAX).expect("the disk takes it");
    }

    pub(super) fn stat(&self, name: &str) -> u64 {
        stat(&self.keyspace.stats(), name)
    }

    /// How far compaction is behind.
    pub(super) fn behind(&self) -> f64 {
        self.keyspace.lsm().behind()
    }

    /// Requests to read from tables so far.
    pub(super) fn reads(&self) -> u64 {
        self.disk.counters_of(FileKind::Table).reads
    }

    /// Has the next I/O but so many fail.
    pub(super) fn fail_io(&self, after: u64) {
        self.disk.fail_at(self.disk.io_index() + after, io::ErrorKind::Other);
    }

    /// Files on the disk.
    pub(super) fn tables(&self) -> u64 {
        self.disk.files().keys().filter(|file| file.kind() == FileKind::Table).count() as u64
    }

    /// Everything is as in the model, and passes the check.
    pub(super) fn expect(&self, model: &Model) {
        expect(&self.keyspace, model);
    }
}

/// Everything is as in the model, and passes the check.
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

/// The next record of an end.
pub(super) fn step(cursor: &mut dyn Cursor, reverse: bool) -> Result<Option<Record>> {
    let next = if reverse { cursor.next_back() } else { cursor.next() };
    Ok(next?.map(|(key, value)| (key.to_vec(), value.to_vec())))
}

/// The records of a range of the model.
pub(super) fn expected(model: &Model, range: &Range) -> Vec<Record> {
    model.iter().filter(|(key, _)| range.contains(*key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}
