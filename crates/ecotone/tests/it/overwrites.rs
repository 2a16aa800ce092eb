//! Dirty records of an unlogged keyspace are overwritten in place. No concurrent update is lost, and no read sees an
//! old record.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use ecotone::{Database, Engine, Keyspace, KeyspaceOptions};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

const KEYS: usize = 300;
const THREADS: u64 = 4;
const UPDATES: usize = 20_000;

/// Padded so that the keys lie on many pages.
fn value(count: u64) -> Vec<u8> {
    let mut value = count.to_be_bytes().to_vec();
    value.resize(600, 7);
    value
}

fn count(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().unwrap())
}

fn key(i: usize) -> [u8; 4] {
    (i as u32).to_be_bytes()
}

fn all(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, u64> {
    keyspace.iter().map(|record| record.unwrap()).map(|(key, value)| (key, count(&value))).collect()
}

struct Fixture {
    keyspace: Keyspace,
    acknowledged: Vec<AtomicU64>,
}

impl Fixture {
    fn acknowledged(&self, i: usize) -> u64 {
        self.acknowledged[i].load(Ordering::SeqCst)
    }

    fn update(&self, seed: u64) {
        let mut random = SmallRng::seed_from_u64(seed);
        for _ in 0..UPDATES {
            let i = random.random_range(0..KEYS);
            self.keyspace.fetch_update(key(i), |old| Some(value(old.map_or(1, |old| count(old) + 1)))).unwrap();
            self.acknowledged[i].fetch_add(1, Ordering::SeqCst);
        }
    }

    fn read(&self) {
        for i in 0..KEYS {
            let least = self.acknowledged(i);
            let found = self.keyspace.get(key(i)).unwrap().map_or(0, |value| count(&value));
            assert!(found >= least, "a get of key {i} found {found} of {least}");
        }
        let least: Vec<u64> = (0..KEYS).map(|i| self.acknowledged(i)).collect();
        let found = all(&self.keyspace);
        for (i, least) in least.into_iter().enumerate() {
            let found = found.get(key(i).as_slice()).copied().unwrap_or(0);
            assert!(found >= least, "a scan found {found} of {least} for key {i}");
        }
    }
}

#[test]
fn no_update_is_lost_and_nothing_old_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let database = Database::builder(&path).memory_budget(16 << 20).open().unwrap();
    let keyspace = database.keyspace("counters", KeyspaceOptions::default().engine(Engine::Tree).unlogged()).unwrap();
    let fixture = Fixture { keyspace, acknowledged: (0..KEYS).map(|_| AtomicU64::new(0)).collect() };
    std::thread::scope(|scope| {
        let fixture = &fixture;
        let updaters: Vec<_> = (0..THREADS).map(|seed| scope.spawn(move || fixture.update(seed))).collect();
        while updaters.iter().any(|updater| !updater.is_finished()) {
            database.flush().unwrap();
            fixture.read();
        }
    });
    let expected: BTreeMap<Vec<u8>, u64> = (0..KEYS).map(|i| (key(i).to_vec(), fixture.acknowledged(i))).collect();
    assert_eq!(expected.values().sum::<u64>(), THREADS * UPDATES as u64);
    assert_eq!(all(&fixture.keyspace), expected);
    drop(fixture);
    database.close().unwrap();
    let database = Database::builder(&path).open().unwrap();
    assert_eq!(all(&database.open_keyspace("counters").unwrap()), expected);
    let checked = database.verify().unwrap();
    assert!(checked.iter().all(|(_, check)| check.problems.is_empty()), "{checked:?}");
}
