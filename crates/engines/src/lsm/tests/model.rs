//! Random calls against a map.

use std::ops::Bound;

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::world::{self, Model, World, collect, expect, expected};
use crate::{
    engine::{Engine, Operation, Range},
    lsm::{family::Sizes, table::Kind},
};

fn key(random: &mut SmallRng) -> Vec<u8> {
    let number = random.random_range(0..300_u32);
    [
        &b"user"[..number as usize % 5],
        &number.wrapping_mul(0x9E37_79B9).to_be_bytes(),
        &[b'k'; 40][..number as usize % 40],
    ]
    .concat()
}

fn value(random: &mut SmallRng) -> Vec<u8> {
    let most = if random.random_bool(0.02) { 1800 } else { 300 };
    vec![random.random(); random.random_range(0..most)]
}

/// A range that often begins and ends at keys that there are.
fn range(random: &mut SmallRng) -> Range {
    let mut bound = || match random.random_range(0..5) {
        0 => Bound::Unbounded,
        1..3 => Bound::Included(key(random)),
        _ => Bound::Excluded(key(random)),
    };
    (bound(), bound())
}

fn step(world: &World, model: &mut Model, random: &mut SmallRng) {
    let key = key(random);
    match random.random_range(0..1000) {
        0..500 => {
            let value = value(random);
            world.write(&key, Some(&value));
            model.insert(key, value);
        }
        500..620 => {
            world.write(&key, None);
            model.remove(&key);
        }
        620..640 => {
            let admitted = world.keyspace.admit(Operation { key: &key, value: Some(&[1; 900]) }).unwrap();
            world.keyspace.cancel(admitted);
        }
        640..650 => world.flush(),
        650..700 => _ = world.environment.scheduler.run_one(),
        700..750 => {
            let (range, reverse) = (range(random), random.random());
            let mut records = expected(model, &range);
            if reverse {
                records.reverse();
            }
            assert_eq!(collect(&world.keyspace, range, reverse), records);
        }
        750..800 => {
            // In place, where the active memtable has it.
            let value = value(random);
            if world.keyspace.overwrite(Operation { key: &key, value: Some(&value) }) {
                model.insert(key, value);
            }
        }
        _ => assert_eq!(world.keyspace.get(&key).unwrap().as_ref(), model.get(&key)),
    }
}

#[test]
fn random_calls_follow_the_model_and_so_does_what_is_opened_again() {
    for (seed, kind) in (1..).zip(Kind::ALL.into_iter().map(Some).chain([None])) {
        let (world, mut model, mut random) = (World::new(seed, kind), Model::new(), SmallRng::seed_from_u64(seed));
        for _ in 0..2500 {
            step(&world, &mut model, &mut random);
        }
        world.expect(&model);
        assert!(world.stat("flushes") > 15 && world.stat("compactions") > 2 && world.stat("runs") <= 16);
        world.keyspace.checkpoint_is_durable();
        assert_eq!(world.tables(), world.stat("tables"), "what was replaced is removed");
        expect(&world.reopened(), &model);
    }
}

/// A memtable that is full goes by itself, and so does level 0: by the background, and by writers where that does not
/// come.
#[test]
fn full_memtables_become_runs_with_and_without_a_background() {
    for background in [true, false] {
        let (world, mut model) = (World::new(1, Kind::Linear), Model::new());
        for number in 0..8000_u32 {
            let (key, value) = (number.wrapping_mul(0x9E37_79B9).to_be_bytes(), number.to_be_bytes().repeat(25));
            world.write(&key, Some(&value));
            model.insert(key.to_vec(), value);
            while background && world.environment.scheduler.run_one() {}
            assert!(world.stat("memtable_bytes") <= if background { 4 << 16 } else { 6 << 16 });
        }
        let (runs, flushes) = (world.stat("runs"), world.stat("flushes"));
        assert!(flushes > 20 && runs <= if background { 8 } else { 16 }, "{runs} runs, {flushes} flushes");
        assert!(world.stat("compactions") > 0 && world.stat("levels") > 0);
        assert_eq!(world.stat("writer_delays") > 0, !background);
        world.expect(&model);
    }
}

/// Of a few more keys than a memtable has room for all fit into one that has grown; of many none grows. It is the same
/// where its part of the budget limits it.
#[test]
fn a_memtable_of_keys_that_come_again_and_again_grows_and_is_not_flushed() {
    let flushes = |memtable: usize, value: usize, keys: u32| {
        let world = World::with(1, Kind::Linear, Sizes { memtable, ..Sizes::TINY });
        let mut random = SmallRng::seed_from_u64(u64::from(keys));
        (0..60_000).for_each(|_| world.write(&world::key(random.random_range(0..keys)), Some(&vec![7; value])));
        (world.stat("flushes"), world.stat("memtables"))
    };
    assert_eq!((flushes(1 << 20, 100, 7200), flushes(1 << 20, 100, 20_000)), ((0, 1), (5, 3)));
    assert_eq!((flushes(64 << 20, 1500, 5700), flushes(64 << 20, 1500, 16_000)), ((0, 1), (8, 3)));
}

/// A flush takes what is older than its limit, and no more than that costs a switch.
#[test]
fn a_flush_leaves_what_is_younger() {
    let world = World::new(1, Kind::Single);
    (0..10_u32).for_each(|number| world.write(&number.to_be_bytes(), Some(b"1")));
    let first = world.keyspace.first_unflushed().expect("it was written");
    world.keyspace.flush(first).unwrap();
    assert_eq!((world.stat("runs"), world.keyspace.first_unflushed()), (0, Some(first)));
    world.keyspace.flush(first + 1).unwrap();
    assert_eq!((world.stat("runs"), world.keyspace.first_unflushed()), (1, None));
    world.write(b"a", Some(b"2"));
    assert!(world.keyspace.first_unflushed().is_some_and(|next| next == first + 10));
    world.keyspace.flush(first + 10).unwrap();
    assert_eq!(world.stat("runs"), 1);
    let mut value = Vec::new();
    assert!(world.keyspace.get_into(b"a", &mut value).unwrap() && value == b"2");
}
