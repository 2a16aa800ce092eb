//! Write amplification: how often a record is written to tables.

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::{table::IndexKind, tests::fixture::Fixture, tuning::Tuning};

const RECORDS: u64 = 36_000;
/// Bytes of a key and a value.
const RECORD: u64 = 108;

/// Sizes as in a keyspace of 2.2 GB with 220 MiB of memory, each scaled down by 560.
const SIZES: Tuning =
    Tuning { memtable: 48 << 10, table: 24 << 10, l0_target: 196 << 10, part: 96 << 10, ..Tuning::TINY };

fn write(fixture: &Fixture, number: u64, value: u8) {
    fixture.write(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes(), Some(&[value; 100]));
    while fixture.environment.scheduler.run_one() {}
}

#[test]
fn uniform_updates_are_written_eleven_times_at_most() {
    let (fixture, mut random) = (Fixture::with(1, IndexKind::Linear, SIZES), SmallRng::seed_from_u64(1));
    (0..RECORDS).for_each(|number| write(&fixture, number, 0));
    let loaded = fixture.stat("written_bytes");
    (0..RECORDS).for_each(|_| write(&fixture, random.random_range(0..RECORDS), 1));
    let updated = fixture.stat("written_bytes") - loaded;
    let times = |bytes: u64| bytes as f64 / (RECORDS * RECORD) as f64;
    let space = times(fixture.stat("table_records") * RECORD);
    println!("loaded {:.2}, updated {:.2}, space {space:.2}", times(loaded), times(updated));
    assert!(fixture.stat("levels") == 2 && fixture.stat("runs") <= 8);
    assert!(times(updated) <= 11.0 && times(loaded) <= 8.0 && space <= 1.3);
}

/// Ascending keys are written once. Their tables move down by structural records alone.
#[test]
fn rising_keys_are_written_once() {
    let fixture = Fixture::with(1, IndexKind::Linear, SIZES);
    for number in 0..RECORDS {
        fixture.write(&number.to_be_bytes(), Some(&[1; 100]));
        while fixture.environment.scheduler.run_one() {}
    }
    fixture.flush();
    assert_eq!(fixture.stat("written_bytes"), RECORDS * RECORD);
    assert!(fixture.stat("compactions") > 100);
}
