//! A hash keyspace is opened with less memory than it was written with. A crash in the middle loses nothing.

use std::sync::Arc;

use ecotone::{
    Database, HashKeyspace, HashKeyspaceOptions, Result,
    internal::{Components, hash::HashFamily},
    limits::MIN_BUDGET,
};
use ecotone_testkit::sim::{Crash, Io, SimClock, SimStorage};
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::IndexedRandom};

/// More records than an index can hold in the smallest budget beside all else.
const RECORDS: u32 = 900_000;
const BUDGET: usize = 128 << 20;

fn open(disk: &SimStorage, budget: usize) -> Result<Database> {
    let families = vec![Arc::new(HashFamily::default()) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers: 0, families };
    Database::builder("simulated").memory_budget(budget).open_parts(parts)
}

fn keyspace(database: &Database, logged: bool) -> HashKeyspace {
    let name = if logged { "logged" } else { "unlogged" };
    let options = HashKeyspaceOptions::default();
    database.hash_keyspace(name, if logged { options } else { options.unlogged() }).unwrap()
}

fn stat(keyspace: &HashKeyspace, wanted: &str) -> u64 {
    keyspace.stats().counter(wanted).unwrap()
}

fn kill(disk: &SimStorage, database: Database) {
    disk.power_off();
    drop(database);
}

/// Half of the records are replaced once, some in place and some by longer ones, and some are deleted.
fn value(number: u32) -> Option<Vec<u8>> {
    match number % 8 {
        0 => None,
        1..4 => Some([number.to_le_bytes(), (number + 1).to_le_bytes()].concat()),
        _ => Some(number.to_le_bytes().to_vec()),
    }
}

fn fill(records: &HashKeyspace, count: u32) {
    (0..count).for_each(|number| records.insert(number.to_be_bytes(), number.to_le_bytes()).unwrap());
    for number in (0..count).filter(|number| number % 8 < 4) {
        match value(number) {
            Some(value) => records.insert(number.to_be_bytes(), value).unwrap(),
            None => records.remove(number.to_be_bytes()).unwrap(),
        }
    }
}

fn written(logged: bool) -> SimStorage {
    let disk = SimStorage::new(1);
    let database = open(&disk, BUDGET).unwrap();
    let records = keyspace(&database, logged);
    fill(&records, RECORDS);
    database.flush().unwrap();
    assert!(stat(&records, "hot_log_durable_bytes") > u64::from(RECORDS) * 24, "{:?}", records.stats());
    let end = disk.crash(Crash::KeepAll);
    kill(&disk, database);
    end
}

fn check(records: &HashKeyspace, count: u32, place: &str) {
    for number in (0..count).step_by(17) {
        assert_eq!(records.get(number.to_be_bytes()).unwrap(), value(number), "{place}: {number}");
    }
}

#[test]
#[ignore = "long"]
fn a_crash_while_an_opening_compacts_loses_nothing() {
    for logged in [false, true] {
        let (disk, mut random) = (written(logged), SmallRng::seed_from_u64(2));
        let whole = disk.crash(Crash::KeepAll);
        let database = open(&whole, MIN_BUDGET).unwrap();
        assert!(stat(&keyspace(&database, logged), "compactions") >= 1);
        check(&keyspace(&database, logged), RECORDS, "opened with the smallest budget");
        kill(&whole, database);
        let writes: Vec<u64> =
            (0..).zip(whole.labels()).filter(|(_, label)| label.io != Io::Read).map(|(index, _)| index).collect();
        for number in 0..3 {
            let (index, how) = (*writes.choose(&mut random).unwrap(), Crash::Random(random.random()));
            let (image, place) = (disk.crash(Crash::KeepAll), format!("crash {number} at I/O {index}, {how:?}"));
            image.crash_at(index);
            match open(&image, MIN_BUDGET) {
                Ok(database) => kill(&image, database),
                Err(error) => assert!(image.is_off(), "{place}: {error}"),
            }
            let image = image.crash(how);
            let database = open(&image, MIN_BUDGET).unwrap_or_else(|error| panic!("{place}: {error}"));
            check(&keyspace(&database, logged), RECORDS, &place);
            kill(&image, database);
        }
    }
}

/// What is counted as large is what all indexes have together.
#[test]
#[ignore = "long"]
fn keyspaces_whose_indexes_have_no_room_together_can_be_opened() {
    const EACH: u32 = RECORDS / 2;
    let (disk, names) = (SimStorage::new(1), ["a", "b", "c", "d"]);
    let all = |database: &Database| {
        let options = |number| {
            if number % 2 == 0 { HashKeyspaceOptions::default() } else { HashKeyspaceOptions::default().unlogged() }
        };
        names
            .iter()
            .enumerate()
            .map(|(number, name)| database.hash_keyspace(name, options(number)).unwrap())
            .collect::<Vec<_>>()
    };
    let database = open(&disk, 4 * BUDGET).unwrap();
    let keyspaces = all(&database);
    keyspaces.iter().for_each(|records| fill(records, EACH));
    database.flush().unwrap();
    let entries: u64 = keyspaces.iter().map(|records| stat(records, "index_entries")).sum();
    assert!(entries * 8 > MIN_BUDGET as u64 / 2, "{entries}");
    let whole = disk.crash(Crash::KeepAll);
    drop(keyspaces);
    kill(&disk, database);
    let database = open(&whole, MIN_BUDGET).unwrap();
    let keyspaces = all(&database);
    assert!(keyspaces.iter().map(|records| stat(records, "compactions")).sum::<u64>() >= 1);
    for (records, name) in keyspaces.iter().zip(names) {
        check(records, EACH, name);
        // The next record fits.
        records.insert(b"next", b"value").unwrap();
    }
    drop(keyspaces);
    kill(&whole, database);
}
