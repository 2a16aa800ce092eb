//! A small database that ended with something in every file: pages, overflow pages, a double-write batch, structural records and
//! operations that only the log has.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use ecotone::{
    Database, Durability, HashOptions, KeyspaceOptions, Result,
    internal::{
        Parts,
        engines::{engine::Shared, hash::HashFamily, tree::TreeFamily},
        substrate::storage::FileId,
    },
};
use ecotone_testkit::{
    model::{Key, State},
    sim::{Crash, SimClock, SimStorage},
    suite::{Kind, Watched},
};

use super::either::{Either, either};

/// The keyspaces by their numbers.
pub(super) const NAMES: [(u32, &str); 2] = [(1, "towns"), (2, "notes")];
const BUDGET: usize = 16 << 20;

/// The database as its end left it.
pub(super) struct Image {
    pub(super) disk: SimStorage,
    /// The content after each write of the last life, from its beginning on.
    pub(super) states: Vec<State>,
}

impl Image {
    /// A few dozen pages. `seed` decides the database's identity.
    pub(super) fn new(seed: u64) -> Self {
        Self::of(seed, 150)
    }

    /// Two lives: the first flushes, loads `records` and some in bulk, and dies; the second recovers, writes and dies.
    pub(super) fn of(seed: u64, records: u32) -> Self {
        Self::made(seed, Kind::Ordered, |life| life.fill(records))
    }

    /// The same with hash keyspaces, whose records are in a hot log, in deltas and in bases.
    pub(super) fn hashed(seed: u64) -> Self {
        Self::made(seed, Kind::Hashed, Life::fill_hashed)
    }

    fn made(seed: u64, kind: Kind, fill: impl FnOnce(&mut Life)) -> Self {
        let disk = SimStorage::new(seed);
        let mut life = Life::begin(&disk, seed, kind, State::new());
        fill(&mut life);
        let end = life.end();
        let mut life = Life::begin(&end.disk, seed, kind, end.now().clone());
        life.log();
        life.end()
    }

    /// What it holds.
    pub(super) fn now(&self) -> &State {
        self.states.last().expect("a life has a beginning")
    }

    /// The files and their bytes.
    pub(super) fn files(&self) -> BTreeMap<FileId, Vec<u8>> {
        self.disk.files()
    }

    /// A copy to damage.
    pub(super) fn copy(&self) -> SimStorage {
        self.disk.crash(Crash::KeepAll)
    }

    /// Where in [`last_segment`](Self::last_segment) the last write begins. No mark behind it says that it was synced, so damage cannot be told from a torn end.
    pub(super) fn last_write(&self) -> usize {
        let bytes = &self.files()[&self.last_segment()];
        let number = |offset: usize| u64::from_le_bytes(*bytes[offset..].first_chunk().expect("eight bytes"));
        let (mut offset, mut last) = (4096, 0);
        while bytes[offset..offset + 9] != [0; 9] {
            if bytes[offset + 8] == 3 {
                last = 4096 + usize::try_from(number(offset + 9) - number(24)).expect("an offset");
            }
            offset += 9 + (number(offset) & 0xffff_ffff) as usize;
        }
        last
    }

    /// The log segment that the last life wrote.
    pub(super) fn last_segment(&self) -> FileId {
        let start = |bytes: &[u8]| u64::from_le_bytes(bytes[24..32].try_into().expect("eight bytes"));
        let logs = self.files().into_iter().filter(|(id, bytes)| matches!(id, FileId::Log(_)) && bytes.starts_with(b"ECOTLOG"));
        logs.max_by_key(|(_, bytes)| start(bytes)).expect("there is a log").0
    }
}

/// Opens the database on `disk`, without threads; nothing is made if there is none.
pub(super) fn open(disk: &SimStorage, seed: u64) -> Result<Database> {
    open_watched(disk, seed).map(|(database, _)| database)
}

/// The same, and what its hash keyspaces share, if there are any, for who runs their jobs.
pub(super) fn open_watched(disk: &SimStorage, seed: u64) -> Result<(Database, Arc<OnceLock<Shared>>)> {
    let (hash, shared) = Watched::over(Arc::new(HashFamily::tiny()));
    let parts = Parts {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(SimClock::new(seed)),
        workers: 0,
        families: vec![Arc::new(TreeFamily::default()), hash],
    };
    let database = Database::builder("simulated").memory_budget(BUDGET).open_parts(parts)?;
    Ok((database, shared))
}

/// Opens a keyspace, of whatever kind it is.
pub(super) fn keyspace(database: &Database, name: &str) -> Result<Either> {
    let hashed = database.keyspaces().iter().any(|info| info.name == name && info.engine == "hash");
    if hashed { database.open_hash_keyspace(name).map(Either::Hashed) } else { database.open_keyspace(name).map(Either::Ordered) }
}

/// Closes a database whose files do not matter any more, without the I/O of a proper end.
pub(super) fn abandon(disk: &SimStorage, database: Database) {
    disk.power_off();
    drop(database);
}

/// One life of the database, and the contents that it went through.
struct Life {
    disk: SimStorage,
    database: Database,
    shared: Arc<OnceLock<Shared>>,
    kind: Kind,
    states: Vec<State>,
}

impl Life {
    fn begin(disk: &SimStorage, seed: u64, kind: Kind, content: State) -> Self {
        let (database, shared) = open_watched(disk, seed).expect("an intact database opens");
        Life { disk: disk.clone(), database, shared, kind, states: vec![content] }
    }

    fn end(self) -> Image {
        let disk = self.disk.crash(Crash::KeepAll);
        abandon(&self.disk, self.database);
        Image { disk, states: self.states }
    }

    fn keyspace(&self, number: u32) -> Either {
        let name = NAMES.iter().find(|(id, _)| *id == number).expect("a known number").1;
        let keyspace = match self.kind {
            Kind::Ordered => self.database.keyspace(name, KeyspaceOptions::default()).map(Either::Ordered),
            Kind::Hashed => self.database.hash_keyspace(name, HashOptions::default()).map(Either::Hashed),
        };
        match keyspace.expect("a keyspace") {
            Either::Ordered(keyspace) => Either::Ordered(keyspace.durability(Durability::Sync)),
            Either::Hashed(keyspace) => Either::Hashed(keyspace.durability(Durability::Sync)),
        }
    }

    fn note(&mut self, changes: &[(Key, Option<Vec<u8>>)]) {
        let mut state = self.states.last().expect("a beginning").clone();
        for (key, value) in changes {
            match value {
                Some(value) => state.insert(key.clone(), value.clone()),
                None => state.remove(key),
            };
        }
        self.states.push(state);
    }

    fn insert(&mut self, keyspace: u32, number: u32, length: usize) {
        let (key, value) = (key(number), value(number, length));
        either!(self.keyspace(keyspace), keyspace => keyspace.insert(&key, &value)).expect("an insert");
        self.note(&[((keyspace, key), Some(value))]);
    }

    fn remove(&mut self, keyspace: u32, number: u32) {
        either!(self.keyspace(keyspace), keyspace => keyspace.remove(key(number))).expect("a removal");
        self.note(&[((keyspace, key(number)), None)]);
    }

    /// A batch over both keyspaces.
    fn batch(&mut self, numbers: std::ops::Range<u32>) {
        let mut batch = self.database.batch().durability(Durability::Sync);
        let mut changes = Vec::new();
        for (number, keyspace) in numbers.zip([1, 2].into_iter().cycle()) {
            either!(&self.keyspace(keyspace), keyspace => batch.insert(keyspace, key(number), value(number, 60)));
            changes.push(((keyspace, key(number)), Some(value(number, 60))));
        }
        batch.commit().expect("a batch");
        self.note(&changes);
    }

    fn bulk_load(&mut self, keyspace: u32, numbers: std::ops::Range<u32>) {
        let records: Vec<_> = numbers.map(|number| (key(number), value(number, 250))).collect();
        let Either::Ordered(ordered) = self.keyspace(keyspace) else { panic!("no hash keyspace has a bulk load") };
        ordered.bulk_load(records.iter().cloned()).expect("a bulk load");
        let changes: Vec<_> = records.into_iter().map(|(key, value)| ((keyspace, key), Some(value))).collect();
        self.note(&changes);
    }

    /// Pages of both keyspaces, then a checkpoint, then what only the log says.
    fn fill(&mut self, records: u32) {
        (0..records).for_each(|i| self.insert(1, i * 7 % records * 10, 300));
        (0..records / 4).for_each(|i| self.insert(2, i * 10, 40));
        self.database.flush().expect("a flush");
        // More than the first page has room for, so that it gets an overflow page.
        (1..20).filter(|i| i % 10 != 0).for_each(|i| self.insert(1, i, 170));
        self.database.flush().expect("a flush");
        self.bulk_load(2, 1_000..1_000 + records * 2 / 5);
        (0..records / 15).for_each(|i| self.insert(1, i * 100, 310));
    }

    /// What leaves memory comes into deltas and from there into bases; the last of it is flushed, and of what comes then some leaves memory again, which the log
    /// tells.
    fn fill_hashed(&mut self) {
        self.insert_and_compact(600);
        (0..40).for_each(|i| self.insert(2, i * 10, 40));
        (0..20).for_each(|i| self.remove(1, i * 10));
        self.database.flush().expect("a flush");
        self.insert_and_compact(170);
    }

    fn insert_and_compact(&mut self, count: u32) {
        for i in 0..count {
            self.insert(1, i * 7 % 450 * 10, 600);
            while self.shared.get().is_some_and(|shared| shared.scheduler.run_one()) {}
        }
    }

    fn log(&mut self) {
        self.insert(1, 3, 100);
        self.batch(2_000..2_006);
        self.remove(1, 30);
        self.insert(2, 10, 500);
        self.remove(2, 1_003);
        self.insert(1, 3, 7);
    }
}

/// Ordered as the numbers are.
fn key(number: u32) -> Vec<u8> {
    format!("key/{number:06}").into_bytes()
}

fn value(number: u32, length: usize) -> Vec<u8> {
    (0..length).map(|i| (number as usize * 31 + i * 7) as u8).collect()
}
