//! An admitted operation finds space, whatever other operations do meanwhile.

use std::{sync::atomic::Ordering, thread};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

const THREADS: u64 = 4;

/// Admits some operations at once, as a batch does, and runs them.
fn batch(hash: &Hash, random: &mut SmallRng) {
    let count = random.random_range(1..20);
    let keys: Vec<Vec<u8>> = (0..count).map(|_| vec![random.random(); random.random_range(1..200)]).collect();
    let values: Vec<Option<Vec<u8>>> =
        keys.iter().map(|_| random.random_bool(0.9).then(|| vec![7; random.random_range(0..1_700)])).collect();
    let operations = || keys.iter().zip(&values).map(|(key, value)| Operation { key, value: value.as_deref() });
    let credits: Vec<u64> = operations()
        .map(|operation| hash.reservations.admit(&hash.chains, operation).expect("there is memory"))
        .collect();
    if random.random_bool(0.1) {
        return credits.into_iter().for_each(|credit| hash.reservations.give_back(credit));
    }
    for (operation, credit) in operations().zip(credits) {
        let done = hash.chains.upsert(&hash.chains.key(operation.key), operation.value, &hash.chains.domain.pin());
        assert!(done.is_ok(), "{done:?}");
        hash.reservations.give_back(credit);
    }
}

#[test]
fn who_was_admitted_finds_room_beside_others_and_closed_pages() {
    let hash = engine(4, 1_024);
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let hash = &hash;
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed);
                for round in 0..150 {
                    batch(hash, &mut random);
                    if round % 10 == 0 {
                        hash.chains.log.close_page();
                    }
                }
            });
        }
    });
    assert_eq!(hash.reservations.reserved_bytes.load(Ordering::SeqCst), 0);
    assert_eq!(hash.reservations.promised_operations.load(Ordering::SeqCst), 0);
}

/// An operation takes as much as was reserved for it, and a share of the space that pages leave empty. A log of two MiB
/// is full then.
#[test]
fn a_long_batch_fits_a_short_log() {
    for (count, bytes) in [(30_000u64, 0), (9_000, 100), (3_000, 440), (1_500, 520), (500, 1_880)] {
        let (hash, value) = (engine(10, 32), vec![7; bytes]);
        let keys: Vec<_> = (0..count).map(u64::to_le_bytes).collect();
        let operations = || keys.iter().map(|key| Operation { key, value: Some(&value) });
        let credits: Vec<u64> = operations()
            .map(|operation| hash.reservations.admit(&hash.chains, operation).expect("there is room"))
            .collect();
        for (operation, credit) in operations().zip(credits) {
            let done = hash.chains.upsert(&hash.chains.key(operation.key), operation.value, &hash.chains.domain.pin());
            assert!(done.is_ok(), "{count} of {bytes} bytes: {done:?}");
            hash.reservations.give_back(credit);
        }
        assert_eq!(hash.reservations.reserved_bytes.load(Ordering::SeqCst), 0);
        assert!(keys.iter().all(|key| hash.value(key).is_some_and(|found| found == value)));
    }
}
