//! Closures of the caller that call the database. The engine holds no locks while they run, and copes with their
//! writes.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use ecotone::{Database, Error, limits};

use crate::{
    either::{Either, either},
    in_time::in_time,
    liveness::keyspace,
};

const ENGINES: [&str; 4] = ["tree", "hash", "lsm", "adaptive"];

fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A database on a real disk, with the least memory, and a keyspace of the engine.
fn open(engine: &str, logged: bool) -> (tempfile::TempDir, Database, Either) {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::builder(directory.path().join("db")).memory_budget(limits::MIN_BUDGET).open().unwrap();
    let keyspace = keyspace(&database, "k", engine, logged).unwrap();
    (directory, database, keyspace)
}

/// The keys hit other stripes or the same one by chance: 20,000 keys hit all 4096 stripes.
#[test]
fn an_update_whose_closure_writes_any_other_key_runs_once() {
    for engine in ENGINES {
        for logged in [true, false] {
            let (_directory, database, ks) = open(engine, logged);
            let other = keyspace(&database, "other", engine, logged).unwrap();
            for number in 0..20_000 {
                let mut runs = 0;
                let update = |old: Option<&[u8]>| {
                    runs += 1;
                    assert!(runs < 10, "{engine}, {number}");
                    either!(&other, other => other.insert(key(number), "line")).unwrap();
                    Some([old.unwrap_or_default().get(..4).unwrap_or_default(), b"+"].concat())
                };
                either!(&ks, ks => ks.fetch_update("account", update)).unwrap();
                assert_eq!(runs, 1, "{engine}, logged {logged}, key {number}");
            }
        }
    }
}

#[test]
fn an_update_whose_closure_always_overtakes_itself_ends_with_an_error() {
    for engine in ENGINES {
        for logged in [true, false] {
            let (_directory, _database, ks) = open(engine, logged);
            let mut number = 0u64;
            let update = |_: Option<&[u8]>| {
                number += 1;
                either!(&ks, ks => ks.insert("k", key(number))).unwrap();
                Some(b"never".to_vec())
            };
            let ended = either!(&ks, ks => ks.fetch_update("k", update));
            assert!(
                matches!(&ended, Err(Error::Invalid(what)) if what.contains("does its closure write the key")),
                "{ended:?}"
            );
            assert_ne!(either!(&ks, ks => ks.get("k")).unwrap().unwrap(), b"never");
        }
    }
}

fn dive(ks: &Either, depth: u32) -> u32 {
    let mut reached = 0;
    let found = |_: usize, value: Option<&[u8]>| {
        assert_eq!(value, Some(&b"v"[..]));
        either!(ks, ks => ks.insert(key(u64::from(depth)), "written within")).unwrap();
        reached = if depth == 0 { 0 } else { 1 + dive(ks, depth - 1) };
    };
    either!(ks, ks => ks.multi_get_with(&[b"a"], found)).unwrap();
    reached
}

#[test]
fn a_read_of_many_may_read_and_write_within_itself_however_deep() {
    for engine in ENGINES {
        in_time(engine, move || {
            let (_directory, database, ks) = open(engine, true);
            either!(&ks, ks => ks.insert("a", "v")).unwrap();
            assert_eq!(dive(&ks, 300), 300);
            database.flush().unwrap();
            assert_eq!(dive(&ks, 300), 300, "from the files");
        });
    }
}

#[test]
fn two_hundred_threads_within_their_closures_keep_nobody_from_anything() {
    const THREADS: usize = 200;
    for engine in ENGINES {
        let (_directory, database, ks) = open(engine, true);
        // More than memory holds, so that the reads go to files.
        for number in 0..30_000 {
            either!(&ks, ks => ks.insert(key(number), [7; 700])).unwrap();
        }
        database.flush().unwrap();
        let (inside, over) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
        let entered = AtomicU32::new(0);
        thread::scope(|scope| {
            for thread in 0..THREADS as u64 {
                let (ks, inside, over, entered) = (&ks, &inside, &over, &entered);
                scope.spawn(move || {
                    let keys: Vec<Vec<u8>> = (0..100).map(|step| key((thread * 7919 + step * 293) % 30_000)).collect();
                    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                    let mut is_first = true;
                    let found = |_: usize, value: Option<&[u8]>| {
                        assert_eq!(value, Some(&[7; 700][..]));
                        if std::mem::take(&mut is_first) {
                            entered.fetch_add(1, Ordering::SeqCst);
                            inside.wait();
                            over.wait();
                        }
                    };
                    either!(ks, ks => ks.multi_get_with(&keys, found)).unwrap();
                });
            }
            inside.wait();
            assert_eq!(entered.load(Ordering::SeqCst), THREADS as u32);
            let (ks, database) = (either!(&ks, ks => ks.clone().into()), database.clone());
            in_time(engine, move || others_go_on(&ks, &database));
            over.wait();
        });
    }
}

impl From<ecotone::Keyspace> for Either {
    fn from(keyspace: ecotone::Keyspace) -> Self {
        Either::Ordered(keyspace)
    }
}

impl From<ecotone::HashKeyspace> for Either {
    fn from(keyspace: ecotone::HashKeyspace) -> Self {
        Either::Hashed(keyspace)
    }
}

fn others_go_on(ks: &Either, database: &Database) {
    for number in 0..20_000 {
        either!(ks, ks => ks.insert(key(number), [7; 700])).unwrap();
        if number % 100 == 0 {
            assert!(either!(ks, ks => ks.get(key(number * 3 % 30_000))).unwrap().is_some());
        }
    }
    database.flush().unwrap();
    assert_eq!(either!(ks, ks => ks.iter().take(1000).filter(|record| record.is_ok()).count()), 1000);
}

/// The writes lie above the loaded keys and come between chunks of the load.
#[test]
fn what_is_written_above_a_bulk_load_while_it_goes_on_has_its_place() {
    const RECORDS: u64 = 30_000;
    for engine in ["tree", "lsm", "adaptive"] {
        let (_directory, database, ks) = open(engine, true);
        let Either::Ordered(ks) = ks else { panic!("it has an order") };
        let above = |number: u64| [b"!", &key(number)[..]].concat();
        let records = (0..RECORDS).map(|number| {
            ks.insert(above(number), [1; 150]).unwrap();
            if number % 5_000 == 0 {
                database.flush().unwrap();
            }
            (key(number), [2; 150])
        });
        assert_eq!(ks.bulk_load(records).unwrap(), RECORDS, "{engine}");
        let all: Vec<Vec<u8>> = ks.iter().map(|record| record.unwrap().0).collect();
        let expected: Vec<Vec<u8>> = (0..RECORDS).map(key).chain((0..RECORDS).map(above)).collect();
        assert!(all == expected, "{engine}: {} records of {}", all.len(), expected.len());
        assert!(database.verify().unwrap().iter().all(|(_, check)| check.problems.is_empty()));
        database.close().unwrap();
    }
}
