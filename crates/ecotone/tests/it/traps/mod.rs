//! Known traps of storage engines like ours, each by its number; `docs/reliability.md` lists them all.

mod crashes;
mod overlaps;

use ecotone_testkit::{
    model::{Ending, Key, Level, Model},
    sim::{Crash, SimStorage},
    suite::{Kind, Opener, Store},
};

use crate::store::Simulated;

/// Makes an engine.
pub(crate) type Engine = fn() -> Simulated;

/// The keyspace of all these tests, and the only one.
pub(crate) const KEYSPACE: u32 = 1;

pub(crate) fn key(number: u32) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

/// A value that encodes the write that it came from.
pub(crate) fn value(number: u32, version: u8, bytes: usize) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(bytes.max(4), version);
    value
}

/// Opens a database, and its keyspace by a read of a missing record. The thread that opens a keyspace does so for all
/// threads that wait for it, so a paused thread must not be the one.
fn in_use(engine: Engine, disk: &SimStorage) -> Box<dyn Store> {
    let store = engine().open(disk, 1).unwrap();
    assert_eq!(store.get(KEYSPACE, b"zzz").unwrap(), None);
    store
}

/// A database, the content that its keyspace must have, and its disk.
pub(crate) struct Fixture {
    engine: Engine,
    pub(crate) disk: SimStorage,
    pub(crate) store: Box<dyn Store>,
    pub(crate) model: Model,
}

impl Fixture {
    /// Loads records of these lengths, all of version 0, and closes.
    pub(crate) fn loaded(engine: Engine, lengths: impl Iterator<Item = usize>) -> Fixture {
        let disk = SimStorage::new(1);
        let store = engine().open(&disk, 1).unwrap();
        store.create(KEYSPACE).unwrap();
        let mut fixture = Fixture { engine, disk, store, model: Model::new() };
        let records: Vec<_> = lengths.zip(0..).map(|(bytes, number)| (key(number), value(number, 0, bytes))).collect();
        let changes: Vec<_> =
            records.iter().map(|(key, value)| ((KEYSPACE, key.clone()), Some(value.clone()))).collect();
        match engine().kind() {
            Kind::Ordered => _ = fixture.store.bulk_load(KEYSPACE, records).unwrap(),
            Kind::Hashed => changes.chunks(100).for_each(|changes| fixture.store.write(changes, Level::Sync).unwrap()),
        }
        fixture.model.record(changes, Level::Sync);
        fixture.reopened()
    }

    /// The same after a close.
    fn reopened(self) -> Fixture {
        let Fixture { engine, disk, store, model } = self;
        store.close().unwrap();
        let disk = disk.crash(Crash::KeepAll);
        Fixture { engine, store: in_use(engine, &disk), disk, model }
    }

    pub(crate) fn copied(&self, how: Crash) -> Fixture {
        let disk = self.disk.crash(how);
        Fixture { engine: self.engine, store: in_use(self.engine, &disk), disk, model: self.model.clone() }
    }

    /// Writes, and records the outcome in the model.
    fn write(&mut self, number: u32, value: Option<Vec<u8>>, level: Level) -> ecotone::Result<()> {
        let changes = vec![((KEYSPACE, key(number)), value)];
        let answer = self.store.write(&changes, level);
        self.model.record(changes, if answer.is_ok() { level } else { Level::InDoubt });
        answer
    }

    fn content(&self) -> Vec<(Key, Vec<u8>)> {
        let mut all = match (self.engine)().kind() {
            Kind::Ordered => {
                self.store.scan(KEYSPACE, (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded), false).unwrap()
            }
            Kind::Hashed => self.store.walk(KEYSPACE).unwrap(),
        };
        all.sort_unstable();
        all.into_iter().map(|(key, value)| ((KEYSPACE, key), value)).collect()
    }

    /// Checks that everything is there and sound.
    fn check(&self, ending: Ending, what: &str) {
        let judged = self.model.check_recovered(ending, self.content());
        judged.unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
        assert_eq!(self.store.verify().unwrap(), Vec::<String>::new(), "{what}");
    }
}
