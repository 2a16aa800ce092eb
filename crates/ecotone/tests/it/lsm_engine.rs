//! The lsm engine behind the library: its files, what survives a crash, what is removed.

use std::{collections::BTreeMap, sync::Arc};

use ecotone::{
    Database, Engine, Keyspace, KeyspaceOptions, LsmOptions, MemoryUse, Result,
    internal::{
        Components,
        lsm::LsmFamily,
        substrate::storage::{Access, FileId, FileKind, Storage},
        tree::TreeFamily,
    },
    limits,
};
use ecotone_testkit::sim::{Crash, Io, SimClock, SimStorage};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Opens with `workers` background threads. Without any, the database does nothing by itself.
fn open_with(disk: &SimStorage, budget: usize, workers: usize) -> Database {
    let families = vec![Arc::new(LsmFamily::default()) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers, families };
    Database::builder("simulated").memory_budget(budget).open_parts(parts).unwrap()
}

fn open(disk: &SimStorage) -> Database {
    open_with(disk, limits::MIN_BUDGET, 0)
}

fn options() -> KeyspaceOptions {
    KeyspaceOptions::default().engine(Engine::Tree).engine_named("lsm")
}

fn logged(database: &Database) -> Keyspace {
    database.keyspace("logged", options()).unwrap()
}

fn unlogged(database: &Database) -> Keyspace {
    database.keyspace("unlogged", options().unlogged()).unwrap()
}

fn all(keyspace: &Keyspace) -> Map {
    keyspace.iter().collect::<Result<_>>().unwrap()
}

fn tables(disk: &SimStorage) -> Vec<FileId> {
    disk.list().unwrap().into_iter().filter(|file| file.kind() == FileKind::Table).collect()
}

fn map<const N: usize>(records: [(&str, &str); N]) -> Map {
    records.into_iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

#[test]
fn what_was_flushed_survives_without_a_log() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let keyspace = unlogged(&database);
    keyspace.insert("a", "1").unwrap();
    keyspace.insert("b", "1").unwrap();
    assert!(tables(&disk).is_empty(), "an empty keyspace has no files");
    database.flush().unwrap();
    keyspace.insert("a", "2").unwrap();
    keyspace.remove("b").unwrap();
    let after = disk.crash(Crash::DropAll);
    disk.power_off();
    let database = open(&after);
    let keyspace = unlogged(&database);
    assert_eq!(all(&keyspace), map([("a", "1"), ("b", "1")]));
    keyspace.remove("a").unwrap();
    drop(keyspace);
    database.close().unwrap();
    let database = open(&after);
    assert_eq!(all(&unlogged(&database)), map([("b", "1")]));
}

#[test]
fn files_that_nothing_names_are_removed_at_opening() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    logged(&database).insert("a", "1").unwrap();
    database.close().unwrap();
    let named = tables(&disk);
    let [FileId::Table { keyspace, number }] = named[..] else { panic!("{named:?}") };
    let orphans = [FileId::Table { keyspace, number: number + 1 }, FileId::Table { keyspace, number: number + 7 }];
    for orphan in orphans {
        disk.create(orphan, Access::Direct).unwrap();
    }
    disk.sync_dir().unwrap();
    let database = open(&disk);
    assert_eq!(tables(&disk), named);
    assert_eq!(all(&logged(&database)), map([("a", "1")]));
}

#[test]
fn a_dropped_keyspace_leaves_no_file() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let keyspace = logged(&database);
    keyspace.insert("a", "1").unwrap();
    database.flush().unwrap();
    let mut records = keyspace.iter();
    assert!(records.next().unwrap().is_ok() && tables(&disk).len() == 1);
    database.drop_keyspace("logged").unwrap();
    assert!(tables(&disk).is_empty() && keyspace.get("a").is_err() && keyspace.insert("a", "2").is_err());
    drop(records);
    assert!(logged(&database).get("a").unwrap().is_none());
    database.close().unwrap();
}

#[test]
fn what_was_compacted_survives_a_crash_in_fewer_files() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let (logged, unlogged) = (logged(&database), unlogged(&database));
    for keyspace in [&logged, &unlogged] {
        for value in ["1", "2", "3"] {
            ["a", "b", "c"].iter().for_each(|key| keyspace.insert(key, value).unwrap());
            database.flush().unwrap();
        }
        keyspace.remove("b").unwrap();
    }
    // The records removed from the first keyspace reached a table with the flushes of the second.
    assert_eq!(tables(&disk).len(), 7);
    for keyspace in [&logged, &unlogged] {
        let mut told = (0, 0);
        assert!(keyspace.compact(|moved, all| told = (moved, all)).unwrap());
        assert!(told.0 == told.1 && told.0 > 0, "{told:?}");
    }
    let after = disk.crash(Crash::DropAll);
    disk.power_off();
    let database = open(&after);
    let left = map([("a", "3"), ("c", "3")]);
    assert_eq!((all(&self::logged(&database)), all(&self::unlogged(&database))), (left.clone(), left));
    assert_eq!(tables(&after).len(), 2);
}

/// A database whose lsm keyspaces have tables of few blocks, and compactions of several parts.
fn open_tiny(disk: &SimStorage) -> Database {
    let families = vec![Arc::new(LsmFamily::tiny()) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers: 0, families };
    Database::builder("simulated").memory_budget(limits::MIN_BUDGET).open_parts(parts).unwrap()
}

/// A keyspace with runs in L0, and its content.
fn filled(disk: &SimStorage) -> (Database, Keyspace, Map) {
    let (database, mut model) = (open_tiny(disk), Map::new());
    let keyspace = logged(&database);
    for round in 0..4_u8 {
        for number in 0..300_u32 {
            let (key, value) = ((number * u32::from(1 + round)).wrapping_mul(0x9E37_79B9).to_be_bytes(), [round; 100]);
            if number % 5 == u32::from(round) {
                keyspace.remove(key).unwrap();
                model.remove(&key[..]);
            } else {
                keyspace.insert(key, value).unwrap();
                model.insert(key.to_vec(), value.to_vec());
            }
        }
        database.flush().unwrap();
    }
    (database, keyspace, model)
}

fn counters(keyspace: &Keyspace) -> BTreeMap<&'static str, u64> {
    keyspace.stats().counters.into_iter().collect()
}

/// The number of disk reads during `work`.
fn reads(disk: &SimStorage, work: impl FnOnce()) -> usize {
    let before = disk.labels().len();
    work();
    disk.labels()[before..].iter().filter(|label| label.io == Io::Read).count()
}

/// The tree's record cache stands before the tables. A record that was read is not read again. Writes, deletes and
/// flushes over a cached record are seen.
#[test]
fn trap_01_what_is_read_again_comes_from_the_cache_and_is_never_stale() {
    let disk = SimStorage::new(1);
    // The read checker would read more.
    let families = vec![Arc::new(LsmFamily::tiny().unchecked().behind(Arc::new(TreeFamily::default()))) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers: 0, families };
    let database = Database::builder("simulated").memory_budget(limits::MIN_BUDGET).open_parts(parts).unwrap();
    let keyspace = logged(&database);
    let key = |number: u32| number.wrapping_mul(0x9E37_79B9).to_be_bytes();
    (0..500).for_each(|number| keyspace.insert(key(number), [1; 100]).unwrap());
    database.flush().unwrap();
    let get_all = || (0..500).for_each(|number| assert_eq!(keyspace.get(key(number)).unwrap(), Some(vec![1; 100])));
    assert!(reads(&disk, get_all) >= 500, "one by one, from the tables");
    assert_eq!(reads(&disk, get_all), 0);
    let keys: Vec<[u8; 4]> = (0..500).map(key).collect();
    assert_eq!(reads(&disk, || assert!(keyspace.multi_get(&keys).unwrap().iter().all(Option::is_some))), 0);
    for (round, is_flushed) in [(2, false), (3, true)] {
        for number in 0..500 {
            match number % 2 {
                0 => keyspace.insert(key(number), [round; 100]).unwrap(),
                _ => keyspace.remove(key(number)).unwrap(),
            }
        }
        if is_flushed {
            database.flush().unwrap();
        }
        for number in 0..500 {
            let expected = (number % 2 == 0).then(|| vec![round; 100]);
            assert_eq!(keyspace.get(key(number)).unwrap(), expected, "{number} of round {round}");
        }
    }
}

/// Before its log record is durable all tables of a job are orphans, whichever subcompaction wrote them. After it none
/// is missing.
#[test]
fn trap_11_a_crash_at_any_io_of_a_compaction_in_parts_loses_nothing_and_leaves_no_file() {
    let whole = SimStorage::new(1);
    let (_database, keyspace, _) = filled(&whole);
    let first = whole.io_index();
    assert!(keyspace.compact(|_, _| ()).unwrap());
    let ios = first..whole.io_index();
    assert!(
        counters(&keyspace)["compaction_parts"] >= 3 && ios.end - ios.start > 40,
        "{ios:?} {:?}",
        counters(&keyspace)
    );
    for index in ios {
        let disk = SimStorage::new(1);
        let (database, keyspace, model) = filled(&disk);
        disk.crash_at(index);
        assert!(keyspace.compact(|_, _| ()).is_err(), "the crash at {index} went unnoticed");
        let after = disk.crash(match index % 3 {
            0 => Crash::KeepAll,
            1 => Crash::DropAll,
            _ => Crash::Random(index),
        });
        drop((keyspace, database));
        let database = open_tiny(&after);
        let keyspace = logged(&database);
        assert!(all(&keyspace) == model, "a crash at {index}");
        assert_eq!(tables(&after).len() as u64, counters(&keyspace)["tables"], "a crash at {index}");
        for (_, check) in database.verify().unwrap() {
            assert_eq!((check.problems, check.records), (vec![], model.len() as u64), "a crash at {index}");
        }
    }
}

/// Writes records of several times the memory, and changes and deletes some later, over sessions with more and with
/// less memory.
fn more_than_memory(keyspace: fn(&Database) -> Keyspace, workers: usize) {
    const COUNT: u32 = 30_000;
    let value = |number: u32, round: u8| vec![round ^ number as u8; 900];
    let disk = SimStorage::new(1);
    let mut model = Map::new();
    for (round, budget) in (0_u8..).zip([limits::MIN_BUDGET, 64 << 20, limits::MIN_BUDGET]) {
        let database = open_with(&disk, budget, workers);
        let keyspace = keyspace(&database);
        assert!(all(&keyspace) == model, "round {round}");
        for number in (u32::from(round)..COUNT).step_by(1 + 6 * usize::from(round)) {
            let key = number.to_be_bytes();
            if round > 0 && number % 2 == 0 {
                keyspace.remove(key).unwrap();
                model.remove(&key[..]);
            } else {
                keyspace.insert(key, value(number, round)).unwrap();
                model.insert(key.to_vec(), value(number, round));
            }
        }
        let keys: Vec<_> = (0..COUNT).step_by(37).map(u32::to_be_bytes).collect();
        let expected: Vec<_> = keys.iter().map(|key| model.get(&key[..]).cloned()).collect();
        assert!(keyspace.multi_get(&keys).unwrap() == expected);
        for (_, check) in database.verify().unwrap() {
            assert_eq!((check.problems, check.records), (vec![], model.len() as u64));
        }
        drop(keyspace);
        database.close().unwrap();
    }
}

#[test]
fn more_than_memory_goes_to_tables() {
    more_than_memory(logged, 0);
    more_than_memory(unlogged, 2);
}

#[test]
#[ignore = "long"]
fn a_table_cache_of_few_bytes_is_kept_while_everything_is_found() {
    // Each of 37 tables has an index of 256 bytes.
    const BYTES: u64 = 6 << 10;
    let directory = tempfile::tempdir().unwrap();
    let builder = Database::builder(directory.path()).memory_budget(limits::MIN_BUDGET).table_cache(BYTES as usize);
    let database = builder.open().unwrap();
    let small = KeyspaceOptions::lsm(LsmOptions::default().memtable(1 << 20).table(64 << 10));
    let keyspace = database.keyspace("small", small).unwrap();
    let record = |number: u32| (number.wrapping_mul(0x9E37_79B9).to_be_bytes(), [number as u8; 100]);
    for (key, value) in (0..20_000).map(record) {
        keyspace.insert(key, value).unwrap();
    }
    database.flush().unwrap();
    for (key, value) in (0..20_000).map(record) {
        assert_eq!(keyspace.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    let parts = |used: &&MemoryUse| ["table index", "filters"].contains(&used.component);
    let bytes: u64 = database.stats().memory.iter().filter(parts).map(|used| used.bytes).sum();
    let counters: BTreeMap<_, _> = keyspace.stats().counters.into_iter().collect();
    assert!((1..=BYTES).contains(&bytes) && counters["index_loads"] > counters["tables"], "{bytes} {counters:?}");
    drop(keyspace);
    database.close().unwrap();
}

#[test]
fn reads_are_cached_and_a_dropped_keyspace_leaves_nothing_in_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::builder(directory.path()).open().unwrap();
    let options = || KeyspaceOptions::default().engine(Engine::Lsm);
    let (dropped, other) =
        (database.keyspace("dropped", options()).unwrap(), database.keyspace("other", options()).unwrap());
    let keys: Vec<_> = (0..1000_u32).map(u32::to_be_bytes).collect();
    keys.iter().for_each(|key| dropped.insert(key, [1; 100]).unwrap());
    database.flush().unwrap();
    for _ in 0..3 {
        keys.iter().for_each(|key| assert!(dropped.get(key).unwrap().is_some()));
    }
    let counters = |keyspace: &Keyspace| keyspace.stats().counters.into_iter().collect::<BTreeMap<_, _>>();
    let before = counters(&dropped);
    assert!(before["cache_records"] > 900 && before["cache_hits"] > 1000, "{before:?}");
    other.insert("a", "record").unwrap();
    drop(dropped);
    database.drop_keyspace("dropped").unwrap();
    assert_eq!(counters(&other)["cache_records"], 0);
    drop(other);
    database.close().unwrap();
}
