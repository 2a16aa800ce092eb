//! Whose a database is: its files are let go when it is closed, whoever holds what of it still; they are itself, wherever they are moved; and a process that was forked
//! off from the one that opened it touches nothing of it. Also what options of a keyspace promise that cannot be kept.

use std::{fs, path::Path};

use ecotone::{Database, Durability, Engine, Error, HashOptions, KeyspaceOptions, Result};
use ecotone_sys::life::in_a_fork;

use crate::either::{Either, either};

const ENGINES: [&str; 4] = ["tree", "lsm", "adaptive", "hash"];

fn open(path: &Path) -> Result<Database> {
    Database::builder(path).memory_budget(16 << 20).open()
}

fn options(engine: &str) -> KeyspaceOptions {
    let engine = [Engine::Tree, Engine::Lsm, Engine::Adaptive].into_iter().find(|known| known.name() == engine);
    KeyspaceOptions::default().engine(engine.expect("an ordered engine"))
}

fn keyspace(database: &Database, engine: &str) -> Either {
    match engine {
        "hash" => Either::Hashed(database.hash_keyspace("k", HashOptions::default()).unwrap()),
        _ => Either::Ordered(database.keyspace("k", options(engine)).unwrap()),
    }
}

fn fill(keyspace: &Either, from: u32) {
    either!(keyspace, ks => (from..from + 3000).for_each(|number| ks.insert(number.to_be_bytes(), [7; 300]).unwrap()));
}

/// The errors among its records.
fn iterate(keyspace: &Either) -> Box<dyn Iterator<Item = Result<()>>> {
    match keyspace {
        Either::Ordered(ks) => Box::new(ks.iter().map(|record| record.map(drop))),
        Either::Hashed(ks) => Box::new(ks.iter().map(|record| record.map(drop))),
    }
}

fn check(keyspace: &Either, count: u32) {
    either!(keyspace, ks => (0..count).for_each(|number| assert_eq!(ks.get(number.to_be_bytes()).unwrap(), Some(vec![7; 300]))));
}

#[test]
fn who_has_closed_a_database_can_open_it_whatever_is_alive_of_it() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let database = open(&path).unwrap();
        let ks = keyspace(&database, engine);
        fill(&ks, 0);
        let handle = database.clone();
        let mut records = iterate(&ks);
        assert!(records.next().unwrap().is_ok());
        database.close().unwrap();
        let again = open(&path).unwrap();
        fill(&keyspace(&again, engine), 3000);
        assert!(matches!(handle.flush(), Err(Error::Closed { .. })));
        let refused = either!(&ks, ks => ks.insert("a", "b"));
        assert!(matches!(refused, Err(Error::Closed { .. })), "{engine}: {refused:?}");
        // What it has read ahead it may give.
        let ended = records.by_ref().take(3000).find_map(std::result::Result::err);
        assert!(matches!(ended, Some(Error::Closed { .. }) | None), "{engine}: {ended:?}");
        handle.close().unwrap();
        drop((records, ks));
        check(&keyspace(&again, engine), 6000);
        again.close().unwrap();
        check(&keyspace(&open(&path).unwrap(), engine), 6000);
    }
}

#[test]
fn when_the_last_handle_is_dropped_others_can_open_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    for round in 0..30 {
        let engine = ENGINES[round % 4];
        let database = open(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let ks = match engine {
            "hash" => Either::Hashed(database.hash_keyspace(engine, HashOptions::default()).unwrap()),
            _ => Either::Ordered(database.keyspace(engine, options(engine)).unwrap()),
        };
        drop(database);
        fill(&ks, 3000 * round as u32);
    }
}

#[test]
fn a_database_that_is_moved_goes_on_being_itself() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let [here, there] = ["here", "there"].map(|name| directory.path().join(name));
        let database = open(&here).unwrap();
        let ks = keyspace(&database, engine);
        fill(&ks, 0);
        fs::rename(&here, &there).unwrap();
        let stranger = open(&here).unwrap();
        fill(&keyspace(&stranger, engine), 0);
        fill(&ks, 3000);
        database.flush().unwrap();
        drop(ks);
        database.close().unwrap();
        fill(&keyspace(&stranger, engine), 3000);
        stranger.close().unwrap();
        for path in [here, there] {
            let database = open(&path).unwrap();
            check(&keyspace(&database, engine), 6000);
            database.verify().unwrap();
        }
    }
}

#[test]
fn a_process_that_was_forked_off_gets_errors_and_its_drops_do_nothing() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let database = open(&path).unwrap();
        let ks = keyspace(&database, engine);
        fill(&ks, 0);
        let mut held = Some((database.clone(), keyspace(&database, engine)));
        let mut records = match &ks {
            Either::Ordered(ks) => Some(ks.iter()),
            Either::Hashed(_) => None,
        };
        records.as_mut().map(|records| records.next());
        let ended = in_a_fork(|| {
            let (database, ks) = held.take().unwrap();
            let forked = |error: Option<Error>| matches!(error, Some(Error::Forked));
            let mut are_refused = either!(&ks, ks => {
                let swapped = ks.compare_and_swap("a", None, Some(b"b")).err();
                forked(ks.get("a").err()) && forked(ks.insert("a", "b").err()) && forked(ks.multi_get(["a"]).err())
                    && forked(swapped) && forked(ks.iter().next().and_then(Result::err))
            });
            are_refused &= forked(database.flush().err()) && forked(database.verify().err());
            are_refused &= forked(database.keyspace("other", KeyspaceOptions::default()).err()) && forked(database.sync().err());
            are_refused &= database.keyspaces().is_empty() && database.stats().failure.is_some() && database.failure().is_some();
            let mut batch = database.batch();
            either!(&ks, ks => batch.insert(ks, "a", "b"));
            are_refused &= forked(batch.commit().err());
            if let Some(mut records) = records.take() {
                are_refused &= forked(records.next().and_then(Result::err));
            }
            drop(ks);
            are_refused &= forked(database.close().err());
            // One of its own it may have.
            let own = open(&directory.path().join("own")).unwrap();
            own.keyspace("k", KeyspaceOptions::default()).unwrap().insert("a", "b").unwrap();
            own.close().unwrap();
            u8::from(are_refused)
        });
        assert_eq!(ended.unwrap(), Some(1), "{engine}");
        fill(&ks, 3000);
        database.flush().unwrap();
        check(&ks, 6000);
        drop((ks, held, records));
        database.close().unwrap();
        let database = open(&path).unwrap();
        check(&keyspace(&database, engine), 6000);
        database.verify().unwrap();
    }
}

#[test]
fn what_an_unlogged_keyspace_cannot_promise_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Database::builder(directory.path().join("db")).memory_budget(16 << 20).durability(Durability::Sync);
    let database = builder.open().unwrap();
    let is_invalid = |result: Result<()>, says: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains(says), "{error}");
    };
    let hashed = database.hash_keyspace("hashed", HashOptions::default().unlogged()).unwrap();
    let ordered = database.keyspace("ordered", KeyspaceOptions::default().unlogged()).unwrap();
    // By default they promise what they can, also where the database promises more.
    hashed.insert("a", "1").unwrap();
    ordered.insert("a", "1").unwrap();
    let mut batch = database.batch();
    batch.insert(&hashed, "b", "2");
    batch.insert(&ordered, "b", "2");
    batch.commit().unwrap();
    is_invalid(hashed.durability(Durability::Sync).insert("a", "2"), "unlogged");
    is_invalid(hashed.durability(Durability::Sync).merge("c", ecotone::Merge::Add(1)), "flush");
    is_invalid(ordered.durability(Durability::Sync).insert("a", "2"), "flush");
    is_invalid(ordered.durability(Durability::Sync).remove("a").map(drop), "unlogged");
    let mut batch = database.batch().durability(Durability::Sync);
    batch.insert(&ordered, "b", "3");
    is_invalid(batch.commit(), "unlogged");
    assert_eq!(ordered.get("b").unwrap().as_deref(), Some(&b"2"[..]), "nothing was written");

    is_invalid(database.keyspace("ordered", KeyspaceOptions::default()).map(drop), "is unlogged");
    is_invalid(database.hash_keyspace("hashed", HashOptions::default()).map(drop), "open_hash_keyspace");
    database.keyspace("logged", KeyspaceOptions::default()).unwrap();
    is_invalid(database.keyspace("logged", KeyspaceOptions::default().unlogged()).map(drop), "is logged");
    database.open_keyspace("ordered").unwrap();
    database.keyspace("ordered", KeyspaceOptions::default().unlogged()).unwrap();
}
