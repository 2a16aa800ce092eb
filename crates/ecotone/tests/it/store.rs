//! The library as a `Store` of the test kit, over any engine, on a simulated disk.

use std::sync::{Arc, OnceLock};

use ecotone::{
    Batch, Database, Durability, Engine, HashKeyspaceOptions, Hint, Keyspace, KeyspaceOptions, Merge, Result, Swap,
    internal::{
        Components,
        engine::{
            contract::{EngineFactory, Range, Record, Shared},
            superseded::Superseded,
        },
        substrate::{
            Seq,
            memory::{CacheComponents, Component},
            storage::FileId,
        },
    },
    limits,
};
use ecotone_sys::chunk::Size;
use ecotone_testkit::{
    model::{Change, Level},
    sim::{SimClock, SimStorage},
    suite::{Counters, Kind, ObservedFactory, Opener, ReportRecorder, Store, UNLOGGED, Update, add},
};

use crate::either::{Either, either};

/// Device requests that the balancer believes an eviction would save: many more than a short history makes.
const DEMAND: u64 = 10_000;

/// Opens databases whose keyspaces have one kind of engine. Background jobs run on the thread that drives the database,
/// or on workers.
pub(crate) struct Simulated {
    family: fn() -> Arc<dyn EngineFactory>,
    name: &'static str,
    kind: Kind,
    settings: &'static [(&'static str, &'static str)],
    budgets: &'static [usize],
    logged: bool,
    workers: usize,
}

impl Simulated {
    pub(crate) fn new(kind: Kind, family: fn() -> Arc<dyn EngineFactory>) -> Self {
        Simulated {
            family,
            name: family().name(),
            kind,
            settings: &[],
            budgets: &[limits::MIN_BUDGET],
            logged: true,
            workers: 0,
        }
    }

    /// Sets options of the engine.
    #[cfg(not(any(feature = "bugs", feature = "shuttle")))]
    pub(crate) fn set(self, settings: &'static [(&'static str, &'static str)]) -> Self {
        Simulated { settings, ..self }
    }

    /// Sets the number of background threads.
    pub(crate) fn workers(self, workers: usize) -> Self {
        Simulated { workers, ..self }
    }

    /// Sets memory budgets. Each open draws one of them.
    #[cfg(not(any(feature = "bugs", feature = "shuttle")))]
    pub(crate) fn budgets(self, budgets: &'static [usize]) -> Self {
        Simulated { budgets, ..self }
    }

    /// Makes all keyspaces unlogged. A crash may then lose writes.
    pub(crate) fn unlogged(self) -> Self {
        Simulated { logged: false, ..self }
    }

    /// The budget of an open, drawn from the state of the disk, so that it is a function of the seed like all else.
    /// Each session stores manifests, so the disk differs.
    fn budget(&self, disk: &SimStorage) -> usize {
        if let [budget] = self.budgets {
            return *budget;
        }
        let manifest = disk.file(FileId::Manifest(1)).unwrap_or_default();
        let generation =
            manifest.get(48..56).and_then(|bytes| bytes.first_chunk().copied()).map_or(0, u64::from_le_bytes);
        self.budgets[generation as usize % self.budgets.len()]
    }
}

impl Opener for Simulated {
    fn name(&self) -> &'static str {
        self.name
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn takes_hints(&self) -> bool {
        self.name == "adaptive"
    }

    fn open(&self, disk: &SimStorage, seed: u64) -> Result<Box<dyn Store>> {
        // The tiny engines report nothing.
        let recorder = (!self.name.starts_with("tiny")).then(|| Arc::new(ReportRecorder::default()));
        let superseded = recorder.clone().map(|recorder| recorder as Arc<dyn Superseded>);
        let (family, shared) = ObservedFactory::reporting((self.family)(), superseded);
        let (storage, clock) = (Arc::new(disk.clone()), Arc::new(SimClock::new(seed)));
        let parts = Components { storage, clock, workers: self.workers, families: vec![family] };
        let database = Database::builder("simulated").memory_budget(self.budget(disk)).open_parts(parts)?;
        Ok(Box::new(Open {
            database,
            engine: self.name,
            kind: self.kind,
            settings: self.settings,
            logged: self.logged,
            shared,
            recorder,
        }))
    }
}

struct Open {
    database: Database,
    engine: &'static str,
    kind: Kind,
    settings: &'static [(&'static str, &'static str)],
    logged: bool,
    shared: Arc<OnceLock<Shared>>,
    recorder: Option<Arc<ReportRecorder>>,
}

impl Open {
    fn keyspace(&self, number: u32) -> Result<Either> {
        match self.kind {
            Kind::Ordered => self.ordered(number).map(Either::Ordered),
            Kind::Hashed => self.database.open_hash_keyspace(&number.to_string()).map(Either::Hashed),
        }
    }

    fn ordered(&self, number: u32) -> Result<Keyspace> {
        self.database.open_keyspace(&number.to_string())
    }

    fn is_logged(&self, keyspace: u32) -> bool {
        self.logged && keyspace != UNLOGGED
    }

    /// An unlogged write cannot be synced, and is refused.
    fn durability(&self, keyspace: u32, level: Level) -> Durability {
        if level == Level::Sync && self.is_logged(keyspace) { Durability::Sync } else { Durability::Buffered }
    }

    fn create_ordered(&self, keyspace: u32) -> Result<()> {
        let options = KeyspaceOptions::default().engine(Engine::Tree).engine_named(self.engine);
        let options = self.settings.iter().fold(options, |options, (name, value)| options.set(*name, *value));
        let options = if self.is_logged(keyspace) { options } else { options.unlogged() };
        self.database.create_keyspace(&keyspace.to_string(), options).map(drop)
    }

    fn create_hashed(&self, keyspace: u32) -> Result<()> {
        let options = HashKeyspaceOptions::default().engine_named(self.engine);
        let options = self.settings.iter().fold(options, |options, (name, value)| options.set(*name, *value));
        let options = if self.is_logged(keyspace) { options } else { options.unlogged() };
        self.database.create_hash_keyspace(&keyspace.to_string(), options).map(drop)
    }
}

fn write_one<T: AsRef<[u8]>>(keyspace: Either, key: T, value: Option<T>, durability: Durability) -> Result<()> {
    either!(keyspace, keyspace => {
        let keyspace = keyspace.durability(durability);
        value.map_or_else(|| keyspace.remove(&key), |value| keyspace.insert(&key, value))
    })
}

impl Store for Open {
    fn keyspaces(&self) -> Vec<u32> {
        self.database
            .keyspaces()
            .iter()
            .map(|info| info.name.parse().expect("the suites name keyspaces by number"))
            .collect()
    }

    fn create(&self, keyspace: u32) -> Result<()> {
        match self.kind {
            Kind::Ordered => self.create_ordered(keyspace),
            Kind::Hashed => self.create_hashed(keyspace),
        }
    }

    fn drop_keyspace(&self, keyspace: u32) -> Result<()> {
        self.database.drop_keyspace(&keyspace.to_string())
    }

    fn write(&self, changes: &[Change], level: Level) -> Result<()> {
        if let [((keyspace, key), value)] = changes {
            return write_one(self.keyspace(*keyspace)?, key, value.as_ref(), self.durability(*keyspace, level));
        }
        let Some(((first, _), _)) = changes.first() else { return Ok(()) };
        let mut batch: Batch = self.database.batch().durability(self.durability(*first, level));
        for ((keyspace, key), value) in changes {
            let keyspace = self.keyspace(*keyspace)?;
            either!(&keyspace, keyspace => match value {
                Some(value) => batch.insert(keyspace, key.clone(), value.clone()),
                None => batch.remove(keyspace, key.clone()),
            });
        }
        batch.commit()
    }

    fn get(&self, keyspace: u32, key: &[u8]) -> Result<Option<Vec<u8>>> {
        either!(self.keyspace(keyspace)?, keyspace => keyspace.get(key))
    }

    fn multi_get(&self, keyspace: u32, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        either!(self.keyspace(keyspace)?, keyspace => keyspace.multi_get(keys))
    }

    fn walk(&self, keyspace: u32) -> Result<Vec<Record>> {
        self.database.open_hash_keyspace(&keyspace.to_string())?.iter().collect()
    }

    fn scan(&self, keyspace: u32, range: Range, reverse: bool) -> Result<Vec<Record>> {
        let records = self.ordered(keyspace)?.range::<Vec<u8>>(range);
        if reverse { records.rev().collect() } else { records.collect() }
    }

    fn prefix(&self, keyspace: u32, prefix: &[u8]) -> Result<Vec<Record>> {
        self.ordered(keyspace)?.prefix(prefix).collect()
    }

    fn update(&self, keyspace: u32, key: &[u8], update: &mut Update<'_>) -> Result<Option<Vec<u8>>> {
        either!(self.keyspace(keyspace)?, keyspace => keyspace.fetch_update(key, update))
    }

    fn swap(&self, keyspace: u32, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        Ok(either!(self.keyspace(keyspace)?, keyspace => keyspace.compare_and_swap(key, expected, new))? == Swap::Done)
    }

    fn merge(&self, keyspace: u32, key: &[u8], merge: Merge<'_>) -> Result<()> {
        either!(self.keyspace(keyspace)?, keyspace => keyspace.merge(key, merge))
    }

    fn bulk_load(&self, keyspace: u32, records: Vec<Record>) -> Result<u64> {
        self.ordered(keyspace)?.bulk_load(records)
    }

    fn hint(&self, keyspace: u32, range: Range, hint: Hint) -> Result<()> {
        self.ordered(keyspace)?.hint::<Vec<u8>>(range, hint)
    }

    fn flush(&self) -> Result<()> {
        self.database.flush()
    }

    fn sync(&self) -> Result<()> {
        self.database.sync()
    }

    fn background(&self) -> bool {
        self.shared.get().is_some_and(|shared| shared.scheduler.run_one())
    }

    fn squeeze(&self, spare: usize) {
        let Some(Shared { memory, .. }) = self.shared.get() else { return };
        let cached = || {
            memory
                .usage()
                .iter()
                .find(|(name, _)| *name == Component::RecordCache.name())
                .map_or(0, |(_, bytes)| *bytes)
        };
        let mut taken = Vec::new();
        while cached() > spare {
            match memory.lease_essential(Component::Other, Size::Slab) {
                Ok(block) => taken.push(block),
                Err(_) => break,
            }
        }
    }

    fn evict(&self) {
        let Some(Shared { memory, .. }) = self.shared.get() else { return };
        let other = memory.join(CacheComponents::Components(&[Component::Memtable]), Box::new(|_| 0));
        // Nearly all memory is due to the component that could save so much more than the others.
        other.count(DEMAND);
        let _taken: Vec<_> = std::iter::from_fn(|| memory.lease(Component::Other, Size::Slab)).collect();
        // In the smallest pieces, since all caches together may hold less than a slab.
        while other.reclaim(Size::Frame.bytes()) {}
    }

    fn verify(&self) -> Result<Vec<String>> {
        let checks = self.database.verify()?;
        Ok(checks
            .into_iter()
            .flat_map(|(name, check)| check.problems.into_iter().map(move |what| format!("{name}: {what}")))
            .collect())
    }

    fn counters(&self) -> Counters {
        let (mut all, names) = (Counters::new(), self.keyspaces());
        for keyspace in names.into_iter().filter_map(|keyspace| self.keyspace(keyspace).ok()) {
            let stats = either!(keyspace, keyspace => keyspace.stats());
            stats.counters.into_iter().for_each(|counter| add(&mut all, &Counters::from([counter])));
        }
        all
    }

    fn recorder(&self) -> Option<Arc<ReportRecorder>> {
        self.recorder.clone()
    }

    fn log_end(&self) -> Seq {
        self.shared.get().map_or(0, |shared| shared.wal.tail())
    }

    fn purge(&self) -> Result<bool> {
        self.flush()?;
        while self.background() {}
        if self.kind == Kind::Ordered {
            self.keyspaces()
                .into_iter()
                .try_for_each(|keyspace| self.ordered(keyspace)?.compact(|_, _| ()).map(drop))?;
        }
        // No call compacts all of a hash keyspace.
        Ok(self.recorder.is_some() && self.kind == Kind::Ordered)
    }

    fn failure(&self) -> Option<String> {
        self.database.failure().map(|cause| cause.to_string())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.database.close()
    }
}
