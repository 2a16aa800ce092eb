//! The engine with read-cache entries, compactions and evictions against maps.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;
use crate::tests::crowds;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn value(random: &mut SmallRng) -> Vec<u8> {
    let most = if random.random_bool(0.1) { 1800 } else { 400 };
    vec![random.random(); random.random_range(0..most)]
}

fn step(fixture: &Fixture, model: &mut Model, key: &[u8], random: &mut SmallRng) {
    match random.random_range(0..40) {
        0 => {
            let value = value(random);
            fixture.set(key, Some(&value));
            model.insert(key.to_vec(), value);
        }
        1 => {
            fixture.set(key, None);
            model.remove(key);
        }
        2..4 => {
            let (outcome, value) = (
                [UpdateAction::Keep, UpdateAction::Store, UpdateAction::Delete][random.random_range(0..3)],
                value(random),
            );
            fixture.modify(key, |old, new| {
                assert_eq!(old, model.get(key).map(|value| &value[..]));
                new.extend_from_slice(&value);
                outcome
            });
            match outcome {
                UpdateAction::Keep => {}
                UpdateAction::Store => drop(model.insert(key.to_vec(), value)),
                UpdateAction::Delete => drop(model.remove(key)),
            }
        }
        _ => assert_eq!(fixture.get(key).as_ref(), model.get(key)),
    }
}

/// Threads write and read keys of their own, which share index entries, while all records are compacted and read-cache
/// entries are evicted.
#[test]
fn threads_beside_compaction_and_eviction_follow_the_model() {
    const THREADS: usize = 4;
    const TURNS: usize = 60_000;
    /// Turns of a thread that wait for the next compaction, which may have to wait for a processor.
    const COMPACTED: usize = 4_000;
    let (fixture, crowds) = (Fixture::new(0, 64, 8), crowds(4));
    let (done, compactions, copies) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|number| {
                let (fixture, crowds, compactions, copies) = (&fixture, &crowds, &compactions, &copies);
                scope.spawn(move || {
                    let (mut random, mut model) = (SmallRng::seed_from_u64(number as u64), Model::new());
                    for turn in 0..TURNS {
                        while compactions.load(Ordering::Relaxed) < turn / COMPACTED {
                            std::thread::yield_now();
                        }
                        // Some keys are used much more than others.
                        let range = if random.random() { 30 } else { crowds.len() };
                        let key = &crowds[random.random_range(0..range)][number];
                        copies.fetch_add(usize::from(fixture.is_copied(key)), Ordering::Relaxed);
                        step(fixture, &mut model, key, &mut random);
                    }
                    crowds
                        .iter()
                        .for_each(|keys| assert_eq!(fixture.get(&keys[number]).as_ref(), model.get(&keys[number])));
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                compactions.fetch_add(usize::from(fixture.compact()), Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    let (compactions, copies) = (compactions.into_inner(), copies.into_inner());
    assert!(compactions > 10 && copies > 10_000, "{compactions} compactions, {copies} copies met");
    let evicted = fixture.hash.chains.read_cache.small.settled();
    assert!(evicted > 3, "{evicted} frames");
}

/// All threads raise counters, wherever their values are. They use four keys of one index entry at a time, and half of
/// the values are longer than all before. So records are given up all the time that other threads would still change in
/// place. (Without the seal up to a thousand additions are lost.)
#[test]
fn trap_10_counters_that_are_compacted_and_copied_lose_no_addition() {
    const THREADS: u64 = 4;
    const TURNS: usize = 80_000;
    /// Turns on one index entry.
    const TURN: usize = 1_600;
    /// Turns that wait for the next compaction.
    const COMPACTED: usize = 4_000;
    // Enough frames for the records written while a compaction waits for a processor, since there is no disk to evict
    // them to.
    let (fixture, crowds, done, turns) =
        (Fixture::new(0, 256, 8), crowds(4), AtomicBool::new(false), AtomicUsize::new(0));
    let compactions = AtomicUsize::new(0);
    let number = |value: &[u8]| u64::from_le_bytes(*value.first_chunk().unwrap());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|seed| {
                let (fixture, crowds, turns, compactions) = (&fixture, &crowds, &turns, &compactions);
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(seed);
                    loop {
                        let turn = turns.fetch_add(1, Ordering::Relaxed);
                        if turn >= TURNS {
                            break;
                        }
                        while compactions.load(Ordering::Relaxed) < turn / COMPACTED {
                            std::thread::yield_now();
                        }
                        let key = &crowds[turn / TURN % 3][random.random_range(0..4)];
                        let length = if random.random() { turn % TURN } else { 0 };
                        if random.random() {
                            fixture.get(key);
                        }
                        fixture.modify(key, |old, new| {
                            new.extend_from_slice(&(old.map_or(0, number) + 1).to_le_bytes());
                            new.resize(8 + length, 0);
                            UpdateAction::Store
                        });
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                compactions.fetch_add(usize::from(fixture.compact()), Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    let sum: u64 = crowds[..3].iter().flatten().filter_map(|key| fixture.get(key)).map(|value| number(&value)).sum();
    assert_eq!(sum, TURNS as u64);
}
