//! The index against a map.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use ecotone_sys::epoch::Pin;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;
use crate::log::{Address, FRAME, Link, tests::arena};

const BITS: u32 = 3;

/// Keyed by the bucket in the first table and the tag, which is all that an index knows of a hash.
type Model = HashMap<u64, Address>;

fn name(hash: u64) -> u64 {
    hash >> (64 - BITS - entry::TAG_BITS)
}

/// One of few hashes. Some differ in bits that no table uses, and some have tag 0. Growing tables tell their tags apart
/// step by step.
fn hash(random: &mut SmallRng) -> u64 {
    let (bucket, tag) = (random.random_range(0..1u64 << BITS), random.random_range(0..40u64));
    bucket << (64 - BITS) | tag << (64 - BITS - 6) | random.random_range(0..3u64)
}

/// All of them, one for each tag.
fn hashes() -> impl Iterator<Item = u64> {
    (0..1u64 << BITS).flat_map(|bucket| (0..40u64).map(move |tag| (bucket << 6 | tag) << (64 - BITS - 6)))
}

fn set(index: &Index, hash: u64, address: Address, pin: &Pin<'_>) {
    let found = index.find_or_insert(hash, pin).unwrap();
    found.place.exchange(found.entry, found.entry.with_link(Link::to(address))).unwrap();
}

/// An index that sometimes grows step by step while it is used.
struct Grown {
    index: Index,
    arena: Arc<Arena>,
    /// Buckets of the current table that are still to be split, if there is a next one.
    left: Option<Vec<u64>>,
    doublings: u32,
}

impl Grown {
    /// Begins to grow, splits a bucket, or ends the growth, whichever comes next.
    fn step(&mut self, random: &mut SmallRng) {
        match &mut self.left {
            None if self.doublings < 7 => {
                let buckets = self.index.begin_growth(|| Some(block(&self.arena))).expect("there is memory");
                self.left = Some((0..buckets).collect());
            }
            None => {}
            Some(left) if left.is_empty() => {
                self.index.end_growth();
                self.doublings += 1;
                self.left = None;
            }
            Some(left) => {
                let number = left.swap_remove(random.random_range(0..left.len()));
                self.index.split(number..number + 1);
            }
        }
    }
}

#[test]
fn random_inserts_sweeps_and_growth_follow_the_model() {
    for seed in 0..10 {
        let (arena, domain, mut random) = (arena(), Domain::new(), SmallRng::seed_from_u64(seed));
        let mut grown = Grown { index: index(&domain, &arena, BITS), arena, left: None, doublings: 0 };
        let (mut model, mut clearable, mut tail) = (Model::new(), Address::FIRST, Address::FIRST);
        for _ in 0..20_000 {
            let hash = hash(&mut random);
            match random.random_range(0..1_000) {
                0 => {
                    clearable = Address::new(random.random_range(clearable.get()..=tail.get()) & !7);
                    grown.index.sweep(clearable);
                    model.retain(|_, address| *address >= clearable);
                }
                1..300 => {
                    let address = Address::new(tail.get().next_multiple_of(FRAME) + 16);
                    tail = address.plus(8);
                    set(&grown.index, hash, address, &domain.pin());
                    model.insert(name(hash), address);
                }
                300..400 if seed > 0 => grown.step(&mut random),
                _ => {
                    let pin = domain.pin();
                    let found =
                        grown.index.find(hash, &pin).and_then(|found| found.entry.link().address_from(clearable));
                    assert_eq!(found, model.get(&name(hash)).copied(), "seed {seed}");
                }
            }
        }
        if seed == 0 {
            assert!(grown.index.overflow_left() < 1024, "the buckets were too few");
        } else {
            assert_eq!(grown.doublings, 7, "it grew until each bucket had one entry at most");
        }
    }
}

#[test]
fn without_memory_for_overflow_a_full_bucket_takes_nothing_more() {
    let (arena, domain) = (arena(), Domain::new());
    let index = Index::new(&domain, 0, vec![block(&arena)]);
    let hash = |tag: u64| tag << (64 - entry::TAG_BITS);
    let pin = domain.pin();
    let full = (0..).take_while(|tag| index.find_or_insert(hash(*tag), &pin).is_some()).count();
    assert_eq!((full, index.overflow_left()), (7, 0));
    index.add_overflow(block(&arena)).unwrap();
    assert!((7..7 * 1025).all(|tag| index.find_or_insert(hash(tag), &pin).is_some()));
    assert!(index.find_or_insert(hash(7 * 1025), &pin).is_none() && index.overflow_left() == 0);
    assert!((0..7 * 1025).all(|tag| index.find(hash(tag), &pin).is_some()));
    index.sweep(Address::FIRST);
    assert!((0..7 * 1025).all(|tag| index.find(hash(tag), &pin).is_none()), "all were without an address");
    (1..=table::MORE_OVERFLOW).for_each(|_| index.add_overflow(block(&arena)).unwrap());
    index.add_overflow(block(&arena)).expect_err("there is an end");
}

#[test]
fn a_sweep_frees_no_entry_that_names_a_copy() {
    let (arena, domain) = (arena(), Domain::new());
    let table = index(&domain, &arena, BITS);
    let pin = domain.pin();
    let found = table.find_or_insert(0, &pin).unwrap();
    let copied = found.entry.with_link(Link::to_cached(0));
    found.place.exchange(found.entry, copied).unwrap();
    table.sweep(Address::FIRST);
    assert_eq!(table.find(0, &pin).map(|found| found.entry), Some(copied));
}

/// Four threads count in links while the index grows.
#[test]
fn threads_that_insert_the_same_tags_get_the_same_entries() {
    let (arena, domain) = (arena(), Domain::new());
    let (index, done) = (index(&domain, &arena, BITS), AtomicBool::new(false));
    let counted = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                let (domain, index) = (&domain, &index);
                scope.spawn(move || count(domain, index, seed))
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) && index.grow(|| Some(block(&arena))) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let counted = threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>();
        done.store(true, Ordering::Relaxed);
        counted
    });
    let pin = domain.pin();
    let links = hashes().filter_map(|hash| index.find(hash, &pin)).map(|found| found.entry.link().bits() - 1);
    assert_eq!(links.sum::<u64>(), counted, "every one is counted in the only entry of its tag");
}

/// Raises the links of random hashes by one each, as if they were counters.
fn count(domain: &Domain, index: &Index, seed: u64) -> u64 {
    const TURNS: u64 = 20_000;
    let mut random = SmallRng::seed_from_u64(seed);
    for _ in 0..TURNS {
        let hash = hash(&mut random);
        while !raise(index, hash, &domain.pin()) {
            std::thread::yield_now();
        }
    }
    TURNS
}

/// Raises the link of a hash by one. Returns false if all overflow buckets are kept for a growth in progress, or
/// another thread was faster.
fn raise(index: &Index, hash: u64, pin: &Pin<'_>) -> bool {
    let Some(found) = index.find_or_insert(hash, pin) else { return false };
    let next = Link::from_bits(found.entry.link().bits() + 1);
    found.place.exchange(found.entry, found.entry.with_link(next)).is_ok()
}
