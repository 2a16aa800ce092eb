//! Many keyspaces in one database, and the cost of an unused one (memory-and-keyspaces.md).

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path};

use ecotone::{
    Database, Durability, Engine, Error, HashKeyspaceOptions, KeyspaceOptions, Result, TreeOptions,
    internal::substrate::storage::FileId,
};
use ecotone_testkit::sim::{Crash, SimStorage};

use crate::{
    damage::image,
    either::{Either, either},
};

const ENGINES: [&str; 4] = ["tree", "lsm", "adaptive", "hash"];
const BUDGET: usize = 16 << 20;
/// The most memory of an unused keyspace, in bytes.
const IDLE: u64 = 16 << 10;

fn keyspace(database: &Database, engine: &str, number: usize) -> Result<Either> {
    let name = format!("keyspace {number}");
    match engine {
        "hash" => database.hash_keyspace(&name, HashKeyspaceOptions::default()).map(Either::Hashed),
        _ => database
            .keyspace(&name, KeyspaceOptions::default().engine(Engine::Tree).engine_named(engine))
            .map(Either::Ordered),
    }
}

fn leased(database: &Database) -> u64 {
    database.stats().memory.iter().map(|part| part.bytes).sum()
}

fn value(number: usize, record: u8) -> Vec<u8> {
    format!("{record} of {number}").into_bytes()
}

/// Every fourth keyspace has records. Hash keyspaces need more memory while in use, so fewer of them have.
fn is_written(engine: &str, number: usize) -> bool {
    number.is_multiple_of(if engine == "hash" { 20 } else { 4 })
}

#[test]
fn many_keyspaces_with_few_records_are_all_there_after_an_opening() {
    const MANY: usize = 600;
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let open = || Database::builder(directory.path().join("db")).memory_budget(BUDGET).open().unwrap();
        let database = open();
        let made: Vec<Either> = (0..MANY).map(|number| keyspace(&database, engine, number).unwrap()).collect();
        for (number, keyspace) in made.iter().enumerate().filter(|(number, _)| is_written(engine, *number)) {
            (0..3).for_each(
                |record| either!(keyspace, keyspace => keyspace.insert([record], value(number, record)).unwrap()),
            );
        }
        drop(made);
        database.close().unwrap();

        let database = open();
        let names: BTreeSet<String> = database.keyspaces().into_iter().map(|info| info.name).collect();
        assert_eq!(names, (0..MANY).map(|number| format!("keyspace {number}")).collect());
        for number in 0..MANY {
            let keyspace = keyspace(&database, engine, number).unwrap();
            for record in 0..3 {
                let expected = is_written(engine, number).then(|| value(number, record));
                let found = either!(&keyspace, keyspace => keyspace.get([record]).unwrap());
                assert_eq!(found, expected, "{engine} {number}");
            }
            let count = either!(&keyspace, keyspace => keyspace.iter().count());
            assert_eq!(count, if is_written(engine, number) { 3 } else { 0 }, "{engine} {number}");
        }
        database.close().unwrap();
    }
}

#[test]
fn a_keyspace_that_nobody_uses_takes_little_memory() {
    const MANY: u64 = 1500;
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let open = || Database::builder(directory.path().join("db")).memory_budget(BUDGET).open().unwrap();
        let database = open();
        let before = leased(&database);
        let made: Vec<Either> = (0..MANY).map(|number| keyspace(&database, engine, number as usize).unwrap()).collect();
        assert!(
            leased(&database) <= before + MANY * 100,
            "{engine}: {} bytes for keyspaces without a record",
            leased(&database)
        );

        let written: Vec<&Either> = made.iter().take(40).collect();
        written.iter().for_each(|keyspace| either!(keyspace, keyspace => keyspace.insert("key", "value").unwrap()));
        database.close().unwrap();
        drop(made);

        let database = open();
        assert!(leased(&database) <= before + 40 * IDLE, "{engine}: {} bytes after an opening", leased(&database));
        assert_eq!(database.keyspaces().len(), MANY as usize);
        database.close().unwrap();
    }
}

/// Bytes of a directory on disk.
fn disk(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().metadata().unwrap());
    files.map(|file| file.blocks() * 512).sum()
}

#[test]
fn a_database_of_one_record_takes_4_mib_of_disk_at_most() {
    const MOST: u64 = 4 << 20;
    for engine in ENGINES {
        for budget in [BUDGET, 64 << 20, 256 << 20, 1 << 30] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("db");
            let database = Database::builder(&path).memory_budget(budget).open().unwrap();
            either!(&keyspace(&database, engine, 1).unwrap(), keyspace => keyspace.insert("key", "value").unwrap());
            database.flush().unwrap();
            assert!(disk(&path) <= MOST, "{engine} with {budget}: {} bytes after the flush", disk(&path));
            database.close().unwrap();
            assert!(disk(&path) <= MOST, "{engine} with {budget}: {} bytes after the close", disk(&path));
        }
    }
}

#[test]
fn a_power_failure_amid_creations_loses_none_that_returned_and_no_first_write() {
    for engine in ENGINES {
        let disk = SimStorage::new(1);
        image::open(&disk, 7).unwrap().close().unwrap();
        let disk = disk.crash(Crash::DropAll);
        for io in 0.. {
            let session = disk.crash(Crash::KeepAll);
            let database = image::open(&session, 7).unwrap();
            session.crash_at(session.io_index() + io * 3);
            let (mut made, mut written) = (0, 0);
            let acted = (0..4).try_for_each(|number| {
                let keyspace = keyspace(&database, engine, number)?;
                made += 1;
                either!(&keyspace, keyspace => keyspace.durability(Durability::Sync).insert("key", value(number, 0)))?;
                written += 1;
                Ok::<(), Error>(())
            });
            let reached = session.is_off();
            image::abandon(&session, database);
            for how in [Crash::KeepAll, Crash::DropAll, Crash::Random(io), Crash::Random(!io)] {
                let (after, place) = (session.crash(how), format!("{engine}, I/O {}, {how:?}", io * 3));
                let database = image::open(&after, 7).unwrap_or_else(|error| panic!("{place}: {error}"));
                let there = database.keyspaces().len();
                assert!((made..=made + 1).contains(&there), "{place}: {there} of {made}");
                for number in 0..there {
                    let keyspace = keyspace(&database, engine, number).unwrap();
                    let found = either!(&keyspace, keyspace => keyspace.get("key").unwrap());
                    assert!(
                        found == Some(value(number, 0)) || found.is_none() && number >= written,
                        "{place}: {number}"
                    );
                    either!(&keyspace, keyspace => keyspace.insert("key", "again").unwrap());
                }
                database.close().unwrap();
            }
            if !reached {
                acted.unwrap();
                break;
            }
        }
    }
}

#[test]
fn a_keyspace_has_its_settings_with_its_first_write_in_another_session() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let open = || Database::builder(&path).memory_budget(BUDGET).open().unwrap();
    let database = open();
    let unknown = KeyspaceOptions::default().engine(Engine::Tree).set("colour", "red");
    assert!(matches!(database.create_keyspace("bad", unknown), Err(Error::Invalid(_))));
    let thin = KeyspaceOptions::tree(TreeOptions::default().segment_pages(1));
    database.create_keyspace("thin", thin).unwrap();
    let bad = KeyspaceOptions::tree(TreeOptions::default().segment_pages(17));
    assert!(matches!(database.keyspace("thin", bad.clone()), Err(Error::Invalid(_))), "an old one is refused");
    assert!(matches!(database.keyspace("new", bad), Err(Error::Invalid(_))), "as a new one is");
    database.create_keyspace("dropped", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
    let hashed = database.create_hash_keyspace("unlogged", HashKeyspaceOptions::default().unlogged()).unwrap();
    assert_eq!((hashed.get("key").unwrap(), hashed.iter().count()), (None, 0));
    database.close().unwrap();

    let database = open();
    let thin = database.open_keyspace("thin").unwrap();
    assert_eq!(
        (thin.get("key").unwrap(), thin.iter().count(), thin.multi_get(["key"]).unwrap()),
        (None, 0, vec![None])
    );
    thin.bulk_load((0..20_000_u32).map(|number| (number.to_be_bytes(), [7; 50]))).unwrap();
    let survey = thin.survey().unwrap().unwrap();
    assert!(survey.segments.iter().all(|count| count.pages == 1), "{survey:?}");
    let dropped = database.open_keyspace("dropped").unwrap();
    database.drop_keyspace("dropped").unwrap();
    assert!(matches!(dropped.insert("key", "value"), Err(Error::Closed { .. })));
    assert!(!path.join(FileId::Pages(2).to_string()).exists());
    database.open_hash_keyspace("unlogged").unwrap().insert("key", "value").unwrap();
    database.close().unwrap();

    let database = open();
    assert_eq!(database.open_hash_keyspace("unlogged").unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(database.open_keyspace("thin").unwrap().iter().count(), 20_000);
}
