//! Opens a database with other memory budgets than it was written with. Replay writes out what does not fit in memory,
//! and a crash in the middle loses nothing.

use std::{collections::BTreeMap, sync::Arc};

use ecotone::{
    Database, Durability, Engine, KeyspaceOptions, Result,
    internal::{Components, substrate::limits::log_limit, tree::TreeFamily},
    limits::MIN_BUDGET,
};
use ecotone_testkit::sim::{Crash, Io, SimClock, SimStorage};
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::IndexedRandom};

const LARGE: usize = 64 << 20;
const NAMES: [&str; 2] = ["towns", "notes"];

/// The records of all keyspaces, by name and key.
type Content = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

fn open(disk: &SimStorage, budget: usize) -> Result<Database> {
    let parts = Components {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(SimClock::new(7)),
        workers: 0,
        families: vec![Arc::new(TreeFamily::default())],
    };
    Database::builder("simulated").memory_budget(budget).open_parts(parts)
}

fn kill(disk: &SimStorage, database: Database) {
    disk.power_off();
    drop(database);
}

/// Writes of all kinds, all synced, most of them in the log only: more than the smallest budget can hold.
fn written(seed: u64) -> (SimStorage, Content) {
    let disk = SimStorage::new(seed);
    let database = open(&disk, LARGE).unwrap();
    let (mut random, mut content) = (SmallRng::seed_from_u64(seed), Content::new());
    let mut flushed = 0;
    while database.stats().log.used_bytes < log_limit(LARGE) * 4 / 5 {
        let mut batch = database.batch();
        for _ in 0..random.random_range(1..60) {
            let name = *NAMES.choose(&mut random).unwrap();
            let key = format!("{:05}", random.random_range(0..14_000)).into_bytes();
            let keyspace = database.keyspace(name, KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
            if random.random_ratio(1, 8) {
                batch.remove(&keyspace, key.clone());
                content.remove(&(name, key));
            } else {
                let value = vec![random.random(); random.random_range(0..1_600)];
                batch.insert(&keyspace, key.clone(), value.clone());
                content.insert((name, key), value);
            }
        }
        batch.commit().unwrap();
        // Flushes earlier pages and structure, so that the log changes existing pages.
        if flushed < 2 && database.stats().log.used_bytes > 1 << 20 {
            database.flush().unwrap();
            flushed += 1;
        }
    }
    database.sync().unwrap();
    let end = disk.crash(Crash::KeepAll);
    kill(&disk, database);
    (end, content)
}

fn check(database: &Database, content: &Content, place: &str) {
    for name in NAMES {
        let records = database.open_keyspace(name).unwrap().iter();
        let found: Vec<_> = records.map(|record| record.unwrap_or_else(|error| panic!("{place}: {error}"))).collect();
        let expected = content.iter().filter(|((of, _), _)| *of == name).map(|((_, key), value)| (key, value));
        assert!(found.iter().map(|(key, value)| (key, value)).eq(expected), "{place}: {name} has other records");
    }
    for (name, report) in database.verify().unwrap() {
        assert!(report.problems.is_empty(), "{place}: {name}: {:?}", report.problems);
    }
}

/// Pages written in place and by reorganisations.
fn pages_written(database: &Database) -> u64 {
    let counters = NAMES.iter().flat_map(|name| database.open_keyspace(name).unwrap().stats().counters);
    counters.filter(|(name, _)| name.starts_with("pages_written")).map(|(_, count)| count).sum()
}

fn way(random: &mut SmallRng) -> Crash {
    match random.random_range(0..3) {
        0 => Crash::KeepAll,
        1 => Crash::DropAll,
        _ => Crash::Random(random.random()),
    }
}

#[test]
fn a_log_that_does_not_fit_is_written_out_while_it_is_replayed() {
    let (disk, content) = written(1);
    let same = disk.crash(Crash::DropAll);
    let database = open(&same, LARGE).unwrap();
    assert_eq!(pages_written(&database), 0, "the budget that it was written with holds the log");
    kill(&same, database);

    let small = disk.crash(Crash::DropAll);
    let database = open(&small, MIN_BUDGET).unwrap();
    assert!(pages_written(&database) > 500, "{}", pages_written(&database));
    let stats = database.stats();
    assert!(stats.memory_held <= stats.memory_budget, "{stats:?}");
    check(&database, &content, "opened with the smallest budget");
    // The database works on as usual.
    database.open_keyspace(NAMES[0]).unwrap().durability(Durability::Sync).insert("later", "1").unwrap();
    database.close().unwrap();
    let database = open(&small, MIN_BUDGET).unwrap();
    assert_eq!(database.open_keyspace(NAMES[0]).unwrap().get("later").unwrap().as_deref(), Some(&b"1"[..]));
    kill(&small, database);
}

#[test]
#[ignore = "long"]
fn a_crash_while_replay_writes_out_loses_nothing() {
    let crashes = std::env::var("ECOTONE_CRASHES").ok().and_then(|crashes| crashes.parse().ok()).unwrap_or(24);
    let (disk, content) = written(2);
    let mut random = SmallRng::seed_from_u64(2);
    let whole = disk.crash(Crash::KeepAll);
    kill(&whole, open(&whole, MIN_BUDGET).unwrap());
    let writes: Vec<u64> =
        (0..).zip(whole.labels()).filter(|(_, label)| label.io != Io::Read).map(|(index, _)| index).collect();
    for number in 0..crashes {
        let (mut image, mut place) = (disk.crash(way(&mut random)), format!("crash {number}"));
        // One, two or three interrupted opens, each with either budget.
        for _ in 0..=random.random_range(0..3) {
            let index = *writes.choose(&mut random).unwrap();
            let budget = *[MIN_BUDGET, MIN_BUDGET, LARGE].choose(&mut random).unwrap();
            image.crash_at(index);
            match open(&image, budget) {
                Ok(database) => kill(&image, database),
                Err(error) => assert!(image.is_off(), "{place}: {error}"),
            }
            let how = way(&mut random);
            place = format!("{place}, {budget} bytes until I/O {index}, {how:?}");
            image = image.crash(how);
        }
        let database =
            open(&image, *[MIN_BUDGET, LARGE].choose(&mut random).unwrap()).unwrap_or_else(|e| panic!("{place}: {e}"));
        check(&database, &content, &place);
        kill(&image, database);
    }
}

#[test]
fn a_long_log_of_few_records_is_replayed_into_memory() {
    let disk = SimStorage::new(5);
    let database = open(&disk, LARGE).unwrap();
    let [keyspace, other] =
        NAMES.map(|name| database.keyspace(name, KeyspaceOptions::default().engine(Engine::Tree)).unwrap());
    let mut written = 0_u32;
    while database.stats().log.used_bytes < log_limit(LARGE) / 4 * 5 {
        keyspace.insert(format!("{:03}", written % 500), [written.to_be_bytes(); 300].concat()).unwrap();
        written += 1;
    }
    database.sync().unwrap();
    drop((keyspace, other));
    let end = disk.crash(Crash::KeepAll);
    kill(&disk, database);
    let database = open(&end, LARGE).unwrap();
    let log = database.stats().log;
    assert!(log.used_bytes > log_limit(LARGE) && log.distinct_bytes < log_limit(LARGE) / 5 * 4, "{log:?}");
    assert_eq!(pages_written(&database), 0);
    let keyspace = database.open_keyspace(NAMES[0]).unwrap();
    for last in written - 500..written {
        assert_eq!(keyspace.get(format!("{:03}", last % 500)).unwrap(), Some([last.to_be_bytes(); 300].concat()));
    }
}
