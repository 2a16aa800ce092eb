//! Chains alone.

use std::sync::atomic::AtomicBool;

use ecotone_substrate::memory::Memory;

use super::{super::handle::Handle, *};

fn map(parts: usize) -> DirtyMap {
    DirtyMap::new(parts, Memory::new(16 << 20))
}

fn address(number: usize) -> Address {
    Address::new((number % 3) as u8, Handle::new(number / 4096, (number % 4096) as u16))
}

fn push(map: &DirtyMap, page: u32, number: usize, seq: Seq) -> Entry {
    assert!(map.credit(&|| None));
    let entry = map.push(0, page, address(number), seq, false);
    map.repay();
    entry
}

fn addresses(map: &DirtyMap, page: u32) -> Vec<Address> {
    map.chained(0, page).entries.into_iter().map(|(_, address)| address).collect()
}

fn writing(map: &DirtyMap, page: u32) -> Vec<Address> {
    let mut last = None;
    let mut found = Vec::new();
    while let Some(piece) = map.writing(0, page, last) {
        found.extend(piece.entries().map(|(_, address)| address));
        last = Some(piece.number);
    }
    found
}

#[test]
fn chains_keep_their_order_and_follow_their_records() {
    let map = map(2);
    let entries: Vec<Entry> = (0..10).map(|n| push(&map, 5, n, 100 - n as Seq)).collect();
    map.moved(entries[4], address(77));
    let expected: Vec<Address> = (0..10).map(|n| address(if n == 4 { 77 } else { n })).collect();
    assert_eq!((addresses(&map, 5), map.at(entries[4])), (expected, address(77)));
    assert_eq!((map.first(0), map.pages(0, 91), map.pages(0, 92)), (Some(91), vec![], vec![5]));
}

#[test]
fn a_write_out_takes_the_front_and_gives_the_rest_back() {
    let map = map(1);
    (0..8).for_each(|n| {
        push(&map, 5, n, 10 + n as Seq);
    });
    map.begin_write(0, 5);
    let second = map.writing(0, 5, map.writing(0, 5, None).map(|piece| piece.number)).unwrap();
    assert!(map.give_back(0, 5, second.number));
    push(&map, 5, 8, 50);
    assert_eq!(writing(&map, 5), (0..6).map(address).collect::<Vec<_>>());
    assert_eq!((map.pages(0, 11), map.count(0)), (vec![5], 9));
    map.end_write(0, 5);
    assert_eq!(addresses(&map, 5), (6..9).map(address).collect::<Vec<_>>());
    assert_eq!((map.first(0), map.count(0)), (Some(10), 3));
}

#[test]
fn an_aborted_write_out_comes_before_what_was_chained_since() {
    let map = map(1);
    (0..4).for_each(|n| {
        push(&map, 5, n, 10);
    });
    map.begin_write(0, 5);
    assert_eq!(map.first(0), Some(10), "a chain that is being written holds the watermark");
    (4..6).for_each(|n| {
        push(&map, 5, n, 20);
    });
    map.abort_write(0, 5);
    assert_eq!((addresses(&map, 5), map.first(0)), ((0..6).map(address).collect(), Some(10)));
    assert!(map.writing(0, 5, None).is_none());
}

#[test]
fn many_pages_are_kept_apart_and_their_memory_comes_back() {
    let map = map(4);
    for n in 0..120_000 {
        push(&map, (n % 40_000) as u32, n, n as Seq);
    }
    for page in 0..40_000 {
        let expected: Vec<Address> = (0..3).map(|round| address(page + round * 40_000)).collect();
        assert_eq!(addresses(&map, page as u32), expected);
    }
    let full = map.bytes();
    for page in 0..40_000 {
        map.begin_write(0, page);
        map.end_write(0, page);
    }
    (0..1000).for_each(|n| {
        push(&map, 0, n, 1);
    });
    assert!(map.bytes() < full / 3 * 2, "{} of {full} bytes are left", map.bytes());
    map.forget(0);
    assert_eq!((map.first(0), map.count(0)), (None, 0));
}

#[test]
fn credits_that_are_out_always_find_nodes() {
    let map = map(2);
    let out = 5000;
    (0..out).for_each(|_| assert!(map.credit(&|| None)));
    // All on pages of their own, all in whatever part they fall.
    (0..out).for_each(|n| {
        map.push(0, n as u32, address(n), 1, false);
    });
    (0..out).for_each(|_| map.repay());
    assert_eq!(map.count(0), out);
}

#[test]
fn a_long_chain_goes_to_other_parts_while_credits_are_out() {
    const RECORDS: usize = 200_000;
    let map = map(4);
    (0..RECORDS).for_each(|n| {
        push(&map, 5, n, 1);
    });
    let out = 700;
    (0..out).for_each(|_| assert!(map.credit(&|| None)));
    let first = map.leave(0, 5).unwrap();
    let mut passed = 0;
    while let Some(piece) = map.leaving(0, 5) {
        for (_, address) in piece.entries() {
            if passed % PASSES == 0 {
                map.provide_for_passing(&|| None);
            }
            map.pass(0, 100 + (passed % 300) as u32, address, first);
            passed += 1;
        }
        map.left(0, 5);
    }
    // Each on a page of its own, in whatever part.
    (0..out).for_each(|n| {
        map.push(0, 1000 + n as u32, address(n), 1, false);
        map.repay();
    });
    assert_eq!((passed, map.count(0)), (RECORDS, RECORDS + out));
    assert!(map.bytes() < RECORDS * 16, "{} bytes", map.bytes());
}

#[test]
fn without_memory_there_is_no_credit() {
    let memory = Memory::new(1 << 20);
    let map = DirtyMap::new(1, memory);
    assert!(!map.credit(&|| None));
    assert_eq!(map.credits(), 0);
}

#[test]
fn what_passes_to_a_part_already_looked_at_is_not_missed() {
    let map = map(2);
    let part = |page: u32| map.part_of(PageKey { keyspace: 0, page });
    let to = (0..).find(|page| part(*page) == 0).unwrap();
    let from = (0..).find(|page| part(*page) == 1).unwrap();
    push(&map, from, 1, 10);
    map.begin_look();
    assert_eq!(DirtyMap::first_in(&map.parts[0], 0), None);
    let first = map.leave(0, from).unwrap();
    map.pass(0, to, address(1), first);
    map.left(0, from);
    assert_eq!(DirtyMap::first_in(&map.parts[1], 0), None);
    assert_eq!(map.end_look(0), Some(10));
    map.begin_look();
    assert_eq!(map.end_look(0), None, "and is forgotten with the look");
    assert_eq!(map.first(0), Some(10));
}

#[test]
fn the_first_sequence_is_seen_while_its_chain_moves() {
    let map = map(4);
    (0..20_000).for_each(|n| {
        push(&map, 100 + n as u32, n, 50);
    });
    push(&map, 0, 1, 10);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let look = scope.spawn(|| {
            let looks = (0..300).filter(|_| map.first(0) == Some(10)).count();
            over.store(true, Ordering::SeqCst);
            looks
        });
        let mut page = 0;
        while !over.load(Ordering::SeqCst) {
            map.begin_write(0, page);
            map.abort_write(0, page);
            let first = map.leave(0, page).unwrap();
            page = (page + 1) % 16;
            map.pass(0, page, address(1), first);
            map.left(0, (page + 15) % 16);
        }
        assert_eq!(look.join().unwrap(), 300);
    });
}
