//! The life of table files (commit-and-recovery.md, "Structural records"). After a crash at any I/O, and after a drop,
//! exactly the tables that the manifest names exist.

use std::sync::Arc;

use ecotone::{
    Database, Durability, Engine, KeyspaceOptions, Result,
    internal::{
        Components,
        substrate::storage::{FileId, Storage},
    },
    limits,
};
use ecotone_testkit::{
    sim::{Crash, SimClock, SimStorage},
    tiny::append_only::TinyAppendOnly,
};

const ENGINE: &str = "tiny-append-only";

fn open(disk: &SimStorage) -> Result<Database> {
    let families = vec![Arc::new(TinyAppendOnly) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers: 0, families };
    Database::builder("simulated").memory_budget(limits::MIN_BUDGET).open_parts(parts)
}

fn options() -> KeyspaceOptions {
    KeyspaceOptions::default().engine(Engine::Tree).engine_named(ENGINE)
}

/// Six flushes, so that runs are compacted, beside a keyspace that is dropped. Counts the acknowledged writes.
fn live(disk: &SimStorage, acknowledged: &mut u32) -> Result<()> {
    let database = open(disk)?;
    let (kept, dropped) = (database.keyspace("kept", options())?, database.keyspace("dropped", options())?);
    for number in 0..6u32 {
        kept.durability(Durability::Sync).insert(number.to_be_bytes(), "value")?;
        *acknowledged = number + 1;
        dropped.insert(number.to_be_bytes(), "value")?;
        database.flush()?;
    }
    database.drop_keyspace("dropped")?;
    database.close()
}

fn tables(disk: &SimStorage, keyspace: u32) -> u64 {
    let files = disk.list().unwrap();
    files.iter().filter(|file| matches!(file, FileId::Table { keyspace: k, .. } if *k == keyspace)).count() as u64
}

/// Opens the database after a crash. Every table must belong to a keyspace.
fn check(disk: &SimStorage, acknowledged: u32) {
    let database = open(disk).unwrap();
    let mut named = 0;
    for info in database.keyspaces() {
        let keyspace = database.open_keyspace(&info.name).unwrap();
        let runs = keyspace.stats().counters.iter().find(|(name, _)| *name == "runs").map_or(0, |(_, runs)| *runs);
        assert_eq!(tables(disk, info.id), runs, "tables and runs of {:?}", info.name);
        named += runs;
    }
    let all = disk.list().unwrap().iter().filter(|file| file.keyspace().is_some()).count() as u64;
    assert_eq!(all, named, "files that no keyspace has");
    if let Ok(kept) = database.open_keyspace("kept") {
        assert!(
            (0..acknowledged).all(|number| kept.get(number.to_be_bytes()).unwrap().is_some()),
            "{acknowledged} were synced"
        );
    }
}

#[test]
fn after_a_crash_at_any_io_the_tables_are_those_that_are_named() {
    let whole = SimStorage::new(1);
    live(&whole, &mut 0).unwrap();
    assert!((1..=4).contains(&tables(&whole, 1)), "runs were compacted, and their tables removed");
    assert_eq!(tables(&whole, 2), 0, "the tables of a dropped keyspace go with it");
    for index in 0..whole.io_index() {
        for how in [Crash::KeepAll, Crash::DropAll, Crash::Random(index)] {
            let disk = SimStorage::new(1);
            disk.crash_at(index);
            let mut acknowledged = 0;
            assert!(live(&disk, &mut acknowledged).is_err(), "the crash at {index} went unnoticed");
            check(&disk.crash(how), acknowledged);
        }
    }
}
