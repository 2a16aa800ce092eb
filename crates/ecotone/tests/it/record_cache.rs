//! The record cache as the library uses it. With the option `record_cache` off, the cache of a database serves the
//! keyspace as a write buffer only.

use std::sync::Arc;

use ecotone::{
    Database, Engine, Keyspace, KeyspaceOptions, TreeOptions,
    internal::{Components, tree::TreeFamily},
    limits,
};
use ecotone_testkit::sim::{SimClock, SimStorage};

const RECORDS: u32 = 500;

fn open(disk: &SimStorage) -> Database {
    let families = vec![Arc::new(TreeFamily::default()) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers: 0, families };
    Database::builder("simulated").memory_budget(limits::MIN_BUDGET).open_parts(parts).unwrap()
}

fn number(keyspace: &Keyspace, name: &str) -> u64 {
    keyspace.stats().counter(name).unwrap_or_else(|| panic!("no {name}"))
}

fn fill(keyspace: &Keyspace) {
    (0..RECORDS).for_each(|i| keyspace.insert(i.to_be_bytes(), [i as u8; 100]).unwrap());
}

/// Reads everything, singly and together. Returns the number of page reads.
fn read(keyspace: &Keyspace) -> u64 {
    let before = number(keyspace, "pages_read_for_gets");
    let keys: Vec<[u8; 4]> = (0..RECORDS).map(u32::to_be_bytes).collect();
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(keyspace.get(key).unwrap().as_deref(), Some(&[i as u8; 100][..]));
    }
    assert!(keyspace.multi_get(&keys).unwrap().iter().all(Option::is_some));
    number(keyspace, "pages_read_for_gets") - before
}

#[test]
fn without_a_record_cache_only_what_is_dirty_is_in_memory() {
    let database = open(&SimStorage::new(1));
    let uncached =
        database.keyspace("uncached", KeyspaceOptions::tree(TreeOptions::default().record_cache(false))).unwrap();
    fill(&uncached);
    assert_eq!(
        (read(&uncached), number(&uncached, "cache_dirty_records")),
        (0, u64::from(RECORDS)),
        "not written out yet"
    );
    database.flush().unwrap();
    assert_eq!(number(&uncached, "cache_records"), 0);
    for _ in 0..2 {
        assert!(read(&uncached) >= 2 * u64::from(RECORDS), "every read reads its page");
    }
    assert_eq!((number(&uncached, "cache_records"), number(&uncached, "cache_admitted")), (0, 0));
}

#[test]
fn a_keyspace_without_a_record_cache_stays_so_and_leaves_others_theirs() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    for (name, is_cached) in [("cached", true), ("uncached", false)] {
        let options = KeyspaceOptions::tree(TreeOptions::default().record_cache(is_cached));
        fill(&database.keyspace(name, options).unwrap());
    }
    database.close().unwrap();
    let database = open(&disk);
    let [cached, uncached] = ["cached", "uncached"].map(|name| database.open_keyspace(name).unwrap());
    assert!(read(&cached) <= u64::from(RECORDS));
    assert_eq!(read(&cached), 0);
    assert!(read(&uncached) >= 2 * u64::from(RECORDS));
    assert_eq!(number(&cached, "cache_records"), u64::from(RECORDS));
}

#[test]
fn what_is_updated_once_flushes_nothing_that_is_read_again() {
    const HOT: u32 = 30_000;
    const ALL: u32 = 200_000;
    let database = open(&SimStorage::new(1));
    let keyspace = database.keyspace("counters", KeyspaceOptions::default().engine(Engine::Tree).unlogged()).unwrap();
    keyspace.bulk_load((0..ALL).map(|i| (i.to_be_bytes(), [1; 100]))).unwrap();
    let read_hot = || {
        let before = number(&keyspace, "pages_read_for_gets");
        (0..HOT).for_each(|i| assert!(keyspace.get(i.to_be_bytes()).unwrap().is_some()));
        number(&keyspace, "pages_read_for_gets") - before
    };
    for _ in 0..3 {
        read_hot();
    }
    for i in HOT..ALL {
        keyspace
            .fetch_update(i.to_be_bytes(), |value| value.map(|value| value.iter().map(|byte| byte + 1).collect()))
            .unwrap();
    }
    let missed = read_hot();
    assert!(missed < u64::from(HOT / 50), "{missed} of {HOT} hot records have to be read again");
}
