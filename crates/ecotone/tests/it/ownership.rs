//! Ownership of a database. A close releases its files, whatever handles remain, and the files may be moved. Also:
//! keyspace options that promise more than a keyspace can keep.

use std::fs;

use ecotone::{Database, Durability, Engine, Error, HashKeyspaceOptions, KeyspaceOptions, Result};

use crate::{
    each::{ENGINES, check, fill, keyspace, open, options},
    either::{Either, either},
};

/// An iterator over the keyspace that keeps only the errors.
fn iterate(keyspace: &Either) -> Box<dyn Iterator<Item = Result<()>>> {
    match keyspace {
        Either::Ordered(ks) => Box::new(ks.iter().map(|record| record.map(drop))),
        Either::Hashed(ks) => Box::new(ks.iter().map(|record| record.map(drop))),
    }
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
        // The iterator may still return the records that it has read ahead.
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
            "hash" => Either::Hashed(database.hash_keyspace(engine, HashKeyspaceOptions::default()).unwrap()),
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
fn what_an_unlogged_keyspace_cannot_promise_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Database::builder(directory.path().join("db")).memory_budget(16 << 20).durability(Durability::Sync);
    let database = builder.open().unwrap();
    let is_invalid = |result: Result<()>, says: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains(says), "{error}");
    };
    let hashed = database.hash_keyspace("hashed", HashKeyspaceOptions::default().unlogged()).unwrap();
    let ordered = database.keyspace("ordered", KeyspaceOptions::default().engine(Engine::Tree).unlogged()).unwrap();
    // By default a keyspace promises what it can, even if the database promises more.
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
    let mut batch = database.batch();
    batch.insert(&ordered.durability(Durability::Sync), "b", "3");
    is_invalid(batch.commit(), "unlogged");
    assert_eq!(ordered.get("b").unwrap().as_deref(), Some(&b"2"[..]), "nothing was written");

    is_invalid(database.keyspace("ordered", KeyspaceOptions::default().engine(Engine::Tree)).map(drop), "is unlogged");
    is_invalid(database.hash_keyspace("hashed", HashKeyspaceOptions::default()).map(drop), "open_hash_keyspace");
    database.keyspace("logged", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
    is_invalid(
        database.keyspace("logged", KeyspaceOptions::default().engine(Engine::Tree).unlogged()).map(drop),
        "is logged",
    );
    database.open_keyspace("ordered").unwrap();
    database.keyspace("ordered", KeyspaceOptions::default().engine(Engine::Tree).unlogged()).unwrap();
}
