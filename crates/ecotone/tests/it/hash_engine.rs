//! The hash engine behind the library: its files, what survives a crash, what is removed.

use std::{collections::BTreeMap, sync::Arc};

use ecotone::{
    Database, Durability, HashKeyspace, HashKeyspaceOptions, HashOptions, Result,
    internal::{
        Components,
        hash::HashFamily,
        substrate::storage::{Access, FileId, FileKind, Storage},
    },
    limits,
};
use ecotone_testkit::sim::{Crash, SimClock, SimStorage};

/// Opens with `workers` background threads. Without any, the database does nothing by itself.
fn open_with(disk: &SimStorage, budget: usize, workers: usize) -> Database {
    let families = vec![Arc::new(HashFamily::default()) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers, families };
    Database::builder("simulated").memory_budget(budget).open_parts(parts).unwrap()
}

fn open(disk: &SimStorage) -> Database {
    open_with(disk, limits::MIN_BUDGET, 0)
}

fn logged(database: &Database) -> HashKeyspace {
    database.hash_keyspace("logged", HashKeyspaceOptions::default()).unwrap()
}

fn unlogged(database: &Database) -> HashKeyspace {
    database.hash_keyspace("unlogged", HashKeyspaceOptions::default().unlogged()).unwrap()
}

fn without_copies(database: &Database) -> HashKeyspace {
    let keyspace = database
        .hash_keyspace("plain", HashKeyspaceOptions::from(HashOptions::default().read_cache(false)).unlogged())
        .unwrap();
    assert_eq!(counter(&keyspace, "read_cache_limit_bytes"), 0);
    // Compaction and reads need the rest, and no read-cache entry can be evicted for them.
    assert!(counter(&keyspace, "hot_log_limit_bytes") <= database.stats().memory_budget * 3 / 4);
    keyspace
}

fn all(keyspace: &HashKeyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let records = keyspace.iter().collect::<Result<Vec<_>>>().unwrap();
    let count = records.len();
    let records: BTreeMap<_, _> = records.into_iter().collect();
    assert_eq!(records.len(), count, "a key came twice");
    records
}

fn segments(disk: &SimStorage) -> Vec<FileId> {
    disk.list().unwrap().into_iter().filter(|file| file.kind() == FileKind::Segment).collect()
}

#[test]
fn what_was_flushed_survives_without_a_log() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let keyspace = unlogged(&database);
    keyspace.insert("a", "1").unwrap();
    keyspace.insert("b", "1").unwrap();
    assert!(segments(&disk).is_empty(), "an empty keyspace has no files");
    database.flush().unwrap();
    keyspace.insert("a", "2").unwrap();
    keyspace.remove("b").unwrap();
    let after = disk.crash(Crash::DropAll);
    disk.power_off();
    let database = open(&after);
    let keyspace = unlogged(&database);
    let flushed = BTreeMap::from([(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"1".to_vec())]);
    assert_eq!(all(&keyspace), flushed);
    assert_eq!(keyspace.get("b").unwrap().as_deref(), Some(&b"1"[..]));
    keyspace.remove("a").unwrap();
    drop(keyspace);
    database.close().unwrap();
    let database = open(&after);
    assert_eq!(all(&unlogged(&database)), BTreeMap::from([(b"b".to_vec(), b"1".to_vec())]));
}

#[test]
fn files_that_nothing_names_are_removed_at_opening() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let keyspace = logged(&database);
    keyspace.insert("a", "1").unwrap();
    drop(keyspace);
    database.close().unwrap();
    let named = segments(&disk);
    let [FileId::Segment { keyspace, number }] = named[..] else { panic!("{named:?}") };
    let orphans = [
        FileId::Segment { keyspace, number: number + 1 },
        FileId::Segment { keyspace, number: number + 7 },
        FileId::Table { keyspace, number },
    ];
    for orphan in orphans {
        disk.create(orphan, Access::Direct).unwrap();
    }
    disk.sync_dir().unwrap();
    let database = open(&disk);
    let there = disk.list().unwrap();
    assert!(named.iter().all(|file| there.contains(file)) && !orphans.iter().any(|file| there.contains(file)));
    assert_eq!(logged(&database).get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// Writes records of several times the memory, and changes and deletes some that have left memory, over sessions with
/// more and with less memory.
fn more_than_memory(keyspace: fn(&Database) -> HashKeyspace, workers: usize) {
    const COUNT: u32 = 30_000;
    let value = |number: u32, round: u8| vec![round ^ number as u8; 900];
    let disk = SimStorage::new(1);
    let mut model = BTreeMap::new();
    for (round, budget) in (0_u8..).zip([limits::MIN_BUDGET, 64 << 20, limits::MIN_BUDGET]) {
        let database = open_with(&disk, budget, workers);
        let keyspace = keyspace(&database);
        assert_eq!(all(&keyspace), model);
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
        assert_eq!(keyspace.multi_get(&keys).unwrap(), expected);
        for (key, expected) in keys.iter().zip(&expected) {
            assert_eq!(keyspace.get(key).unwrap(), *expected);
        }
        for (_, check) in database.verify().unwrap() {
            assert_eq!((check.problems, check.records), (vec![], model.len() as u64));
        }
        drop(keyspace);
        database.close().unwrap();
    }
}

fn counter(keyspace: &HashKeyspace, wanted: &str) -> u64 {
    let counters = keyspace.stats().counters;
    counters.into_iter().find(|(name, _)| *name == wanted).map_or(0, |(_, value)| value)
}

/// Writes all records again and again. Replaced records do not stay on disk, and no other record is lost.
fn compacted(keyspace: fn(&Database) -> HashKeyspace) {
    const COUNT: u32 = 50_000;
    const BYTES: u64 = 50_000 * 404;
    let value = |number: u32, round: u32| vec![(number ^ round) as u8; 400];
    let disk = SimStorage::new(1);
    let check = |keyspace: &HashKeyspace, round: u32| {
        for number in (0..COUNT).step_by(7) {
            let found = keyspace.get(number.to_be_bytes()).unwrap();
            assert_eq!(found, (number % 10 > 0).then(|| value(number, round)), "{number}");
        }
    };
    for session in 0..2 {
        let database = open_with(&disk, limits::MIN_BUDGET, 2);
        let keyspace = keyspace(&database);
        for round in session * 3..session * 3 + 3 {
            for number in 0..COUNT {
                match number % 10 {
                    0 if round % 2 == 0 => keyspace.insert(number.to_be_bytes(), "to be removed").unwrap(),
                    _ => keyspace.insert(number.to_be_bytes(), value(number, round)).unwrap(),
                }
            }
            (0..COUNT).step_by(10).for_each(|number| keyspace.remove(number.to_be_bytes()).unwrap());
            check(&keyspace, round);
        }
        // Background work lags behind the writers.
        let behind = || counter(&keyspace, "hot_log_bytes") > BYTES / 2 || database.stats().background_jobs > 0;
        while behind() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let [compactions, base_merges] = ["compactions", "base_merges"].map(|name| counter(&keyspace, name));
        assert!(compactions > 10 && base_merges > 1, "{compactions} compactions, {base_merges} base merges");
        println!("{:?}", keyspace.stats());
        drop(keyspace);
        database.close().unwrap();
        for (id, f) in disk.files() {
            eprintln!("{id} {}", f.len());
        }
        let used = disk.space_used();
        assert!(used < BYTES * 5 / 2, "{used} bytes are on the disk for {BYTES}");
    }
    let database = open_with(&disk, limits::MIN_BUDGET, 0);
    check(&keyspace(&database), 5);
}

#[test]
fn a_logged_keyspace_is_compacted_while_it_is_written() {
    compacted(logged);
}

#[test]
fn an_unlogged_keyspace_is_compacted_while_it_is_written() {
    compacted(unlogged);
}

#[test]
fn a_logged_keyspace_holds_more_than_memory() {
    more_than_memory(logged, 0);
    more_than_memory(logged, 2);
}

#[test]
fn an_unlogged_keyspace_holds_more_than_memory() {
    more_than_memory(unlogged, 0);
    more_than_memory(unlogged, 2);
}

#[test]
fn a_keyspace_without_a_read_cache_holds_more_than_memory() {
    more_than_memory(without_copies, 0);
    more_than_memory(without_copies, 2);
}

#[test]
fn a_synced_write_survives_that_left_memory_before_its_log_was_synced() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let keyspace = logged(&database);
    for number in 0..20_000_u32 {
        keyspace.insert(number.to_be_bytes(), vec![number as u8; 900]).unwrap();
    }
    keyspace.durability(Durability::Sync).insert("last", "1").unwrap();
    let after = disk.crash(Crash::DropAll);
    disk.power_off();
    let database = open(&after);
    let keyspace = logged(&database);
    let records = all(&keyspace);
    assert_eq!(records.len(), 20_001);
    assert!((0..20_000_u32).all(|number| records[&number.to_be_bytes()[..]] == vec![number as u8; 900]));
}

/// Whatever its records are like: what is promised to all of them is less than what each may need alone.
#[test]
fn a_batch_as_long_as_may_be_fits_the_smallest_memory() {
    for bytes in [0, 23, 100, 400, 700, 1_800] {
        let database = open(&SimStorage::new(1));
        let (keyspace, mut batch) = (logged(&database), database.batch());
        // Beside key and value an operation has its kind, its keyspace, and two lengths, of which one may take two
        // bytes; it takes 32 at least.
        let count = (limits::MAX_BATCH - 16) / (4 + bytes + 5).max(32);
        let records: BTreeMap<_, _> =
            (0..count as u32).map(|number| (number.to_be_bytes(), vec![number as u8; bytes])).collect();
        records.iter().for_each(|(key, value)| batch.insert(&keyspace, *key, value.clone()));
        batch.commit().unwrap_or_else(|error| panic!("{count} values of {bytes} bytes: {error}"));
        assert!(all(&keyspace).into_iter().eq(records.into_iter().map(|(key, value)| (key.to_vec(), value))));
    }
}

#[test]
fn a_dropped_keyspace_leaves_no_files() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let keyspace = unlogged(&database);
    keyspace.insert("a", "1").unwrap();
    database.flush().unwrap();
    assert_eq!(segments(&disk).len(), 1);
    database.drop_keyspace("unlogged").unwrap();
    assert!(segments(&disk).is_empty());
    assert!(
        keyspace.get("a").is_err() && keyspace.insert("a", "2").is_err() && keyspace.iter().next().unwrap().is_err()
    );
}
