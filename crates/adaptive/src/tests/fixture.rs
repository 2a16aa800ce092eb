//! The fixture: an adaptive keyspace on a simulated disk, and a model of its records.

use std::{collections::BTreeMap, iter, ops::Bound, sync::Arc, time::Duration};

use ecotone_engine::contract::{
    Context, Cursor, Engine, EngineCheckpoint, Get, Operation, Ordered, Range, Record, Recover,
};
use ecotone_lsm::{LsmFamily, pages::conversion::Conversion};
use ecotone_substrate::{Result, Seq, clock::Clock, environment::Environment, scheduler::Scheduler, wal::WalOptions};
use ecotone_testkit::{
    engine::{context, stat},
    restless::{RestlessObserver, stir},
    sim::SimStorage,
};
use ecotone_tree::{TreeFamily, page_allocator::PageFile};

use crate::{AdaptiveFamily, AdaptiveKeyspace, AdaptiveOptions, task::conversion};

/// The records that a keyspace should have.
pub(super) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The key of a number. Keys sort like their numbers.
pub(super) fn key(number: u32) -> Vec<u8> {
    [&b"key "[..], &number.to_be_bytes()].concat()
}

/// All keys.
pub(super) const ALL: Range = (Bound::Unbounded, Bound::Unbounded);

pub(super) const LOG: WalOptions =
    WalOptions { first_bytes: 1 << 20, segment_bytes: 1 << 20, limit_bytes: 16 << 20, longest_bytes: 16 << 20 };

pub(super) struct Fixture {
    pub(super) disk: SimStorage,
    pub(super) environment: Environment,
    context: Context,
    family: Box<dyn Fn() -> AdaptiveFamily + Send + Sync>,
    pub(super) keyspace: Arc<AdaptiveKeyspace>,
    /// Whether flushes also convert ranges at random.
    is_restless: bool,
    sequence: Seq,
}

const MEMORY: usize = 64 << 20;

fn tiny(table_bytes: u64) -> AdaptiveFamily {
    AdaptiveFamily::beside(&LsmFamily::tiny_with_tables(table_bytes), &TreeFamily::default())
}

impl Fixture {
    pub(super) fn new(seed: u64, options: AdaptiveOptions) -> Fixture {
        Fixture::with_tables(seed, options, 16 << 10)
    }

    /// Conversion steps take four times as many bytes as a table has.
    pub(super) fn with_tables(seed: u64, options: AdaptiveOptions, table_bytes: u64) -> Fixture {
        Fixture::of(seed, options, (MEMORY, 0), move || tiny(table_bytes))
    }

    /// Ranges are also converted at random.
    pub(super) fn restless(seed: u64, options: AdaptiveOptions) -> Fixture {
        let family = || tiny(16 << 10).with_observer(RestlessObserver::wrap);
        Fixture { is_restless: true, ..Fixture::of(seed, options, (MEMORY, 0), family) }
    }

    /// Has this number of background threads.
    pub(super) fn threaded(seed: u64, options: AdaptiveOptions, workers: usize) -> Fixture {
        Fixture::of(seed, options, (MEMORY, workers), || tiny(16 << 10))
    }

    /// Has this many bytes of memory.
    pub(super) fn with_memory(seed: u64, options: AdaptiveOptions, memory: usize) -> Fixture {
        Fixture::of(seed, options, (memory, 0), || tiny(64 << 10))
    }

    /// Its reads can be counted, because there is no read checker.
    pub(super) fn unchecked(seed: u64, options: AdaptiveOptions) -> Fixture {
        Fixture::of(seed, options, (MEMORY, 0), || {
            AdaptiveFamily::beside(&LsmFamily::tiny_with_tables(16 << 10).unchecked(), &TreeFamily::default())
        })
    }

    /// Memtables have the size that the options give.
    pub(super) fn large(seed: u64, options: AdaptiveOptions) -> Fixture {
        Fixture::of(seed, options, (MEMORY, 0), || {
            AdaptiveFamily::beside(&LsmFamily::default(), &TreeFamily::default())
        })
    }

    /// Has background threads and another clock.
    pub(super) fn by(workers: usize, options: AdaptiveOptions, clock: Arc<dyn Clock>) -> Fixture {
        Fixture::made(4, options, (MEMORY, workers), Some(clock), || tiny(16 << 10))
    }

    fn of(
        seed: u64,
        options: AdaptiveOptions,
        extent: (usize, usize),
        family: impl Fn() -> AdaptiveFamily + Send + Sync + 'static,
    ) -> Fixture {
        Fixture::made(seed, options, extent, None, family)
    }

    fn made(
        seed: u64,
        options: AdaptiveOptions,
        (memory, workers): (usize, usize),
        clock: Option<Arc<dyn Clock>>,
        family: impl Fn() -> AdaptiveFamily + Send + Sync + 'static,
    ) -> Fixture {
        let disk = SimStorage::new(seed);
        let mut environment = disk.environment(7, memory);
        if workers > 0 {
            environment.scheduler = Scheduler::threaded(workers, environment.health.clone());
        }
        let mut context = context(&environment, LOG, true, seed);
        clock.into_iter().for_each(|clock| context.shared.clock = clock);
        let file = PageFile::create(&environment, context.keyspace).unwrap();
        let keyspace = Arc::new(family().empty(&context, options, &file).unwrap());
        Fixture { disk, environment, context, family: Box::new(family), keyspace, is_restless: false, sequence: 1 }
    }

    /// Writes a key as a commit does.
    pub(super) fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        let operation = Operation { key, value };
        let bytes = operation.key.len() + operation.value.map_or(0, <[u8]>::len);
        self.keyspace.throttle(bytes, operation.value.is_some()).expect("it is there");
        let admission = self.keyspace.admit(operation).expect("there is memory");
        self.keyspace.apply(admission, self.sequence, operation);
        self.sequence += 1;
    }

    /// Writes a key by its number, also to the model.
    pub(super) fn put(&mut self, model: &mut Model, number: u32, value: Option<&[u8]>) {
        self.write(&key(number), value);
        match value {
            Some(value) => model.insert(key(number), value.to_vec()),
            None => model.remove(&key(number)),
        };
    }

    pub(super) fn flush(&self) {
        self.keyspace.flush(Seq::MAX).expect("the disk takes it");
        if self.is_restless {
            let keyspace = &self.keyspace;
            stir(&keyspace.lsm, keyspace.options.split, &*self.context.shared.clock).expect("the disk takes it");
        }
    }

    /// Flushes, makes a checkpoint and opens it.
    pub(super) fn reopen(&mut self) {
        self.flush();
        let checkpoint = self.keyspace.checkpoint().unwrap();
        let keyspace = self.structure_of(&checkpoint).unwrap();
        keyspace.recovered().unwrap();
        self.keyspace = Arc::new(keyspace);
    }

    /// The state of a checkpoint before replay.
    pub(super) fn structure_of(&self, checkpoint: &EngineCheckpoint) -> Result<AdaptiveKeyspace> {
        let keyspace = (self.family)().open_keyspace(&self.context, checkpoint)?;
        keyspace.structure_recovered().map(|()| keyspace)
    }

    /// Lets time pass and runs the background jobs.
    pub(super) fn pass(&self, time: Duration) {
        self.context.shared.clock.sleep(time);
        while self.environment.scheduler.run_one() {}
    }

    /// Makes the scheduler's tick, which comes about once a second, and runs the background jobs.
    pub(super) fn tick(&self) {
        self.environment.scheduler.tick();
        while self.environment.scheduler.run_one() {}
    }

    /// End of the log.
    pub(super) fn tail(&self) -> Seq {
        self.context.shared.wal.tail()
    }

    /// End of the synced part of the log.
    pub(super) fn synced(&self) -> Seq {
        self.context.shared.wal.synced()
    }

    pub(super) fn stat(&self, name: &str) -> u64 {
        stat(&self.keyspace.stats(), name)
    }

    pub(super) fn collect(&self, range: Range, reverse: bool) -> Vec<Record> {
        let mut cursor = self.keyspace.clone().cursor(range);
        iter::from_fn(|| step(&mut *cursor, reverse)).collect()
    }

    /// The values of some keys, read by one call.
    pub(super) fn multi_get(&self, keys: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut found = vec![None; keys.len()];
        let mut told = 0;
        let mut tell = |number: usize, value: Option<&[u8]>| {
            told += 1;
            found[number] = value.map(<[u8]>::to_vec);
        };
        self.keyspace.multi_get(&keys, &mut tell).unwrap();
        assert_eq!(told, keys.len());
        found
    }

    /// Asserts that all reads match the model and that the check finds no problem.
    pub(super) fn expect(&self, model: &Model) {
        let check = self.keyspace.verify().unwrap();
        assert_eq!((check.problems, check.records), (vec![], model.len() as u64));
        self.expect_reads(model);
    }

    /// Asserts that scans in both directions and gets match the model.
    pub(super) fn expect_reads(&self, model: &Model) {
        let records: Vec<Record> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        assert_eq!(self.collect(ALL, false), records);
        assert!(self.collect(ALL, true).into_iter().rev().eq(records.iter().cloned()));
        records
            .iter()
            .step_by(7)
            .for_each(|(key, value)| assert_eq!(self.keyspace.get(key).unwrap().as_ref(), Some(value)));
    }
}

impl AdaptiveKeyspace {
    fn conversion(&self) -> Conversion<'_> {
        conversion(self.lsm.lsm())
    }

    /// Converts a range to pages: all its visible table records, or those of the oldest run or level only.
    pub(super) fn convert_to_pages(&self, lower: &[u8], upper: &[u8]) -> Result<()> {
        self.conversion().convert_to_pages(self.options.split, lower, upper)
    }

    /// Makes table records in the range visible again.
    pub(super) fn reactivate(&self, lower: &[u8], upper: &[u8]) -> Result<()> {
        self.conversion().reactivate_tables(lower, upper)
    }

    /// Converts a range to tables: its pages are emptied.
    pub(super) fn convert_to_tables(&self, lower: &[u8], upper: &[u8]) -> Result<()> {
        self.conversion().convert_to_tables(lower, upper)
    }
}

/// The next record of a cursor from one of its ends.
pub(super) fn step(cursor: &mut dyn Cursor, reverse: bool) -> Option<Record> {
    let next = if reverse { cursor.next_back() } else { cursor.next() };
    next.unwrap().map(|(key, value)| (key.to_vec(), value.to_vec()))
}
