//! Random calls, compared with a map.

use std::ops::Bound;

use ecotone_engine::contract::{Engine, Get, Operation, Range};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::{
    table::IndexKind,
    tests::fixture::{self, Fixture, Model, collect, expect, expected},
    tuning::Tuning,
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

/// A range that often begins and ends at present keys.
fn range(random: &mut SmallRng) -> Range {
    let mut bound = || match random.random_range(0..5) {
        0 => Bound::Unbounded,
        1..3 => Bound::Included(key(random)),
        _ => Bound::Excluded(key(random)),
    };
    (bound(), bound())
}

fn step(fixture: &Fixture, model: &mut Model, random: &mut SmallRng) {
    let key = key(random);
    match random.random_range(0..1000) {
        0..500 => {
            let value = value(random);
            fixture.write(&key, Some(&value));
            model.insert(key, value);
        }
        500..620 => {
            fixture.write(&key, None);
            model.remove(&key);
        }
        620..640 => {
            let admitted = fixture.keyspace.admit(Operation { key: &key, value: Some(&[1; 900]) }).unwrap();
            drop(admitted);
        }
        640..650 => fixture.flush(),
        650..700 => _ = fixture.environment.scheduler.run_one(),
        700..750 => {
            let (range, reverse) = (range(random), random.random());
            let mut records = expected(model, &range);
            if reverse {
                records.reverse();
            }
            assert_eq!(collect(&fixture.keyspace, range, reverse), records);
        }
        750..800 => {
            // Overwrites in place if the active memtable has the key.
            let value = value(random);
            if fixture.keyspace.try_apply(Operation { key: &key, value: Some(&value) }).unwrap() {
                model.insert(key, value);
            }
        }
        _ => assert_eq!(fixture.keyspace.get(&key).unwrap().as_ref(), model.get(&key)),
    }
}

#[test]
fn random_calls_follow_the_model_and_so_does_what_is_opened_again() {
    for (seed, kind) in (1..).zip(IndexKind::ALL.into_iter().map(Some).chain([None])) {
        let (fixture, mut model, mut random) = (Fixture::new(seed, kind), Model::new(), SmallRng::seed_from_u64(seed));
        for _ in 0..2500 {
            step(&fixture, &mut model, &mut random);
        }
        fixture.expect(&model);
        assert!(fixture.stat("flushes") > 15 && fixture.stat("compactions") > 2 && fixture.stat("runs") <= 16);
        fixture.keyspace.checkpoint_is_durable();
        assert_eq!(fixture.tables(), fixture.stat("tables"), "what was replaced is removed");
        expect(&fixture.reopened(), &model);
    }
}

/// Full memtables are flushed and L0 is compacted without a call: by the background, or by writers if there is no
/// background.
#[test]
fn full_memtables_become_runs_with_and_without_a_background() {
    for background in [true, false] {
        let (fixture, mut model) = (Fixture::new(1, IndexKind::Linear), Model::new());
        for number in 0..8000_u32 {
            let (key, value) = (number.wrapping_mul(0x9E37_79B9).to_be_bytes(), number.to_be_bytes().repeat(25));
            fixture.write(&key, Some(&value));
            model.insert(key.to_vec(), value);
            while background && fixture.environment.scheduler.run_one() {}
            assert!(fixture.stat("memtable_bytes") <= if background { 4 << 16 } else { 6 << 16 });
        }
        let (runs, flushes) = (fixture.stat("runs"), fixture.stat("flushes"));
        assert!(flushes > 20 && runs <= if background { 8 } else { 16 }, "{runs} runs, {flushes} flushes");
        assert!(fixture.stat("compactions") > 0 && fixture.stat("levels") > 0);
        assert_eq!(fixture.stat("writer_delays") > 0, !background);
        fixture.expect(&model);
    }
}

/// A memtable grows to hold all keys if they are only a few more than it has room for; with many more keys it does not
/// grow. The same holds where its share of the budget limits it.
#[test]
fn a_memtable_of_keys_that_come_again_and_again_grows_and_is_not_flushed() {
    let flushes = |memtable: usize, value: usize, keys: u32| {
        let fixture = Fixture::with(1, IndexKind::Linear, Tuning { memtable, ..Tuning::TINY });
        let mut random = SmallRng::seed_from_u64(u64::from(keys));
        (0..60_000).for_each(|_| fixture.write(&fixture::key(random.random_range(0..keys)), Some(&vec![7; value])));
        (fixture.stat("flushes"), fixture.stat("memtables"))
    };
    assert_eq!((flushes(1 << 20, 100, 7200), flushes(1 << 20, 100, 20_000)), ((0, 1), (5, 3)));
    assert_eq!((flushes(64 << 20, 1500, 5700), flushes(64 << 20, 1500, 16_000)), ((0, 1), (8, 3)));
}

/// A flush writes the records below its sequence limit, and rotates the active memtable only if that is needed.
#[test]
fn a_flush_leaves_what_is_younger() {
    let fixture = Fixture::new(1, IndexKind::Single);
    (0..10_u32).for_each(|number| fixture.write(&number.to_be_bytes(), Some(b"1")));
    let first = fixture.keyspace.first_unflushed().expect("it was written");
    fixture.keyspace.flush(first).unwrap();
    assert_eq!((fixture.stat("runs"), fixture.keyspace.first_unflushed()), (0, Some(first)));
    fixture.keyspace.flush(first + 1).unwrap();
    assert_eq!((fixture.stat("runs"), fixture.keyspace.first_unflushed()), (1, None));
    fixture.write(b"a", Some(b"2"));
    assert!(fixture.keyspace.first_unflushed().is_some_and(|next| next == first + 10));
    fixture.keyspace.flush(first + 10).unwrap();
    assert_eq!(fixture.stat("runs"), 1);
    let mut value = Vec::new();
    assert!(fixture.keyspace.get_into(b"a", &mut value).unwrap() && value == b"2");
}
