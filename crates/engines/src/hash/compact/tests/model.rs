//! A keyspace against a map, while it is compacted, folded and merged.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

pub(super) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn value(random: &mut SmallRng) -> Vec<u8> {
    let most = if random.random_bool(0.02) { 1800 } else { 60 };
    vec![random.random(); random.random_range(0..most)]
}

/// Writes one of so many keys.
pub(super) fn write(world: &World, model: &mut Model, random: &mut SmallRng, key: &[u8]) {
    if random.random_bool(0.25) {
        world.remove(key);
        model.remove(key);
    } else {
        let value = value(random);
        world.set(key, &value);
        model.insert(key.to_vec(), value);
    }
}

#[test]
fn random_writes_compactions_folds_and_merges_follow_the_model() {
    for seed in 0..10 {
        let (mut world, mut model, mut random) =
            (World::new(seed, seed % 2 == 0), Model::new(), SmallRng::seed_from_u64(seed));
        world.goals.compaction = if seed % 4 < 2 { Compaction::Lookup } else { Compaction::Scan };
        let keys = 3_000u32;
        for _ in 0..60 {
            match random.random_range(0..8) {
                0..3 => world.compact().unwrap(),
                3 => _ = world.compactor().fold_if_due().unwrap(),
                4 => _ = world.compactor().fold_any().unwrap(),
                5 => world.compactor().merge().unwrap(),
                6 => world.journal.sync(),
                _ => {}
            }
            for _ in 0..random.random_range(0..300) {
                let key = random.random_range(0..keys).to_be_bytes();
                write(&world, &mut model, &mut random, &key);
            }
            for _ in 0..100 {
                let key = random.random_range(0..keys + 10).to_be_bytes();
                assert_eq!(world.value(&key).as_ref(), model.get(&key[..]));
            }
        }
        world.check_runs();
        world.compact().unwrap();
        world.fold_all().unwrap();
        let runs = world.hash.cold.runs();
        assert!(runs.deltas().is_empty());
        let records: u64 = runs.partitions().filter_map(|partition| partition.base()).map(|base| base.records()).sum();
        assert_eq!(records, model.len() as u64, "nothing but what lives");
        (0..keys)
            .for_each(|key| assert_eq!(world.value(&key.to_be_bytes()).as_ref(), model.get(&key.to_be_bytes()[..])));
        assert!(runs.partitions().count() > 2, "partitions were halved");
    }
}

/// Threads write and read keys of their own, while others compact, fold and merge as fast as they can.
#[test]
fn threads_beside_compaction_and_folds_follow_the_model() {
    const THREADS: u32 = 3;
    const KEYS: u32 = 500;
    let (world, done) = (World::new(1, true), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|number| {
                let world = &world;
                scope.spawn(move || {
                    let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(number.into()));
                    for turn in 0.. {
                        // The others may be slow.
                        if turn >= 20_000 && world.journal.records().len() > 40 {
                            break;
                        }
                        let key = (random.random_range(0..KEYS) * THREADS + number).to_be_bytes();
                        if random.random_bool(0.3) {
                            write(world, &mut model, &mut random, &key);
                        } else {
                            assert_eq!(world.value(&key).as_ref(), model.get(&key[..]));
                        }
                    }
                    for key in (0..KEYS).map(|key| (key * THREADS + number).to_be_bytes()) {
                        assert_eq!(world.value(&key).as_ref(), model.get(&key[..]));
                    }
                })
            })
            .collect();
        let background = |work: fn(&World)| {
            let (world, done) = (&world, &done);
            move || {
                while !done.load(Ordering::Relaxed) {
                    work(world);
                    std::thread::yield_now();
                }
            }
        };
        let compacting = scope.spawn(background(|world| world.compact().unwrap()));
        let folding = scope.spawn(background(|world| _ = world.compactor().fold_any().unwrap()));
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        let background = [compacting.join(), folding.join()];
        ends.into_iter().chain(background).for_each(|end| end.unwrap());
    });
    world.check_runs();
    assert!(world.hash.log.bounds().begin() > Address::FIRST);
}

/// What is in segments is compacted from there, as what is in memory is from there.
#[test]
fn what_has_left_memory_is_compacted_from_its_segments() {
    for (seed, world) in (0..3).flat_map(|seed| World::both(seed).map(|world| (seed, world))) {
        let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(seed));
        for round in 0..6 {
            for _ in 0..1_500 {
                let key = random.random_range(0..2_000u32).to_be_bytes();
                write(&world, &mut model, &mut random, &key);
            }
            if round % 3 < 2 {
                spill(&world);
            }
            if round % 2 == 1 {
                world.compact().unwrap();
            }
        }
        world.compact().unwrap();
        world.fold_all().unwrap();
        (0..2_000u32)
            .for_each(|key| assert_eq!(world.value(&key.to_be_bytes()).as_ref(), model.get(&key.to_be_bytes()[..])));
    }
}

/// All frames but the last leave memory.
pub(super) fn spill(world: &World) {
    let until = Address::of_frame(world.hash.log.tail().frame());
    let next = &mut |from| {
        let name = world.journal.name().unwrap();
        Ok(Arc::new(crate::hash::log::Segment::create(&world.environment, name, from, 1 << 20)?))
    };
    world.hash.log.spill(&world.environment, until, next).unwrap();
}
