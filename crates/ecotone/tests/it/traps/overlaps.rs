//! Traps between calls that overlap: a read stands still while a write goes all the way to disk.

use std::{ops::Bound, thread};

use ecotone::internal::substrate::{
    limits::PAGE,
    page::{Page, PageKind, Place},
    storage::FileId,
};
use ecotone_testkit::{
    model::{Ending, Level},
    sim::{Phase, Walk},
};

use super::{KEYSPACE, World, key, value};
use crate::tree;

const FILE: FileId = FileId::Pages(KEYSPACE);

/// Kinds of the sound pages on the disk that hold a key.
fn pages_with(world: &World, number: u32) -> Vec<PageKind> {
    let files = world.disk.files();
    let pages = (0..).zip(files[&FILE].chunks_exact(PAGE));
    let pages = pages.filter_map(|(page, bytes)| Page::parse(bytes, Place { file: FILE.identity(), page }).ok());
    pages
        .filter(|page| page.kind() != PageKind::Index && page.get(&key(number)).is_some())
        .map(|page| page.kind())
        .collect()
}

#[test]
fn trap_01_stale_admission() {
    let mut world = World::loaded(tree, (0..40).map(|_| 900));
    let (old, new) = (value(7, 0, 900), value(7, 1, 300));
    let store = &*world.store;
    thread::scope(|scope| {
        let mut late = Walk::new(scope, &[Phase::Pages], || store.get(KEYSPACE, &key(7)).unwrap());
        assert_eq!((late.step(), late.step()), (None, None), "it stands still before its page is read, and after that");
        store.write(&[((KEYSPACE, key(7)), Some(new.clone()))], Level::Buffered).unwrap();
        store.flush().unwrap();
        store.squeeze(0);
        assert_eq!(late.step(), Some(Some(old)), "the read began before the write");
    });
    world.model.record(vec![((KEYSPACE, key(7)), Some(new.clone()))], Level::Sync);
    assert_eq!(world.store.get(KEYSPACE, &key(7)).unwrap(), Some(new), "the old value was admitted to the cache");
    world.check(Ending::Closed, "after a late read");
}

/// A scan that stands still after `stops` stops while all that is dirty goes to its pages and out of the cache. False
/// if it has no more so many.
fn interrupted_scan(reverse: bool, stops: usize) -> bool {
    let mut world = World::loaded(tree, (0..600).map(|_| 900));
    for number in (0..600).step_by(3) {
        world.write(number, Some(value(number, 1, 300)), Level::Buffered).unwrap();
        world.write(number + 1, None, Level::Buffered).unwrap();
    }
    let store = &*world.store;
    let mut expected: Vec<_> = world.model.now().iter().map(|((_, key), value)| (key.clone(), value.clone())).collect();
    if reverse {
        expected.reverse();
    }
    let found = thread::scope(|scope| {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut scan = Walk::new(scope, &[Phase::Pages], move || store.scan(KEYSPACE, all, reverse).unwrap());
        for _ in 0..stops {
            if let Some(found) = scan.step() {
                return (found, false);
            }
        }
        store.flush().unwrap();
        store.squeeze(0);
        ((0..1_000).find_map(|_| scan.step()).expect("a scan ends"), true)
    });
    assert_eq!(found.0.len(), expected.len(), "in reverse: {reverse}, after {stops} stops");
    assert!(found.0 == expected, "in reverse: {reverse}, after {stops} stops");
    world.check(Ending::Closed, "after the scan");
    found.1
}

#[test]
fn trap_02_scan_between_cache_and_disk() {
    for reverse in [false, true] {
        let stops = (1..).find(|stops| !interrupted_scan(reverse, *stops)).expect("a scan ends");
        assert!(stops > 10, "a scan has {stops} stops");
    }
}

#[test]
fn trap_03_no_key_is_twice_in_a_page_chain() {
    let mut world = World::loaded(tree, (0..40).map(|_| 900));
    // More between two records than the page takes: the rest goes to an overflow page.
    for number in 0..4 {
        world.write(1_000 + number, Some(value(number, 1, 900)), Level::Buffered).unwrap();
    }
    world.store.flush().unwrap();
    let kinds: Vec<Vec<PageKind>> = (36..40).chain(1_000..1_004).map(|number| pages_with(&world, number)).collect();
    assert!(
        kinds.contains(&vec![PageKind::Overflow]) && kinds.contains(&vec![PageKind::Base]),
        "nothing spilled: {kinds:?}"
    );
    // Updates of the same length stay where the key is, of all that the chain holds.
    for number in (36..40).chain(1_000..1_004) {
        world.write(number, Some(value(number, 2, 900)), Level::Buffered).unwrap();
    }
    world.store.flush().unwrap();
    for number in (36..40).chain(1_000..1_004) {
        assert_eq!(pages_with(&world, number).len(), 1, "key {number}");
    }
    world.check(Ending::Closed, "after the updates");
    for number in (36..40).chain(1_000..1_004) {
        world.write(number, None, Level::Buffered).unwrap();
    }
    world.store.flush().unwrap();
    world.store.squeeze(0);
    world.check(Ending::Closed, "after the deletes");
}

/// The key is in base and overflow pages, and its delete in the cache: it may leave there only when the pages are
/// without the key, synced.
#[test]
fn trap_09_a_delete_stays_as_long_as_its_page_has_the_key() {
    let mut world = World::loaded(tree, (0..40).map(|_| 900));
    for number in 0..4 {
        world.write(1_000 + number, Some(value(number, 1, 900)), Level::Buffered).unwrap();
    }
    world.store.flush().unwrap();
    let deleted = || (36..40).chain(1_000..1_004);
    let kinds: Vec<PageKind> = deleted().flat_map(|number| pages_with(&world, number)).collect();
    assert!([PageKind::Base, PageKind::Overflow].iter().all(|kind| kinds.contains(kind)), "nothing spilled: {kinds:?}");
    for number in deleted() {
        world.write(number, None, Level::Buffered).unwrap();
    }
    let store = &*world.store;
    thread::scope(|scope| {
        let mut flush = Walk::new(scope, &[Phase::Pages, Phase::DoubleWrite], || store.flush().unwrap());
        let stops = std::iter::from_fn(|| flush.step().is_none().then_some(())).inspect(|()| {
            store.squeeze(0);
            deleted().for_each(|number| assert_eq!(store.get(KEYSPACE, &key(number)).unwrap(), None, "key {number}"));
        });
        assert!(stops.count() > 4, "the flush stood still at its I/O");
    });
    world.store.squeeze(0);
    world.check(Ending::Closed, "after the deletes");
}
