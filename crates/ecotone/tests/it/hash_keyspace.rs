//! Hashed keyspaces: opening them, batches over both kinds, iteration beside writes.

use std::{collections::BTreeMap, io::ErrorKind};

use ecotone::{
    Batch, Durability, Engine, Error, HashKeyspace, HashKeyspaceOptions, KeyspaceOptions, Merge, Result, limits,
};
use ecotone_testkit::sim::{Crash, SimStorage};

use crate::mixed::{hash_options, hashed, hashed_unlogged, open, open_with, ordered, ordered_unlogged};

fn all(keyspace: &HashKeyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut records = keyspace.iter().collect::<Result<Vec<_>>>().unwrap();
    records.sort();
    records
}

fn record(key: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (key.into(), value.into())
}

#[track_caller]
fn is_invalid<T>(answer: Result<T>, says: &str) {
    match answer {
        Err(Error::Invalid(what)) if what.contains(says) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[test]
fn who_opens_the_wrong_kind_is_told_what_to_call() {
    let database = open(&SimStorage::new(1));
    let (_ordered, _hashed) = (ordered(&database), hashed(&database));
    is_invalid(database.open_keyspace("hashed"), "open it with open_hash_keyspace");
    is_invalid(
        database.keyspace("hashed", KeyspaceOptions::default().engine(Engine::Tree)),
        "not tree; open it with open_hash_keyspace",
    );
    is_invalid(database.open_hash_keyspace("ordered"), "open it with open_keyspace");
    is_invalid(database.hash_keyspace("ordered", hash_options()), "not tiny-hashed; open it with open_keyspace");
    is_invalid(database.hash_keyspace("new", HashKeyspaceOptions::default().engine_named("none")), "no engine named");
    is_invalid(database.hash_keyspace("new", hash_options().set("size", "1")), "no option named");
    assert!(matches!(database.open_hash_keyspace("new"), Err(Error::UnknownKeyspace { .. })));
    assert_eq!(database.keyspaces().len(), 2, "nothing was made on the way");
}

#[test]
fn a_batch_is_as_durable_as_the_strongest_handle_that_it_names() {
    let database = open(&SimStorage::new(1));
    let (ordered, hashed) = (ordered(&database), hashed(&database));
    ordered.insert("a", "1").unwrap();
    hashed.insert("a", "1").unwrap();
    database.sync().unwrap();
    let synced = || database.stats().log.synced >= database.stats().log.tail;
    let commit = |is_synced: bool, chosen: Option<Durability>| {
        let mut batch = database.batch();
        if is_synced {
            batch.insert(&hashed.durability(Durability::Sync), "b", "2");
        }
        batch.insert(&ordered, "b", "2");
        chosen.into_iter().fold(batch, Batch::durability).commit().unwrap();
        synced()
    };
    assert!(commit(true, None));
    assert!(!commit(false, None));
    assert!(!commit(true, Some(Durability::Buffered)));
    assert!(commit(false, Some(Durability::Sync)));
}

/// A handle begins with the durability of the database.
#[test]
fn a_batch_of_buffered_handles_is_buffered_in_a_database_that_syncs() {
    let database = open_with(&SimStorage::new(1), Durability::Sync);
    let ordered = ordered(&database);
    ordered.insert("a", "1").unwrap();
    for (handle, is_synced) in [(ordered.durability(Durability::Buffered), false), (ordered, true)] {
        let mut batch = database.batch();
        batch.insert(&handle, "b", "2");
        batch.commit().unwrap();
        assert_eq!(database.stats().log.synced >= database.stats().log.tail, is_synced);
    }
}

#[test]
fn a_hashed_keyspace_is_made_once_opened_again_and_dropped() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let keyspace = database.create_hash_keyspace("hashed", hash_options()).unwrap();
    is_invalid(database.create_hash_keyspace("hashed", hash_options()), "already");
    keyspace.insert("a", "1").unwrap();
    assert_eq!(hashed(&database).name(), "hashed");
    assert_eq!(keyspace.stats().engine, "tiny-hashed");
    drop(keyspace);
    database.close().unwrap();

    let database = open(&disk);
    let keyspace = database.open_hash_keyspace("hashed").unwrap();
    assert_eq!(all(&keyspace), [record("a", "1")]);
    database.drop_keyspace("hashed").unwrap();
    assert!(matches!(keyspace.get("a"), Err(Error::Closed { .. })));
    assert!(matches!(keyspace.insert("a", "2"), Err(Error::Closed { .. })));
    assert!(matches!(keyspace.iter().next(), Some(Err(Error::Closed { .. }))));
    assert!(matches!(database.open_hash_keyspace("hashed"), Err(Error::UnknownKeyspace { .. })));
}

#[test]
fn single_reads_agree() {
    let database = open(&SimStorage::new(1));
    for (keyspace, durability) in
        [(hashed(&database), Durability::Sync), (hashed_unlogged(&database), Durability::Buffered)]
    {
        keyspace.insert("a", "1").unwrap();
        keyspace.durability(durability).insert("b", "").unwrap();
        keyspace.insert("c", "3").unwrap();
        keyspace.remove("c").unwrap();
        keyspace.remove("never there").unwrap();
        let (one, empty) = (Some(b"1".to_vec()), Some(Vec::new()));
        assert_eq!(keyspace.multi_get(["b", "c", "a", "b"]).unwrap(), [empty.clone(), None, one.clone(), empty]);
        assert_eq!(keyspace.get("a").unwrap(), one);
        assert!(keyspace.contains_key("b").unwrap() && !keyspace.contains_key("c").unwrap());
        let mut value = b"of before".to_vec();
        assert!(keyspace.get_into("a", &mut value).unwrap() && value == b"1");
        assert!(!keyspace.get_into("c", &mut value).unwrap() && value.is_empty());
        assert_eq!(all(&keyspace), [record("a", "1"), record("b", "")]);
    }
}

#[test]
fn keys_and_records_out_of_bounds_are_refused() {
    let database = open(&SimStorage::new(1));
    for keyspace in [hashed(&database), hashed_unlogged(&database)] {
        let long = vec![b'k'; limits::MAX_KEY + 1];
        let refusals = [
            keyspace.insert("", "v"),
            keyspace.insert(&long, "v"),
            keyspace.insert("k", vec![0; limits::MAX_RECORD]),
            keyspace.remove(""),
            keyspace.get(&long).map(drop),
            keyspace.multi_get(["k", ""]).map(drop),
        ];
        assert!(refusals.iter().all(|refusal| matches!(refusal, Err(Error::Limit { .. }))), "{refusals:?}");
        assert_eq!(all(&keyspace), []);
    }
}

#[test]
fn a_batch_over_both_kinds_is_recovered_whole() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let (ordered_one, hashed_one) = (ordered(&database), hashed(&database));
    let mut batch = database.batch().durability(Durability::Sync);
    batch.insert(&ordered_one, "a", "1");
    batch.insert(&hashed_one, "a", "2");
    batch.insert(&hashed_one, "b", "3");
    batch.remove(&hashed_one, "a");
    batch.insert(&hashed_one, "b", "4");
    batch.commit().unwrap();
    let after = open(&disk.crash(Crash::DropAll));
    assert_eq!(ordered(&after).get("a").unwrap(), Some(b"1".to_vec()));
    assert_eq!(all(&hashed(&after)), [record("b", "4")]);
    disk.power_off();
}

#[test]
fn an_unlogged_batch_takes_both_kinds_too() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let (ordered_one, hashed_one) = (ordered_unlogged(&database), hashed_unlogged(&database));
    hashed_one.insert("a", "old").unwrap();
    let mut batch = database.batch();
    batch.insert(&hashed_one, "b", "1");
    batch.insert(&ordered_one, "b", "2");
    batch.remove(&hashed_one, "a");
    batch.insert(&hashed_one, "b", "3");
    batch.commit().unwrap();
    drop((ordered_one, hashed_one));
    database.close().unwrap();
    let database = open(&disk);
    assert_eq!(ordered_unlogged(&database).get("b").unwrap(), Some(b"2".to_vec()));
    assert_eq!(all(&hashed_unlogged(&database)), [record("b", "3")]);
}

#[test]
fn a_batch_that_is_refused_writes_nothing() {
    let database = open(&SimStorage::new(1));
    let (logged, unlogged) = (hashed(&database), hashed_unlogged(&database));
    let mut batch = database.batch();
    batch.insert(&unlogged, "a", "1");
    batch.insert(&logged, "a", "1");
    is_invalid(batch.commit(), "mix logged and unlogged");
    let mut batch = database.batch();
    batch.insert(&unlogged, "a", "1");
    batch.insert(&unlogged, "", "1");
    assert!(matches!(batch.commit(), Err(Error::Limit { .. })));
    let mut batch = database.batch();
    batch.insert(&unlogged, "a", "1");
    let mut late = database.batch();
    late.insert(&unlogged, "a", "1");
    assert_eq!((all(&logged), all(&unlogged)), (vec![], vec![]));
    batch.commit().unwrap();
    database.drop_keyspace("hashed, unlogged").unwrap();
    is_invalid(late.commit(), "was dropped");
}

#[test]
fn writes_stop_after_a_failure_and_reads_go_on() {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let keyspace = hashed_unlogged(&database);
    keyspace.insert("a", "1").unwrap();
    disk.fail_at(disk.io_index() + 2, ErrorKind::Other);
    database.flush().unwrap_err();
    let mut batch = database.batch();
    batch.insert(&keyspace, "a", "2");
    let refusals = [
        keyspace.insert("a", "2"),
        keyspace.remove("a"),
        keyspace.merge("n", Merge::Add(1)),
        keyspace.fetch_update("a", |_| None).map(drop),
        keyspace.compare_and_swap("a", Some(b"1"), None).map(drop),
        batch.commit(),
    ];
    assert!(refusals.iter().all(|refusal| matches!(refusal, Err(Error::Poisoned { .. }))), "{refusals:?}");
    assert_eq!(all(&keyspace), [record("a", "1")]);
}

#[test]
fn an_iterator_keeps_the_database_and_ends_with_it() {
    let database = open(&SimStorage::new(1));
    let keyspace = hashed(&database);
    keyspace.insert("a", "1").unwrap();
    let mut records = keyspace.iter();
    drop(keyspace);
    assert_eq!(records.next_ref().unwrap(), Some((&b"a"[..], &b"1"[..])));
    assert_eq!(records.next_ref().unwrap(), None);
    let keyspace = hashed(&database);
    database.close().unwrap();
    assert!(matches!(keyspace.iter().next(), Some(Err(Error::Closed { .. }))));
    assert!(matches!(keyspace.merge("a", Merge::Add(1)), Err(Error::Closed { .. })));
}

const FIXED: u32 = 200;
const FLEETING: u32 = 50;
const ROUNDS: u32 = 4_000;

/// A writer: changes the records that stay, and inserts and deletes the others.
fn churn(keyspace: &HashKeyspace) {
    for round in 0..ROUNDS {
        keyspace.insert((round % FIXED).to_be_bytes(), round.to_be_bytes()).unwrap();
        let fleeting = (FIXED + round % FLEETING).to_be_bytes();
        if round % 3 == 0 {
            keyspace.remove(fleeting).unwrap()
        } else {
            keyspace.insert(fleeting, round.to_be_bytes()).unwrap()
        };
    }
}

/// Checks that each record that stays is returned once, and no record twice.
fn look(keyspace: &HashKeyspace) {
    let mut given = BTreeMap::new();
    for record in keyspace.iter() {
        let key = u32::from_be_bytes(record.unwrap().0.try_into().unwrap());
        *given.entry(key).or_insert(0) += 1;
    }
    assert!(given.values().all(|times| *times == 1), "a key was given twice");
    assert_eq!(given.range(..FIXED).count(), FIXED as usize, "a key was left out");
    assert!(given.range(FIXED + FLEETING..).next().is_none(), "a key was never written");
}

#[test]
fn an_iterator_gives_every_key_once_beside_writes() {
    let database = open(&SimStorage::new(1));
    for keyspace in [hashed(&database), hashed_unlogged(&database)] {
        (0..FIXED).for_each(|key| keyspace.insert(key.to_be_bytes(), "first").unwrap());
        std::thread::scope(|scope| {
            let writers = [scope.spawn(|| churn(&keyspace)), scope.spawn(|| churn(&keyspace))];
            while writers.iter().any(|writer| !writer.is_finished()) {
                look(&keyspace);
                database.flush().unwrap();
            }
        });
    }
}
