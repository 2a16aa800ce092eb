//! The index against a map.

use std::collections::HashMap;

use ecotone_sys::epoch::Pin;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;
use crate::hash::log::{Address, FRAME, Link, tests::arena};

const BITS: u32 = 3;

/// By bucket and tag, which is all that an index knows of a hash.
type Model = HashMap<u64, Address>;

fn name(hash: u64) -> u64 {
    hash >> (64 - BITS - entry::TAG_BITS)
}

/// One of few hashes, of which some differ in bits that no table looks at, and some have tag 0.
fn hash(random: &mut SmallRng) -> u64 {
    let (bucket, tag) = (random.random_range(0..1u64 << BITS), random.random_range(0..40u64));
    bucket << (64 - BITS) | tag << (64 - BITS - entry::TAG_BITS) | random.random_range(0..3u64)
}

fn set(table: &Table, hash: u64, address: Address, pin: &Pin<'_>) {
    let found = table.find_or_insert(hash, pin).unwrap();
    found.place.exchange(found.entry, found.entry.with_link(Link::to(address))).unwrap();
}

#[test]
fn random_inserts_and_sweeps_follow_the_model() {
    for seed in 0..10 {
        let (arena, domain, mut random) = (arena(), Domain::new(), SmallRng::seed_from_u64(seed));
        let table = table(&domain, &arena, BITS);
        let (mut model, mut clearable, mut tail) = (Model::new(), Address::FIRST, Address::FIRST);
        for _ in 0..20_000 {
            let (pin, hash) = (domain.pin(), hash(&mut random));
            match random.random_range(0..1_000) {
                0 => {
                    clearable = Address::new(random.random_range(clearable.get()..=tail.get()) & !7);
                    (0..1 << BITS).for_each(|number| table.sweep(number, clearable, tail, &pin));
                    model.retain(|_, address| *address >= clearable);
                }
                1..300 => {
                    let address = Address::new(tail.get().next_multiple_of(FRAME) + 16);
                    tail = address.plus(8);
                    set(&table, hash, address, &pin);
                    model.insert(name(hash), address);
                }
                _ => {
                    let found = table.find(hash, &pin).and_then(|found| found.entry.link().address(clearable, tail));
                    assert_eq!(found, model.get(&name(hash)).copied(), "seed {seed}");
                }
            }
        }
        assert!(table.overflow_left() < 1024, "the buckets were too few");
    }
}

#[test]
fn without_memory_for_overflow_a_full_bucket_takes_nothing_more() {
    let (arena, domain) = (arena(), Domain::new());
    let table = Table::new(&domain, 0, vec![block(&arena)]);
    let hash = |tag: u64| tag << (64 - entry::TAG_BITS);
    let pin = domain.pin();
    let full = (0..).take_while(|tag| table.find_or_insert(hash(*tag), &pin).is_some()).count();
    assert_eq!((full, table.overflow_left()), (7, 0));
    table.add_overflow(block(&arena)).unwrap();
    table.add_overflow(block(&arena)).expect_err("as many as buckets");
    assert!((7..7 * 1025).all(|tag| table.find_or_insert(hash(tag), &pin).is_some()));
    assert!(table.find_or_insert(hash(7 * 1025), &pin).is_none() && table.overflow_left() == 0);
    assert!((0..7 * 1025).all(|tag| table.find(hash(tag), &pin).is_some()));
    table.sweep(0, Address::FIRST, Address::FIRST, &pin);
    assert!((0..7 * 1025).all(|tag| table.find(hash(tag), &pin).is_none()), "all were without an address");
}

#[test]
fn threads_that_insert_the_same_tags_get_the_same_entries() {
    let (arena, domain) = (arena(), Domain::new());
    let table = table(&domain, &arena, BITS);
    let counted = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                let (domain, table) = (&domain, &table);
                scope.spawn(move || count(domain, table, seed))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    });
    let pin = domain.pin();
    let tags = (0..1u64 << BITS)
        .flat_map(|bucket| (0..40u64).map(move |tag| (bucket << entry::TAG_BITS | tag) << (64 - BITS - entry::TAG_BITS)));
    let links = tags.filter_map(|hash| table.find(hash, &pin)).map(|found| found.entry.link().bits() - 1);
    assert_eq!(links.sum::<u64>(), counted, "every one is counted in the only entry of its tag");
}

/// Raises the links of random hashes by one each, as if they were counters.
fn count(domain: &Domain, table: &Table, seed: u64) -> u64 {
    const TURNS: u64 = 20_000;
    let mut random = SmallRng::seed_from_u64(seed);
    for _ in 0..TURNS {
        let (pin, hash) = (domain.pin(), hash(&mut random));
        loop {
            let found = table.find_or_insert(hash, &pin).unwrap();
            let next = Link::from_bits(found.entry.link().bits() + 1);
            if found.place.exchange(found.entry, found.entry.with_link(next)).is_ok() {
                break;
            }
        }
    }
    TURNS
}
