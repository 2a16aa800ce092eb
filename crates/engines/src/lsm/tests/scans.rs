//! Cursors, while what they go through changes.

use std::{iter, ops::Bound};

use ecotone_substrate::memory::Component;
use ecotone_sys::chunk::Size;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::world::{ALL, World, collect, step};
use crate::{
    engine::{Engine, Ordered},
    lsm::{family::Sizes, table::Kind},
    tests::cursors::{Said, change, go_through},
};

const KEYS: u32 = 600;

fn key(number: u32) -> Vec<u8> {
    [&b"key "[..], &number.to_be_bytes()].concat()
}

/// Keys of which most are settled: half of them there, and others deleted one behind the other. They are in several runs and memtables.
fn settled(world: &World, random: &mut SmallRng) -> Said {
    let mut said = Said::new();
    for round in 0..3 {
        for number in 0..KEYS {
            let is_gone = (number / 150).is_multiple_of(2) && round == 2;
            if random.random_bool(0.6) || is_gone {
                let value = (!is_gone).then(|| vec![number as u8 ^ round; 40]);
                world.write(&key(number), value.as_deref());
                said.insert(key(number), vec![value]);
            }
        }
        if round < 2 {
            world.flush();
        }
    }
    said
}

/// Trap 2: a scan between memory and disk. Its ends are held at any point while others write and memtables become tables.
#[test]
fn trap_02_a_cursor_gives_each_key_once_with_what_it_said_since_it_was_made() {
    for seed in 0..30 {
        let (world, mut random) = (World::new(seed, Kind::ALL[seed as usize % 3]), SmallRng::seed_from_u64(seed));
        let mut said = settled(&world, &mut random);
        let cursor = world.keyspace.clone().cursor(ALL);
        let given = go_through(cursor, seed, &mut random, &mut said, |random, said| {
            match random.random_range(0..40) {
                0..10 => change(said, KEYS, random, |key, value| world.write(key, value)),
                10 if world.stat("runs") < 40 => world.flush(),
                11 => _ = world.environment.scheduler.run_one(),
                _ => return true,
            }
            false
        });
        assert!(given > 200, "seed {seed}");
    }
}

/// A cursor holds no memory of memtables.
#[test]
fn an_idle_cursor_keeps_its_tables_and_no_memtable() {
    let world = World::new(1, Kind::Linear);
    (0..2 * KEYS).for_each(|number| world.write(&key(number), Some(&[1; 40])));
    let mut cursor = world.keyspace.clone().cursor(ALL);
    assert!(step(&mut *cursor, false).unwrap().is_some() && step(&mut *cursor, true).unwrap().is_some());
    let before = world.stat("memtable_bytes");
    world.flush();
    let slab = Size::Slab.bytes() as u64;
    assert!(before >= 2 * slab && world.stat("memtable_bytes") <= slab);
    let mut left = 0;
    while step(&mut *cursor, false).unwrap().is_some() {
        left += 1;
    }
    assert_eq!(left, 2 * KEYS - 2);
}

/// Requests that a call makes.
fn reads(world: &World, call: impl FnOnce()) -> u64 {
    let before = world.reads();
    call();
    world.reads() - before
}

#[test]
fn a_long_scan_reads_many_blocks_at_a_time_and_a_short_one_few() {
    let world = World::with(1, Kind::Linear, Sizes { table: 1 << 20, ..Sizes::TINY });
    let records = 20_000;
    let loaded = world.keyspace.clone().bulk_load(&mut (0..records).map(|number| Ok((key(number), vec![1; 100]))));
    assert_eq!(loaded.unwrap(), u64::from(records));
    let tables = world.stat("tables");
    assert!(tables >= 2);
    for reverse in [false, true] {
        // Indexes are loaded.
        assert_eq!(collect(&world.keyspace, (Bound::Included(key(9_000)), Bound::Excluded(key(9_001))), reverse).len(), 1);
        let all = reads(&world, || assert_eq!(collect(&world.keyspace, ALL, reverse).len(), records as usize));
        assert!(all > 30 && all <= 500 / 16 + 8 * tables, "{all} reads of {tables} tables");
        for first in (0..records - 50).step_by(777) {
            let range = (Bound::Included(key(first)), Bound::Excluded(key(first + 50)));
            let few = reads(&world, || assert_eq!(collect(&world.keyspace, range, reverse).len(), 50));
            assert!(few <= 4, "{few} reads for 50 records from {first} on");
        }
    }
}

/// There is memory for blocks one by one, from table to table.
#[test]
fn a_long_scan_goes_on_where_there_is_no_memory_to_spare() {
    let world = World::with(1, Kind::Linear, Sizes { table: 256 << 10, ..Sizes::TINY });
    let records = 10_000;
    let mut all = (0..records).map(|number| Ok((key(number), vec![1; 100])));
    assert_eq!(world.keyspace.clone().bulk_load(&mut all).unwrap(), u64::from(records));
    assert!(world.stat("tables") > 3);
    let slab = || world.environment.memory.lease_essential(Component::Other, Size::Slab).ok();
    let mut taken: Vec<_> = iter::from_fn(slab).collect();
    drop(taken.pop());
    for reverse in [false, true] {
        assert_eq!(collect(&world.keyspace, ALL, reverse).len(), records as usize);
    }
}

#[test]
fn a_cursor_of_a_dropped_keyspace_ends_with_an_error() {
    let world = World::new(1, Kind::Linear);
    (0..KEYS).for_each(|number| world.write(&key(number), Some(&[1; 40])));
    let mut cursor = world.keyspace.clone().cursor(ALL);
    assert!(step(&mut *cursor, false).unwrap().is_some());
    world.keyspace.retire();
    let mut given = 0;
    let error = loop {
        match step(&mut *cursor, false) {
            Ok(Some(_)) => given += 1,
            Ok(None) => panic!("it ended without an error"),
            Err(error) => break error,
        }
    };
    assert!(given < 10 && error.to_string().contains("closed"), "{given} records and then: {error}");
    assert!(step(&mut *cursor, false).unwrap().is_none() && step(&mut *cursor, true).unwrap().is_none());
    assert!(world.keyspace.get(&key(1)).is_err());
}
