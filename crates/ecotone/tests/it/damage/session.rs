//! One session of the database of an image: its writes, and the content after each of them.

use std::ops::Range;

use ecotone::{
    AdaptiveOptions, Database, Durability, HashOptions, Hint, Keyspace, KeyspaceOptions, LsmOptions,
    options::{Compression, IndexKind},
};
use ecotone_testkit::{
    model::{Key, State},
    sim::{Crash, SimStorage},
};

use super::{
    either::{Either, either},
    image::{Image, Jobs, NAMES, abandon, open_watched},
};

/// The engines of both keyspaces.
pub(super) type Engines = [&'static str; 2];

/// A database in use. Its writes are durable.
pub(super) struct Session {
    disk: SimStorage,
    database: Database,
    jobs: Jobs,
    engines: Engines,
    states: Vec<State>,
}

impl Session {
    /// Opens the database with this content. Keyspaces are created by their first write.
    pub(super) fn begin(disk: &SimStorage, seed: u64, engines: Engines, content: State) -> Self {
        let (database, jobs) = open_watched(disk, seed).expect("an intact database opens");
        Session { disk: disk.clone(), database, jobs, engines, states: vec![content] }
    }

    /// Kills the process.
    pub(super) fn end(self) -> Image {
        let disk = self.disk.crash(Crash::KeepAll);
        abandon(&self.disk, self.database);
        Image { disk, engines: self.engines, states: self.states }
    }

    fn keyspace(&self, number: u32) -> Either {
        let mut named = NAMES.into_iter().zip(self.engines);
        let ((_, name), engine) = named.find(|((id, _), _)| *id == number).expect("a known number");
        let keyspace = match engine {
            "hash" => self.database.hash_keyspace(name, HashOptions::default()).map(Either::Hashed),
            ordered => self.database.keyspace(name, options(ordered, number)).map(Either::Ordered),
        };
        match keyspace.expect("a keyspace") {
            Either::Ordered(keyspace) => Either::Ordered(keyspace.durability(Durability::Sync)),
            Either::Hashed(keyspace) => Either::Hashed(keyspace.durability(Durability::Sync)),
        }
    }

    fn ordered(&self, number: u32) -> Keyspace {
        match self.keyspace(number) {
            Either::Ordered(keyspace) => keyspace,
            Either::Hashed(_) => panic!("the keys of a hash keyspace have no order"),
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

    pub(super) fn insert(&mut self, keyspace: u32, number: u32, length: usize) {
        let (key, value) = (key(number), value(number, length));
        either!(self.keyspace(keyspace), keyspace => keyspace.insert(&key, &value)).expect("an insert");
        self.note(&[((keyspace, key), Some(value))]);
    }

    pub(super) fn remove(&mut self, keyspace: u32, number: u32) {
        either!(self.keyspace(keyspace), keyspace => keyspace.remove(key(number))).expect("a removal");
        self.note(&[((keyspace, key(number)), None)]);
    }

    /// A batch over both keyspaces.
    pub(super) fn batch(&mut self, numbers: Range<u32>) {
        self.batch_of(numbers, 60);
    }

    /// The same with values of `length` bytes.
    pub(super) fn batch_of(&mut self, numbers: Range<u32>, length: usize) {
        let mut batch = self.database.batch().durability(Durability::Sync);
        let mut changes = Vec::new();
        for (number, keyspace) in numbers.zip([1, 2].into_iter().cycle()) {
            either!(&self.keyspace(keyspace), keyspace => batch.insert(keyspace, key(number), value(number, length)));
            changes.push(((keyspace, key(number)), Some(value(number, length))));
        }
        batch.commit().expect("a batch");
        self.note(&changes);
    }

    /// Loads values by ascending numbers.
    pub(super) fn bulk_load(&mut self, keyspace: u32, values: impl Iterator<Item = (u32, Vec<u8>)>) {
        let records: Vec<_> = values.map(|(number, value)| (key(number), value)).collect();
        self.ordered(keyspace).bulk_load(records.iter().cloned()).expect("a bulk load");
        let changes: Vec<_> = records.into_iter().map(|(key, value)| ((keyspace, key), Some(value))).collect();
        self.note(&changes);
    }

    /// Hints how a range of the first keyspace will be used, and runs the conversions that follow, and nothing else.
    pub(super) fn hint(&self, numbers: Range<u32>, hint: Hint) {
        let keyspace = self.ordered(1);
        keyspace.hint(key(numbers.start)..key(numbers.end), hint).expect("a hint");
        let is_queued = || keyspace.shapes().iter().any(|range| range.shape.is_queued());
        while is_queued() && self.jobs.run_one() {}
    }

    /// Flushes all writes to the data files of both keyspaces, and stores a checkpoint.
    pub(super) fn flush(&self) {
        self.database.flush().expect("a flush");
    }

    /// Runs the background jobs.
    pub(super) fn settle(&self) {
        while self.jobs.run_one() {}
    }
}

/// The lsm engine gets two kinds of tables. Only hints convert ranges.
fn options(engine: &str, number: u32) -> KeyspaceOptions {
    match (engine, number) {
        ("lsm", 2) => KeyspaceOptions::lsm(LsmOptions::default().index(IndexKind::Plr).compression(Compression::Lz4)),
        ("adaptive", _) => KeyspaceOptions::adaptive(AdaptiveOptions::default().adapt(0)),
        _ => KeyspaceOptions::default().engine_named(engine),
    }
}

/// Keys in the order of the numbers.
fn key(number: u32) -> Vec<u8> {
    format!("key/{number:06}").into_bytes()
}

pub(super) fn value(number: u32, length: usize) -> Vec<u8> {
    (0..length).map(|i| (number as usize * 31 + i * 7) as u8).collect()
}

/// A value that is mostly zeros, so that it takes little of a golden store however long it is.
pub(super) fn sparse(number: u32, length: usize) -> Vec<u8> {
    let mut value = format!("{number:08}").into_bytes();
    value.resize(length, 0);
    value
}
