//! A database is opened with a sixteenth of its former memory budget. The open takes no longer than its log needs, and
//! writers do not wait for work that an earlier session left.

use std::time::{Duration, Instant};

use ecotone_testkit::sim::{Crash, SimStorage};

use crate::{
    either::{Either, either},
    liveness::{keyspace, open},
};

const LARGE: usize = 256 << 20;
const SMALL: usize = 16 << 20;
const RECORDS: u64 = 200_000;
/// Bounds for a busy machine with a test build. An endless wait is far beyond them.
const OPENING: Duration = Duration::from_secs(12);
const WRITES: Duration = Duration::from_secs(5);

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// A database with `records` records of 500 bytes, written in random order with the large budget, then closed or
/// killed.
fn written(engine: &str, records: u64, is_closed: bool) -> SimStorage {
    let disk = SimStorage::new(1);
    let database = open(&disk, LARGE).unwrap();
    let ks = keyspace(&database, "k", engine, true).unwrap();
    either!(&ks, ks => (0..records).for_each(|number| ks.insert(key(number), [7; 500]).unwrap()));
    if is_closed {
        drop(ks);
        database.close().unwrap();
        return disk;
    }
    let killed = disk.crash(Crash::KeepAll);
    disk.power_off();
    killed
}

/// Opens the database with the small budget and writes.
///
/// # Errors
/// If the open or a write takes too long.
fn opens_and_writes(engine: &str, disk: &SimStorage, records: u64) -> Result<(), String> {
    let began = Instant::now();
    let database = open(disk, SMALL).unwrap();
    let opening = began.elapsed();
    let ks = keyspace(&database, "k", engine, true).unwrap();
    let began = Instant::now();
    let write = |number| either!(&ks, ks => ks.insert(key(records + number), [8; 100]).unwrap());
    (0..3_000).take_while(|_| began.elapsed() < WRITES).for_each(write);
    let writes = began.elapsed();
    println!("{engine}: opening took {opening:?}, 3,000 writes {writes:?}");
    if opening >= OPENING || writes >= WRITES {
        return Err(format!("{engine}: opening took {opening:?}, 3,000 writes {writes:?}"));
    }
    either!(&ks, ks => {
        for number in (0..records + 3_000).step_by(997) {
            assert!(ks.get(key(number)).unwrap().is_some(), "{engine}, {number}");
        }
    });
    database.close().unwrap();
    Ok(())
}

/// A database closed with the large budget is opened with the small one. Its data fits in L0 under the large budget, so
/// all of it waits for the second session.
pub(crate) fn after_a_close(engine: &str) -> Result<(), String> {
    opens_and_writes(engine, &written(engine, RECORDS, true), RECORDS)
}

#[cfg(not(feature = "bugs"))]
#[test]
#[ignore = "long"]
fn who_writes_after_an_opening_with_less_memory_does_not_wait_for_an_earlier_life() {
    for engine in ["tree", "lsm", "adaptive", "hash"] {
        after_a_close(engine).unwrap_or_else(|late| panic!("{late}"));
    }
}

/// Most writes are in the log alone.
#[cfg(not(feature = "bugs"))]
#[test]
#[ignore = "long"]
fn a_log_of_a_larger_budget_is_replayed_at_once() {
    for engine in ["tree", "lsm", "adaptive", "hash"] {
        opens_and_writes(engine, &written(engine, RECORDS, false), RECORDS).unwrap_or_else(|late| panic!("{late}"));
    }
}
