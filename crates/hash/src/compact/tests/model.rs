//! A keyspace, compared with a map, while it is compacted and merged.

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
pub(super) fn write(fixture: &Fixture, model: &mut Model, random: &mut SmallRng, key: &[u8]) {
    if random.random_bool(0.25) {
        fixture.remove(key);
        model.remove(key);
    } else {
        let value = value(random);
        fixture.set(key, &value);
        model.insert(key.to_vec(), value);
    }
}

#[test]
fn random_writes_compactions_and_merges_follow_the_model() {
    for seed in 0..10 {
        let (mut fixture, mut model, mut random) =
            (Fixture::new(seed, seed % 2 == 0), Model::new(), SmallRng::seed_from_u64(seed));
        fixture.limits.compaction = if seed % 4 < 2 { Compaction::Lookup } else { Compaction::Scan };
        let keys = 3_000u32;
        for _ in 0..60 {
            match random.random_range(0..8) {
                0..3 => fixture.compact().unwrap(),
                3 => _ = fixture.compactor().merge_base_if_due().unwrap(),
                4 => _ = fixture.compactor().merge_any_base().unwrap(),
                5 => fixture.compactor().merge().unwrap(),
                6 => fixture.journal.sync(),
                _ => {}
            }
            for _ in 0..random.random_range(0..300) {
                let key = random.random_range(0..keys).to_be_bytes();
                write(&fixture, &mut model, &mut random, &key);
            }
            for _ in 0..100 {
                let key = random.random_range(0..keys + 10).to_be_bytes();
                assert_eq!(fixture.value(&key).as_ref(), model.get(&key[..]));
            }
        }
        fixture.check_runs();
        fixture.compact().unwrap();
        fixture.merge_all_bases().unwrap();
        let runs = fixture.hash.cold.runs();
        assert!(runs.deltas().is_empty());
        let records: u64 = runs.partitions().filter_map(|partition| partition.base()).map(|base| base.records()).sum();
        assert_eq!(records, model.len() as u64, "nothing but what lives");
        (0..keys)
            .for_each(|key| assert_eq!(fixture.value(&key.to_be_bytes()).as_ref(), model.get(&key.to_be_bytes()[..])));
        assert!(runs.partitions().count() > 2, "partitions were halved");
    }
}

/// Threads write and read their own keys, while others compact and merge as fast as they can.
#[test]
fn threads_beside_compaction_and_base_merges_follow_the_model() {
    const THREADS: u32 = 3;
    const KEYS: u32 = 500;
    let (fixture, done) = (Fixture::new(1, true), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|number| {
                let fixture = &fixture;
                scope.spawn(move || {
                    let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(number.into()));
                    for turn in 0.. {
                        // The other threads may be slow.
                        if turn >= 20_000 && fixture.journal.records().len() > 40 {
                            break;
                        }
                        let key = (random.random_range(0..KEYS) * THREADS + number).to_be_bytes();
                        if random.random_bool(0.3) {
                            write(fixture, &mut model, &mut random, &key);
                        } else {
                            assert_eq!(fixture.value(&key).as_ref(), model.get(&key[..]));
                        }
                    }
                    for key in (0..KEYS).map(|key| (key * THREADS + number).to_be_bytes()) {
                        assert_eq!(fixture.value(&key).as_ref(), model.get(&key[..]));
                    }
                })
            })
            .collect();
        let background = |work: fn(&Fixture)| {
            let (fixture, done) = (&fixture, &done);
            move || {
                while !done.load(Ordering::Relaxed) {
                    work(fixture);
                    std::thread::yield_now();
                }
            }
        };
        let compacting = scope.spawn(background(|fixture| fixture.compact().unwrap()));
        let merging = scope.spawn(background(|fixture| _ = fixture.compactor().merge_any_base().unwrap()));
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        let background = [compacting.join(), merging.join()];
        ends.into_iter().chain(background).for_each(|end| end.unwrap());
    });
    fixture.check_runs();
    assert!(fixture.hash.chains.log.bounds().begin() > Address::FIRST);
}

/// Records in segments are compacted from there, and records in memory from memory.
#[test]
fn what_has_left_memory_is_compacted_from_its_segments() {
    for (seed, fixture) in (0..3).flat_map(|seed| Fixture::both(seed).map(|fixture| (seed, fixture))) {
        let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(seed));
        for round in 0..6 {
            for _ in 0..1_500 {
                let key = random.random_range(0..2_000u32).to_be_bytes();
                write(&fixture, &mut model, &mut random, &key);
            }
            if round % 3 < 2 {
                write_and_evict(&fixture);
            }
            if round % 2 == 1 {
                fixture.compact().unwrap();
            }
        }
        fixture.compact().unwrap();
        fixture.merge_all_bases().unwrap();
        (0..2_000u32)
            .for_each(|key| assert_eq!(fixture.value(&key.to_be_bytes()).as_ref(), model.get(&key.to_be_bytes()[..])));
    }
}

/// Evicts all frames but the last.
pub(super) fn write_and_evict(fixture: &Fixture) {
    let until = Address::of_frame(fixture.hash.chains.log.tail().frame());
    let next = &mut |from| {
        let name = fixture.journal.name().unwrap();
        Ok(Arc::new(crate::log::Segment::create(&fixture.environment, name, from, 1 << 20)?))
    };
    fixture.hash.chains.log.write_and_evict(&fixture.environment, until, next).unwrap();
}
