//! A close of a hash keyspace leaves little of the hot log to the next open, whatever the budget. An interrupted close
//! loses nothing.

use std::sync::Arc;

use ecotone::{
    Database, HashKeyspace, HashKeyspaceOptions, Result,
    internal::{
        Components,
        hash::HashFamily,
        substrate::storage::{FileId, FileKind, Storage},
    },
    limits::MIN_BUDGET,
};
use ecotone_testkit::sim::{Crash, Io, SimClock, SimStorage};
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::IndexedRandom};

const BUDGET: usize = 64 << 20;
/// The most bytes of a hot log after a close.
const LEFT: u64 = 8 << 20;
const PAGE: u64 = 4096;

fn open(disk: &SimStorage, budget: usize) -> Result<Database> {
    let families = vec![Arc::new(HashFamily::default()) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers: 0, families };
    Database::builder("simulated").memory_budget(budget).open_parts(parts)
}

fn keyspace(database: &Database, logged: bool) -> HashKeyspace {
    let options = HashKeyspaceOptions::default();
    database.hash_keyspace("records", if logged { options } else { options.unlogged() }).unwrap()
}

fn stat(keyspace: &HashKeyspace, wanted: &str) -> u64 {
    keyspace.stats().counter(wanted).unwrap()
}

fn value(number: u32) -> Option<Vec<u8>> {
    (!number.is_multiple_of(8)).then(|| number.to_le_bytes().repeat(25))
}

fn fill(records: &HashKeyspace, count: u32) {
    for number in 0..count {
        records.insert(number.to_be_bytes(), value(number + 1).unwrap_or_default()).unwrap();
        match value(number) {
            Some(value) => records.insert(number.to_be_bytes(), value).unwrap(),
            None => records.remove(number.to_be_bytes()).unwrap(),
        }
    }
}

fn check(records: &HashKeyspace, count: u32, place: &str) {
    for number in (0..count).step_by(17) {
        assert_eq!(records.get(number.to_be_bytes()).unwrap(), value(number), "{place}: {number}");
    }
}

fn filled(logged: bool, count: u32) -> (SimStorage, Database) {
    let disk = SimStorage::new(1);
    let database = open(&disk, BUDGET).unwrap();
    fill(&keyspace(&database, logged), count);
    (disk, database)
}

#[test]
#[ignore = "long"]
fn an_opening_after_a_close_reads_headers_and_fences_and_little_of_the_hot_log() {
    for (logged, count) in [(true, 100_000), (true, 400_000), (false, 400_000)] {
        let (disk, database) = filled(logged, count);
        database.close().unwrap();
        let runs: Vec<u64> = disk.files().into_iter().filter(is_run).map(|(_, bytes)| bytes.len() as u64).collect();
        let read = || [FileKind::Table, FileKind::Segment].map(|kind| disk.counters_of(kind).read_bytes);
        let before = read();
        let database = open(&disk, BUDGET).unwrap();
        let [tables, log] = [0, 1].map(|kind| read()[kind] - before[kind]);
        // A fence has 2.25 bytes for a block of 4096.
        let most: u64 = runs.iter().map(|bytes| 2 * PAGE + bytes / 1_800).sum();
        assert!(
            !runs.is_empty() && tables <= most,
            "{tables} bytes of runs where {most} were allowed, of {count} records"
        );
        assert!(log <= LEFT + 64 * PAGE, "{log} bytes of the hot log, of {count} records");
        check(&keyspace(&database, logged), count, "opened again");
    }
}

fn is_run((file, _): &(FileId, Vec<u8>)) -> bool {
    matches!(file, FileId::Table { .. })
}

#[test]
fn what_was_closed_opens_in_the_smallest_budget_without_compacting() {
    for logged in [true, false] {
        let (disk, database) = filled(logged, 300_000);
        assert!(stat(&keyspace(&database, logged), "index_entries") * 8 > LEFT / 8);
        database.close().unwrap();
        let database = open(&disk, MIN_BUDGET).unwrap();
        let records = keyspace(&database, logged);
        assert_eq!(stat(&records, "compactions"), 0);
        check(&records, 300_000, "opened with the smallest budget");
    }
}

#[test]
#[ignore = "long"]
fn a_crash_in_a_close_loses_nothing_that_was_flushed() {
    const COUNT: u32 = 150_000;
    let mut random = SmallRng::seed_from_u64(3);
    for logged in [true, false] {
        let closing = || {
            let (disk, database) = filled(logged, COUNT);
            database.flush().unwrap();
            (disk, database)
        };
        let (disk, database) = closing();
        let first = disk.io_index();
        database.close().unwrap();
        let labels = disk.labels();
        let all: Vec<u64> =
            (first..).zip(&labels[first as usize..]).filter(|(_, l)| l.io != Io::Read).map(|(i, _)| i).collect();
        assert!(
            labels[first as usize..].iter().any(|label| label.io == Io::Create),
            "a close makes runs: {}",
            all.len()
        );
        for number in 0..4 {
            let (index, how) = (*all.choose(&mut random).unwrap(), Crash::Random(random.random()));
            let (disk, database) = closing();
            disk.crash_at(index);
            let closed = database.close();
            assert!(closed.is_err() || !disk.is_off());
            let image = disk.crash(how);
            let place = format!("crash {number} at I/O {index}, {how:?}");
            let database = open(&image, BUDGET).unwrap_or_else(|error| panic!("{place}: {error}"));
            check(&keyspace(&database, logged), COUNT, &place);
        }
    }
}

#[test]
fn a_close_without_space_for_runs_leaves_the_hot_log_to_the_next_opening() {
    let (disk, database) = filled(true, 150_000);
    disk.space_limit(disk.space_used());
    // The log of the database has all writes.
    let _ = database.close();
    disk.space_limit(1 << 40);
    let database = open(&disk, BUDGET).unwrap();
    let records = keyspace(&database, true);
    check(&records, 150_000, "opened again");
    records.insert(b"next", b"value").unwrap();
    drop(records);
    database.close().unwrap();
    check(&keyspace(&open(&disk, MIN_BUDGET).unwrap(), true), 150_000, "closed with space");
}
