//! A nearly full disk. Overwrites never run out of space that old values hold, and deletes alone free space on a full
//! disk.

use std::time::{Duration, Instant};

use ecotone::Error;
use ecotone_testkit::sim::SimStorage;

use crate::{
    either::{Either, either},
    liveness::{keyspace, open},
};

const MEMORY: usize = 16 << 20;
const RECORDS: u64 = 60_000;
/// Space for the records (30 MiB), the log, L0, and the reserve of compaction: L0 once more, three tables of 8 MiB and
/// the memtables.
const DISK: u64 = 112 << 20;
/// A bound for a busy machine with a test build.
const RETURNS: Duration = Duration::from_secs(20);

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn full_disk() -> SimStorage {
    let disk = SimStorage::new(1);
    disk.space_limit(DISK);
    disk
}

#[test]
#[ignore = "long"]
fn who_overwrites_on_a_nearly_full_disk_goes_on() {
    for engine in ["tree", "lsm", "adaptive"] {
        let database = open(&full_disk(), MEMORY).unwrap();
        let ks = keyspace(&database, "k", engine, true).unwrap();
        either!(&ks, ks => {
            for number in 0..5 * RECORDS {
                let which = if number < RECORDS { number } else { number.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11 };
                let written = ks.insert(key(which % RECORDS), [7; 500]);
                written.unwrap_or_else(|error| panic!("{engine}, write {number}: {error}"));
            }
        });
        drop(ks);
        database.close().unwrap();
    }
}

#[test]
#[ignore = "long"]
fn who_deletes_on_a_full_disk_can_insert_again() {
    for engine in ["lsm", "adaptive"] {
        let disk = full_disk();
        let database = open(&disk, MEMORY).unwrap();
        let ks = keyspace(&database, "k", engine, true).unwrap();
        either!(&ks, ks => {
            let full = (0..).find_map(|number| ks.insert(key(number), [7; 500]).err().map(|error| (number, error)));
            let (count, error) = full.expect("the disk is full one day");
            assert!(matches!(error, Error::NoSpace { .. }), "{engine}: {error}");
            println!("{engine}: {count} records fill the disk, of which {} bytes are used: {error}", disk.space_used());
            for number in 0..count / 2 {
                let removed = ks.remove(key(number));
                removed.unwrap_or_else(|error| panic!("{engine}, deleting {number} of {count}: {error}"));
            }
            let began = Instant::now();
            let mut inserted = count;
            while inserted < count + count / 4 {
                match ks.insert(key(inserted), [8; 500]) {
                    Ok(()) => inserted += 1,
                    Err(error) => {
                        assert!(began.elapsed() < RETURNS, "{engine}, after {} inserts: {error}", inserted - count);
                    }
                }
            }
            let there = |number: u64| ks.get(key(number)).unwrap().is_some();
            assert!((0..count / 2).step_by(97).all(|number| !there(number)), "{engine}: a deleted record is there");
            assert!((count / 2..inserted).step_by(97).all(there), "{engine}: a record is lost");
        });
        drop(ks);
        database.close().unwrap();
    }
}
