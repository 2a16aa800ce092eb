//! Repair of databases whose sessions ended in crashes, without a manifest, or with pages alone.

use ecotone::{
    Database, Durability, Engine, Error, KeyspaceOptions, Result,
    internal::substrate::storage::{FileId, Storage},
};
use ecotone_testkit::{
    model::State,
    sim::{Crash, SimStorage},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    image::{self, NAMES},
    repair::{remove_manifests, repair},
};

/// Sessions of a database that end in the middle of something.
fn crashed(seed: u64) -> SimStorage {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut disk = SimStorage::new(seed);
    for _ in 0..3 {
        disk.crash_at(disk.io_index() + random.random_range(20..900));
        // An error can only come from the crash.
        let _ = live(&disk, &mut random);
        let how = if random.random() { Crash::KeepAll } else { Crash::Random(random.random()) };
        disk.power_off();
        disk = disk.crash(how);
    }
    disk
}

fn live(disk: &SimStorage, random: &mut SmallRng) -> Result<()> {
    let database = image::open(disk, random.random())?;
    for round in 0..3 {
        for _ in 0..500 {
            let (id, name) = NAMES[usize::from(random.random_bool(0.2))];
            let keyspace = database.keyspace(name, KeyspaceOptions::default().engine(Engine::Tree))?;
            let durability = if random.random_bool(0.05) { Durability::Sync } else { Durability::Buffered };
            let key = format!("{id}{:05}", random.random_range(0..2_000) * 7 % 1_999);
            match random.random_bool(0.75) {
                true => {
                    keyspace.durability(durability).insert(key, vec![random.random(); random.random_range(0..500)])?
                }
                false => keyspace.durability(durability).remove(key)?,
            }
        }
        if round < 2 {
            database.flush()?;
        }
    }
    database.close()
}

/// A session that ends cleanly and changes records in place. The pages that a crash left in free space stay there.
fn touch(disk: &SimStorage, seed: u64) -> Result<()> {
    let mut random = SmallRng::seed_from_u64(seed);
    let database = image::open(disk, seed)?;
    for info in database.keyspaces() {
        let keyspace = database.open_keyspace(&info.name)?;
        for record in keyspace.iter().collect::<Result<Vec<_>>>()? {
            let (key, value) = record;
            match random.random_range(0..10) {
                0 => keyspace.remove(key)?,
                1..4 => keyspace.insert(key, vec![random.random(); value.len()])?,
                _ => {}
            }
        }
    }
    database.close()
}

/// The content after an open.
fn opened(disk: &SimStorage) -> Result<Option<State>> {
    let copy = disk.crash(Crash::KeepAll);
    let database = match image::open(&copy, 1) {
        Ok(database) => database,
        Err(Error::NotADatabase { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut content = State::new();
    for (id, name) in database.keyspaces().into_iter().map(|info| (info.id, info.name)) {
        for record in database.open_keyspace(&name)?.iter() {
            let (key, value) = record?;
            content.insert((id, key), value);
        }
    }
    image::abandon(&copy, database);
    Ok(Some(content))
}

#[test]
fn what_a_crash_left_is_repaired_to_what_opening_gives() {
    let rounds: u64 = std::env::var("ECOTONE_REPAIR_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let (mut whole, mut told) = (0, 0);
    for seed in 0..rounds {
        let disk = crashed(seed);
        let Some(expected) = opened(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}")) else { continue };
        let repaired = repair(&disk);
        assert_eq!(repaired.fits(&expected, &format!("seed {seed}")), 0);
        assert!(repaired.report.is_complete(), "seed {seed}: {:#?}", repaired.report);
        remove_manifests(&disk);
        let repaired = repair(&disk);
        assert_eq!(repaired.fits(&expected, &format!("seed {seed}, no manifest")), 0);
        whole += usize::from(repaired.report.is_complete());
        told += usize::from(repaired.report.keyspaces.iter().any(|keyspace| keyspace.doubtful.count > 0));
    }
    println!("{whole} of {rounds} told to be complete without a manifest, {told} with doubtful ranges");
    assert!(whole > 0);
}

/// Without manifest and log, repair goes by the pages alone, even after changes that crashes cut off.
#[test]
fn after_crashes_and_a_clean_end_the_pages_alone_hold_everything() {
    let rounds: u64 = std::env::var("ECOTONE_REPAIR_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let mut whole = 0;
    // The first ones have a change that a crash cut off. Its pages would hide later writes if production ids were
    // compared before sequences.
    for seed in 100..100 + rounds {
        let disk = crashed(seed);
        touch(&disk, seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let expected = opened(&disk).unwrap().expect("a database");
        for file in disk.files().into_keys().filter(|file| matches!(file, FileId::Log(_) | FileId::Manifest(_))) {
            disk.remove(file).unwrap();
        }
        let repaired = repair(&disk);
        assert_eq!(repaired.fits(&expected, &format!("seed {seed}")), 0, "seed {seed}");
        whole += usize::from(repaired.report.is_complete());
    }
    println!("{whole} of {rounds} told to be complete");
    assert!(whole * 2 > rounds as usize);
}

fn fill(database: &Database, byte: u8, length: usize) {
    let unlogged = database.keyspace("unlogged", KeyspaceOptions::default().engine(Engine::Tree).unlogged()).unwrap();
    (0..600_u32).for_each(|i| unlogged.insert(i.to_be_bytes(), vec![byte; length]).unwrap());
}

/// A session in which a power failure cuts off a flush of values of `length` bytes at I/O `at`. Before it, another
/// keyspace appends `logged` records to the log; none of them is synced. `None` if the flush has no such I/O.
fn flush_cut_off(at: u64, length: usize, logged: u32) -> Option<SimStorage> {
    let disk = SimStorage::new(2);
    let database = image::open(&disk, 1).unwrap();
    fill(&database, 1, 100);
    database.flush().unwrap();
    let other = database.keyspace("logged", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
    (0..logged).for_each(|i| other.insert(i.to_be_bytes(), [0; 200]).unwrap());
    drop(other);
    fill(&database, 2, length);
    disk.crash_at(disk.io_index() + at);
    let ended = database.flush().is_ok();
    let found = disk.crash(Crash::DropAll);
    image::abandon(&disk, database);
    (!ended).then_some(found)
}

/// Cuts a flush off at every third I/O. The next session overwrites everything with values of `length` bytes and
/// closes. The pages alone must hold these values then.
fn later_pages_win(cut_off: impl Fn(u64) -> Option<SimStorage>, length: usize) {
    let mut points = 2;
    while let Some(disk) = cut_off(points) {
        let database = image::open(&disk, 2).unwrap();
        fill(&database, 3, length);
        database.close().unwrap();
        let expected = opened(&disk).unwrap().expect("a database");
        for file in disk.files().into_keys().filter(|file| matches!(file, FileId::Log(_) | FileId::Manifest(_))) {
            disk.remove(file).unwrap();
        }
        assert_eq!(repair(&disk).fits(&expected, &format!("cut off at I/O {points}")), 0);
        points += 3;
    }
    assert!(points > 30, "{points} I/Os");
}

/// A page survives, but the end of the log at its write does not. Its replacement in the next session has a lower log
/// position, and still counts as newer.
#[test]
fn a_page_that_outlived_the_log_gives_way_to_what_replaced_it() {
    later_pages_win(|at| flush_cut_off(at, 100, 1_000), 150);
}

/// A reorganisation is cut off. The next session rewrites the pages that it would have replaced, without any log record
/// before. The rewritten pages are newer.
#[test]
fn a_change_that_was_cut_off_gives_way_to_what_is_written_later() {
    later_pages_win(|at| flush_cut_off(at, 150, 0), 100);
}
