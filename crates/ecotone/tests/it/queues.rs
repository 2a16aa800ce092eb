//! Queues: records are inserted at one end and deleted at the other. A look at the front costs the same however many
//! records were deleted before.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use ecotone::{Batch, Database, Error, Keyspace, Swap};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::each::{open, options};

const ORDERED: [&str; 3] = ["tree", "lsm", "adaptive"];

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn made(engine: &str) -> (tempfile::TempDir, Database, Keyspace) {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    let keyspace = database.keyspace("queue", options(engine)).unwrap();
    (directory, database, keyspace)
}

fn counter(keyspace: &Keyspace, wanted: &str) -> u64 {
    keyspace.stats().counter(wanted).unwrap_or(0)
}

/// Pushes and pops `pops` records. The queue holds `len`.
fn run_through(keyspace: &Keyspace, from: u64, pops: u64, len: u64) {
    for number in from..from + pops {
        keyspace.insert(key(number + len), [7; 64]).unwrap();
        let (first, _) = keyspace.first_key_value().unwrap().unwrap();
        assert_eq!(first, key(number));
        keyspace.remove(first).unwrap();
    }
}

#[test]
fn a_pop_passes_over_few_deletes() {
    for engine in ORDERED {
        let (_directory, _database, queue) = made(engine);
        (0..100).for_each(|number| queue.insert(key(number), [7; 64]).unwrap());
        run_through(&queue, 0, 20_000, 100);
        let (passed, gaps) = (counter(&queue, "deletes_passed"), counter(&queue, "gaps"));
        assert!(passed < 4 * 20_000 && gaps == 1, "{engine}: {passed} deletes passed, {gaps} gaps");
    }
}

#[test]
fn the_other_end_and_what_lies_in_between() {
    for engine in ORDERED {
        let (_directory, _database, stack) = made(engine);
        (0..20_000).for_each(|number| stack.insert(key(number), [7; 64]).unwrap());
        for number in (10_000..20_000u64).rev() {
            let (last, _) = stack.last_key_value().unwrap().unwrap();
            assert_eq!(last, key(number));
            stack.remove(last).unwrap();
        }
        // An empty prefix, in the middle of the deleted records.
        for _ in 0..1000 {
            assert!(stack.range(key(12_000)..key(18_000)).next().is_none());
        }
        let passed = counter(&stack, "deletes_passed");
        assert!(passed < 4 * 10_000 + 8 * 6000, "{engine}: {passed} deletes passed");
    }
}

#[test]
fn an_emptied_keyspace_is_looked_at_for_nothing() {
    for engine in ORDERED {
        let (_directory, database, emptied) = made(engine);
        (0..10_000).for_each(|number| emptied.insert(key(number), [7; 64]).unwrap());
        (0..10_000).for_each(|number| emptied.remove(key(number)).unwrap());
        for _ in 0..100 {
            assert!(emptied.first_key_value().unwrap().is_none() && emptied.last_key_value().unwrap().is_none());
        }
        let passed = counter(&emptied, "deletes_passed");
        assert!(passed < 4 * 10_000, "{engine}: {passed} deletes passed");
        // A scan that has learned a gap still sees that the keyspace is dropped.
        database.drop_keyspace("queue").unwrap();
        assert!(matches!(emptied.first_key_value(), Err(Error::Closed { .. })), "{engine}");
    }
}

/// A batch with keys on both sides of a gap leaves it as it is.
#[test]
fn a_pop_by_a_batch_passes_over_few_deletes() {
    for engine in ORDERED {
        let (_directory, database, queue) = made(engine);
        (0..5000u64).for_each(|number| queue.insert([b"job", &key(number)[..]].concat(), [7; 64]).unwrap());
        for number in 0..5000u64 {
            let (job, _) = queue.prefix("job").next().unwrap().unwrap();
            assert_eq!(job[3..], key(number));
            let mut batch = database.batch();
            batch.insert(&queue, "a state", key(number));
            batch.remove(&queue, job);
            batch.insert(&queue, "z count", key(number));
            batch.commit().unwrap();
        }
        let passed = counter(&queue, "deletes_passed");
        assert!(passed < 4 * 5000, "{engine}: {passed} deletes passed");
    }
}

/// Whatever gaps are learned, a scan finds the records of a map: for ranges from all sides, with records inserted into
/// gaps singly, in batches, and by loads.
#[test]
fn scans_find_what_comes_into_gaps() {
    for (engine, seed) in ORDERED.into_iter().zip(1..) {
        let (_directory, database, keyspace) = made(engine);
        let (mut random, mut map) = (SmallRng::seed_from_u64(seed), BTreeMap::new());
        for round in 0..300u64 {
            for _ in 0..random.random_range(0..60) {
                let number = random.random_range(0..400);
                keyspace.insert(key(number), key(round)).unwrap();
                map.insert(key(number).to_vec(), key(round).to_vec());
            }
            if round % 5 == 0 {
                let mut batch: Batch = database.batch();
                for _ in 0..random.random_range(1..5) {
                    let number = random.random_range(0..400);
                    batch.insert(&keyspace, key(number), key(round));
                    map.insert(key(number).to_vec(), key(round).to_vec());
                }
                batch.commit().unwrap();
            }
            let (begin, end) = (random.random_range(0..400), random.random_range(0..500));
            for number in begin..end {
                keyspace.remove(key(number)).unwrap();
                map.remove(&key(number)[..]);
            }
            if round % 50 == 49 {
                let loaded: Vec<_> = (0..3).map(|i| (key(1000 + 10 * round + i), key(round))).collect();
                keyspace.bulk_load(loaded.clone()).unwrap();
                map.extend(loaded.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
            }
            for _ in 0..10 {
                let (low, high) =
                    (key(random.random_range(0..400)).to_vec(), key(random.random_range(400..9000)).to_vec());
                let range = match random.random_range(0..4) {
                    0 => (Bound::Unbounded, Bound::Unbounded),
                    1 => (Bound::Included(low), Bound::Excluded(high)),
                    2 => (Bound::Excluded(low), Bound::Included(high)),
                    _ => (Bound::Included(low), Bound::Unbounded),
                };
                let expected: Vec<_> =
                    map.range(range.clone()).map(|(key, value)| (key.clone(), value.clone())).collect();
                let steps = random.random_range(1..4);
                let mut scan = keyspace.range(range.clone());
                if random.random() {
                    let found: Vec<_> = scan.take(steps).map(Result::unwrap).collect();
                    assert_eq!(found, expected[..steps.min(expected.len())], "{engine} {round} {range:?}");
                } else {
                    let found: Vec<_> =
                        std::iter::from_fn(|| scan.next_back()).take(steps).map(Result::unwrap).collect();
                    let wanted: Vec<_> = expected.iter().rev().take(steps).cloned().collect();
                    assert_eq!(found, wanted, "{engine} {round} {range:?}");
                }
            }
        }
        assert!(counter(&keyspace, "gaps_learned") > 50, "{engine}: {}", counter(&keyspace, "gaps_learned"));
    }
}

#[test]
fn threads_take_each_record_once_from_both_ends() {
    for engine in ORDERED {
        let (_directory, _database, queue) = made(engine);
        const RECORDS: u64 = 8000;
        (0..RECORDS).for_each(|number| queue.insert(key(number), key(number)).unwrap());
        let taken = AtomicU64::new(0);
        thread::scope(|scope| {
            for thread in 0..8 {
                let (queue, taken) = (&queue, &taken);
                scope.spawn(move || {
                    loop {
                        let found = if thread % 2 == 0 { queue.first_key_value() } else { queue.last_key_value() };
                        let Some((key, value)) = found.unwrap() else { return };
                        if queue.compare_and_swap(&key, Some(&value), None).unwrap() == Swap::Done {
                            taken.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(taken.load(Ordering::Relaxed), RECORDS);
    }
}
