//! Updates of the same keys by many threads: none is lost.

use std::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use ecotone_engine::contract::UpdateAction;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

const THREADS: u64 = 8;

/// Runs `work` in eight threads, while all but the last pages become read-only again and again, and the index grows.
fn in_threads(hash: &Hash, work: impl Fn(u64, &mut SmallRng) + Sync) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let work = &work;
                scope.spawn(move || work(number, &mut SmallRng::seed_from_u64(number)))
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // Not so soon that a delayed thread finds nothing to change in place.
                hash.freeze(64);
                hash.grow();
                thread::yield_now();
            }
        });
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(*value.first_chunk().expect("a counter"))
}

/// Adds one to a counter, and gives its record another length.
fn add(hash: &Hash, key: &[u8], length: usize) {
    let change = &mut |old: Option<&[u8]>, new: &mut Vec<u8>| {
        let next = old.map_or(0, number) + 1;
        new.extend_from_slice(&next.to_le_bytes());
        new.resize(8 + length, next as u8);
        // Now and then other threads run between its read and its write.
        if next.is_multiple_of(64) {
            thread::sleep(Duration::from_micros(50));
        }
        assert!(old.is_none_or(|old| old[8..].iter().all(|byte| *byte == old[0])), "parts of two values");
        UpdateAction::Store
    };
    hash.modify(key, change).expect("there is memory");
}

/// All threads use four keys of one index entry at a time, and half of the values are longer than those before. So
/// records are given up all the time that other threads would still change in place.
#[test]
fn trap_10_counters_that_grow_and_shrink_lose_no_addition() {
    const CROWDS: u64 = 50;
    const TURNS: u64 = 1_600;
    let (hash, crowds, turns) = (engine(0, 1024), crowds(4), AtomicU64::new(0));
    in_threads(&hash, |_, random| {
        loop {
            let turn = turns.fetch_add(1, Ordering::Relaxed);
            if turn >= CROWDS * TURNS {
                break;
            }
            let (keys, longer) = (&crowds[(turn / TURNS) as usize], turn % TURNS / 2);
            add(&hash, &keys[random.random_range(0..4)], if random.random() { longer as usize } else { 0 });
        }
    });
    for keys in &crowds[..CROWDS as usize] {
        let sum: u64 = keys.iter().filter_map(|key| hash.value(key)).map(|value| number(&value)).sum();
        assert_eq!(sum, TURNS);
    }
}

#[test]
fn who_inserts_a_counter_that_another_inserts_adds_to_it() {
    let hash = engine(8, 1024);
    in_threads(&hash, |_, _| (0..2_000u64).for_each(|key| add(&hash, &key.to_le_bytes(), 0)));
    (0..2_000u64).for_each(|key| assert_eq!(hash.value(&key.to_le_bytes()).map(|value| number(&value)), Some(THREADS)));
}

/// Each key that was inserted and not taken is there. Neither operation is done twice.
#[test]
fn a_value_is_taken_by_one_and_inserted_by_one() {
    let (hash, crowds, there) = (engine(0, 1024), crowds(4), AtomicI64::new(0));
    in_threads(&hash, |thread, random| {
        for _ in 0..10_000 {
            let (key, take) = (&crowds[0][random.random_range(0..4)], random.random());
            let mut changed = 0;
            let change = &mut |old: Option<&[u8]>, new: &mut Vec<u8>| {
                new.resize(1 + thread as usize, 0);
                let outcome = match (old, take) {
                    (Some(_), true) => UpdateAction::Delete,
                    (None, false) => UpdateAction::Store,
                    _ => UpdateAction::Keep,
                };
                changed = if outcome == UpdateAction::Keep { 0 } else { 1 - 2 * i64::from(take) };
                outcome
            };
            hash.modify(key, change).unwrap();
            there.fetch_add(changed, Ordering::Relaxed);
        }
    });
    let found = crowds[0].iter().filter(|key| hash.value(key).is_some()).count();
    assert_eq!(found as i64, there.into_inner());
}

/// Blind writes and deletes beside updates. An update sees the value that it replaces, so no old value of a key that is
/// only ever raised comes back.
#[test]
fn a_value_that_was_replaced_does_not_come_back() {
    let (hash, crowds) = (engine(0, 1024), crowds(4));
    let keys = &crowds[0];
    in_threads(&hash, |thread, random| {
        let mut last = 0;
        for turn in 1..5_000u64 {
            match thread {
                0 => hash
                    .set(&keys[0], &[&turn.to_le_bytes()[..], &vec![turn as u8; random.random_range(0..60)]].concat()),
                1 => hash.remove(&keys[1]),
                2 => {
                    let change = &mut |old: Option<&[u8]>, new: &mut Vec<u8>| {
                        let Some(old) = old else { return UpdateAction::Keep };
                        new.extend_from_slice(&old[..8]);
                        new.resize(8 + random.random_range(0..60), turn as u8);
                        UpdateAction::Store
                    };
                    hash.modify(&keys[0], change).unwrap();
                }
                _ => {
                    let now = hash.value(&keys[0]).map_or(0, |value| number(&value));
                    assert!(now >= last, "{last} and then {now}");
                    last = now;
                }
            }
        }
    });
    assert_eq!(number(&hash.value(&keys[0]).unwrap()), 4_999);
}
