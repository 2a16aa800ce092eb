//! The engine against a map.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use ecotone_engine::contract::UpdateAction;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A value that often has another length than the previous one.
fn value(random: &mut SmallRng) -> Vec<u8> {
    let most = if random.random_bool(0.02) { 1800 } else { 60 };
    vec![random.random(); random.random_range(0..most)]
}

fn step(hash: &Hash, model: &mut Model, key: &[u8], random: &mut SmallRng) {
    match random.random_range(0..10) {
        0..3 => {
            let value = value(random);
            hash.set(key, &value);
            model.insert(key.to_vec(), value);
        }
        3 => {
            hash.remove(key);
            model.remove(key);
        }
        4..7 => {
            let (outcome, value) = (
                [UpdateAction::Keep, UpdateAction::Store, UpdateAction::Delete][random.random_range(0..3)],
                value(random),
            );
            let change = &mut |old: Option<&[u8]>, new: &mut Vec<u8>| {
                assert_eq!((old, new.len()), (model.get(key).map(|value| &value[..]), 0));
                new.extend_from_slice(&value);
                outcome
            };
            hash.modify(key, change).unwrap();
            match outcome {
                UpdateAction::Keep => {}
                UpdateAction::Store => drop(model.insert(key.to_vec(), value)),
                UpdateAction::Delete => drop(model.remove(key)),
            }
        }
        _ => assert_eq!(hash.value(key).as_ref(), model.get(key)),
    }
}

/// Threads write keys of their own, which share index entries. Meanwhile old records become read-only, and the index
/// grows.
#[test]
fn threads_of_random_operations_follow_the_model() {
    const THREADS: usize = 4;
    let (hash, crowds, done) = (engine(0, 1024), crowds(4), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|number| {
                let (hash, crowds) = (&hash, &crowds);
                scope.spawn(move || {
                    let (mut random, mut model) = (SmallRng::seed_from_u64(number as u64), Model::new());
                    for _ in 0..40_000 {
                        let key = &crowds[random.random_range(0..100)][number];
                        step(hash, &mut model, key, &mut random);
                    }
                    crowds
                        .iter()
                        .for_each(|keys| assert_eq!(hash.value(&keys[number]).as_ref(), model.get(&keys[number])));
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                hash.freeze(3);
                hash.grow();
                std::thread::yield_now();
            }
        });
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    assert!(hash.chains.log.bounds().safe() > Address::FIRST);
}

#[test]
fn what_has_room_stays_in_place_and_a_longer_value_moves() {
    let hash = engine(3, 4);
    hash.set(b"key", b"a value");
    let end = hash.chains.log.tail();
    [&b"another"[..], b"", b"13 bytes long"].iter().for_each(|value| {
        hash.set(b"key", value);
        assert_eq!(hash.value(b"key"), Some(value.to_vec()));
    });
    hash.remove(b"key");
    assert_eq!(hash.value(b"key"), None);
    hash.set(b"key", b"again");
    assert_eq!(hash.chains.log.tail(), end, "all of that was done in place");
    hash.set(b"key", b"14 bytes long.");
    let moved = hash.chains.log.tail();
    assert!(moved > end);
    hash.set(b"key", b"short");
    assert_eq!((hash.value(b"key"), hash.chains.log.tail()), (Some(b"short".to_vec()), moved));
    hash.chains.log.raise_read_only(hash.chains.log.close_page());
    hash.remove(b"key");
    assert_eq!(hash.value(b"key"), None);
    assert!(hash.chains.log.tail().in_page() > 0, "a tombstone was appended");
}

#[test]
fn a_delete_of_what_nobody_knows_is_a_tombstone_all_the_same() {
    let hash = engine(3, 4);
    hash.remove(b"key");
    let appended = hash.chains.log.tail();
    assert!(appended > Address::FIRST && hash.value(b"key").is_none());
    hash.modify(b"key", &mut |old, _| if old.is_none() { UpdateAction::Delete } else { UpdateAction::Keep }).unwrap();
    assert_eq!(hash.chains.log.tail(), appended, "nothing changes for who has seen that there is no value");
}

#[test]
fn a_full_bucket_goes_on_and_full_memory_is_an_error_that_loses_nothing() {
    let hash = engine(0, 4);
    let key = |number: u64| number.to_le_bytes();
    let written = (0..).take_while(|number| {
        let (key, value) = (key(*number), [*number as u8; 100]);
        hash.put(Operation { key: &key, value: Some(&value) }).is_ok()
    });
    let written = written.count() as u64;
    assert!(written >= 60 * 31, "{written} records in four frames");
    (0..written).for_each(|number| assert_eq!(hash.value(&key(number)), Some(vec![number as u8; 100])));
    assert_eq!(hash.value(&key(written)), None);
    hash.set(&key(5), b"in place");
    assert_eq!(hash.value(&key(5)), Some(b"in place".to_vec()));
    let long = &mut |_: Option<&[u8]>, new: &mut Vec<u8>| {
        new.resize(100, 0);
        UpdateAction::Store
    };
    hash.modify(&key(written), long).expect_err("it would be appended");
}
