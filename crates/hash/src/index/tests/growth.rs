//! Growth: when it begins, what it needs, and the table that it leaves.

use ecotone_sys::chunk::Size;

use super::*;
use crate::{
    index::entry::Entry,
    log::{Address, Link, PAGE, tests::arena},
};

/// Hashes that differ in their upper 32 bits and are spread evenly.
fn hash(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn address(number: u64) -> Address {
    Address::new((number + 1) * PAGE + 16)
}

/// Inserts hashes with these numbers, each with an address of its own.
fn fill(index: &Index, domain: &Domain, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let pin = domain.pin();
        let found = index.find_or_insert(hash(number), &pin).expect("there are overflow buckets");
        found
            .place
            .exchange(found.entry, found.entry.with_link(Link::to(address(number))))
            .expect("nobody else changes it");
    }
}

fn assert_found(index: &Index, domain: &Domain, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let pin = domain.pin();
        let link = index.find(hash(number), &pin).map(|found| found.entry.link());
        assert_eq!(link, Some(Link::to(address(number))), "{number}");
    }
}

#[test]
fn an_index_is_crowded_at_seven_entries_a_bucket_and_grows_twofold() {
    let (arena, domain) = (arena(), Domain::new());
    let index = index(&domain, &arena, 10);
    let mut entries = 0;
    for buckets in [1024, 2048, 4096] {
        while !index.is_crowded() {
            fill(&index, &domain, entries..entries + 16);
            entries += 16;
        }
        let mean = entries as f64 / f64::from(buckets);
        assert!((6.7..7.3).contains(&mean), "{mean} entries in {buckets} buckets");
        assert!(index.grow(|| Some(block(&arena))) && !index.is_crowded());
        assert_found(&index, &domain, 0..entries);
    }
    index.sweep(address(entries));
    assert_eq!(index.entries(), 0, "every entry was counted when it came and when it went");
}

#[test]
fn growth_gives_the_former_table_back() {
    let (arena, domain) = (arena(), Domain::new());
    let index = index(&domain, &arena, 10);
    fill(&index, &domain, 0..6_000);
    assert!(index.grow(|| Some(block(&arena))));
    let slabs = arena.tagged_bytes(0) / Size::Slab.bytes();
    assert_eq!(slabs, 3, "two for the table, and as many for overflow buckets as there were before");
    assert!(index.overflow_left() >= 1024 - 8, "hardly any is needed now");
}

/// All entries in one bucket with some hundred overflow buckets. Their numbers suffice for the two buckets of each
/// split, again and again.
#[test]
fn a_long_chain_becomes_two_shorter_ones_at_each_growth() {
    let (arena, domain) = (arena(), Domain::new());
    let index = index(&domain, &arena, 0);
    let entries = 7 * 700;
    fill(&index, &domain, 0..entries);
    assert!(index.overflow_left() < 1024 - 600);
    for _ in 0..8 {
        assert!(index.grow(|| Some(block(&arena))));
        assert_found(&index, &domain, 0..entries);
    }
    fill(&index, &domain, entries..entries + 1_400);
    assert_found(&index, &domain, 0..entries + 1_400);
}

#[test]
fn what_was_never_settled_is_not_carried() {
    let (arena, domain) = (arena(), Domain::new());
    let index = index(&domain, &arena, 0);
    fill(&index, &domain, 0..1);
    let pin = domain.pin();
    let table = index.current(&pin);
    let tentative = Entry::tentative(table.tag(hash(1)));
    let free = table.bucket(0).entries().find(|place| place.load() == Entry::FREE).unwrap();
    free.exchange(Entry::FREE, tentative).unwrap();
    index.begin_growth(|| Some(block(&arena))).unwrap();
    index.split(0..1);
    let found = index.find_or_insert(hash(1), &pin).expect("nobody inserts it in the next table");
    assert_eq!(found.entry.link(), Link::NONE);
    free.exchange(tentative, Entry::new(tentative.tag(), Link::NONE)).expect_err("it is frozen");
    assert_found(&index, &domain, 0..1);
}

/// A reader holds the old table while a bucket of it is split. The reader's changes go to the next table.
#[test]
fn who_found_an_entry_before_a_split_finds_it_anew() {
    let (arena, domain) = (arena(), Domain::new());
    let index = index(&domain, &arena, 0);
    fill(&index, &domain, 0..20);
    let pin = domain.pin();
    let found = index.find(hash(7), &pin).unwrap();
    index.begin_growth(|| Some(block(&arena))).unwrap();
    found.place.exchange(found.entry, found.entry.with_link(Link::to(address(70)))).expect("it is not split yet");
    let found = index.find(hash(7), &pin).unwrap();
    index.split(0..1);
    let other = found.entry.with_link(Link::to(address(71)));
    assert!(found.place.exchange(found.entry, other).is_err(), "it is final");
    let again = index.find(hash(7), &pin).unwrap();
    assert_eq!(again.entry, found.entry, "the same word in the next table");
    again.place.exchange(again.entry, other).unwrap();
    assert_eq!(index.find(hash(7), &pin).unwrap().entry, other);
    drop(pin);
    index.end_growth();
    assert_eq!(index.find(hash(7), &domain.pin()).unwrap().entry, other);
}

#[test]
fn without_memory_it_does_not_grow_and_asks_again_when_it_is_more_crowded() {
    let (arena, domain) = (arena(), Domain::new());
    let index = index(&domain, &arena, 10);
    fill(&index, &domain, 0..7_800);
    let before = arena.tagged_bytes(0);
    let mut blocks = 1;
    let one = || {
        blocks -= 1;
        (blocks >= 0).then(|| block(&arena))
    };
    assert!(index.is_crowded() && !index.grow(one));
    assert_eq!(arena.tagged_bytes(0), before, "what it got is given back");
    assert!(!index.is_crowded());
    assert_found(&index, &domain, 0..7_800);
    fill(&index, &domain, 7_800..9_400);
    assert!(index.is_crowded() && index.grow(|| Some(block(&arena))));
}

#[test]
fn a_table_doubles_as_long_as_tags_tell_entries_apart() {
    let (arena, domain) = (arena(), Domain::new());
    let index = index(&domain, &arena, 0);
    fill(&index, &domain, 0..100);
    let doublings = (0..).take_while(|_| index.grow(|| Some(block(&arena)))).count();
    assert_eq!(doublings, 12);
    assert_found(&index, &domain, 0..100);
}

/// One block for overflow buckets comes when growth begins, and another during growth.
#[test]
fn overflow_buckets_come_beside_growth() {
    let (arena, domain) = (arena(), Domain::new());
    let index = Index::new(&domain, 10, vec![block(&arena)]);
    index.add_overflow(block(&arena)).unwrap();
    fill(&index, &domain, 0..6_000);
    index.begin_growth(|| Some(block(&arena))).unwrap();
    assert_eq!(index.overflow_left(), 0, "all are kept for splits");
    index.split(0..512);
    index.add_overflow(block(&arena)).unwrap();
    fill(&index, &domain, 6_000..13_000);
    assert_found(&index, &domain, 0..13_000);
    index.split(0..1024);
    index.end_growth();
    assert_found(&index, &domain, 0..13_000);
}
