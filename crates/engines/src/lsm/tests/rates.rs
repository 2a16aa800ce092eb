//! How often what is written once is written to tables.

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::world::World;
use crate::lsm::{family::Sizes, table::Kind};

const RECORDS: u64 = 36_000;
/// Bytes of a key and a value.
const RECORD: u64 = 108;

/// Parts as in a keyspace of 2.2 GB with 220 MiB of memory, each a 560th of it.
const SIZES: Sizes = Sizes { memtable: 48 << 10, table: 24 << 10, level_0: 196 << 10, part: 96 << 10, ..Sizes::TINY };

fn write(world: &World, number: u64, value: u8) {
    world.write(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes(), Some(&[value; 100]));
    while world.environment.scheduler.run_one() {}
}

#[test]
fn uniform_updates_are_written_eleven_times_at_most() {
    let (world, mut random) = (World::with(1, Kind::Linear, SIZES), SmallRng::seed_from_u64(1));
    (0..RECORDS).for_each(|number| write(&world, number, 0));
    let loaded = world.stat("written_bytes");
    (0..RECORDS).for_each(|_| write(&world, random.random_range(0..RECORDS), 1));
    let updated = world.stat("written_bytes") - loaded;
    let times = |bytes: u64| bytes as f64 / (RECORDS * RECORD) as f64;
    let space = times(world.stat("table_records") * RECORD);
    println!("loaded {:.2}, updated {:.2}, space {space:.2}", times(loaded), times(updated));
    assert!(world.stat("levels") == 2 && world.stat("runs") <= 8);
    assert!(times(updated) <= 11.0 && times(loaded) <= 8.0 && space <= 1.3);
}

/// Keys that only rise are written once, and sink by structural records alone.
#[test]
fn rising_keys_are_written_once() {
    let world = World::with(1, Kind::Linear, SIZES);
    for number in 0..RECORDS {
        world.write(&number.to_be_bytes(), Some(&[1; 100]));
        while world.environment.scheduler.run_one() {}
    }
    world.flush();
    assert_eq!(world.stat("written_bytes"), RECORDS * RECORD);
    assert!(world.stat("compactions") > 100);
}
