//! Traps between overlapping calls: a read is paused while a write goes all the way to disk.

use std::{ops::Bound, thread};

use ecotone::internal::substrate::{
    limits::PAGE,
    page::{Page, PageAddress, PageKind},
    storage::FileId,
};
use ecotone_testkit::{
    model::{Ending, Level},
    sim::{Phase, SteppedThread},
};

use super::{Fixture, KEYSPACE, key, value};
use crate::tree;

const FILE: FileId = FileId::Pages(KEYSPACE);

/// Kinds of the sound pages on the disk that hold a key.
fn pages_with(fixture: &Fixture, number: u32) -> Vec<PageKind> {
    let files = fixture.disk.files();
    let pages = (0..).zip(files[&FILE].chunks_exact(PAGE));
    let pages = pages.filter_map(|(page, bytes)| Page::parse(bytes, PageAddress { file: FILE.identity(), page }).ok());
    pages
        .filter(|page| page.kind() != PageKind::Index && page.get(&key(number)).is_some())
        .map(|page| page.kind())
        .collect()
}

#[test]
fn trap_01_stale_admission() {
    let mut fixture = Fixture::loaded(tree, (0..40).map(|_| 900));
    let (old, new) = (value(7, 0, 900), value(7, 1, 300));
    let store = &*fixture.store;
    thread::scope(|scope| {
        let mut late = SteppedThread::new(scope, &[Phase::Pages], || store.get(KEYSPACE, &key(7)).unwrap());
        assert_eq!((late.step(), late.step()), (None, None), "it stands still before its page is read, and after that");
        store.write(&[((KEYSPACE, key(7)), Some(new.clone()))], Level::Buffered).unwrap();
        store.flush().unwrap();
        store.squeeze(0);
        assert_eq!(late.step(), Some(Some(old)), "the read began before the write");
    });
    fixture.model.record(vec![((KEYSPACE, key(7)), Some(new.clone()))], Level::Sync);
    assert_eq!(fixture.store.get(KEYSPACE, &key(7)).unwrap(), Some(new), "the old value was admitted to the cache");
    fixture.check(Ending::Closed, "after a late read");
}

/// A scan that is paused after `stops` stops while all dirty records are written to their pages and leave the cache.
/// False if the scan has fewer stops.
fn interrupted_scan(reverse: bool, stops: usize) -> bool {
    let mut fixture = Fixture::loaded(tree, (0..600).map(|_| 900));
    for number in (0..600).step_by(3) {
        fixture.write(number, Some(value(number, 1, 300)), Level::Buffered).unwrap();
        fixture.write(number + 1, None, Level::Buffered).unwrap();
    }
    let store = &*fixture.store;
    let mut expected: Vec<_> =
        fixture.model.now().iter().map(|((_, key), value)| (key.clone(), value.clone())).collect();
    if reverse {
        expected.reverse();
    }
    let found = thread::scope(|scope| {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut scan = SteppedThread::new(scope, &[Phase::Pages], move || store.scan(KEYSPACE, all, reverse).unwrap());
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
    fixture.check(Ending::Closed, "after the scan");
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
    let mut fixture = Fixture::loaded(tree, (0..40).map(|_| 900));
    // More records than the page has space for between two others: the rest goes to an overflow page.
    for number in 0..4 {
        fixture.write(1_000 + number, Some(value(number, 1, 900)), Level::Buffered).unwrap();
    }
    fixture.store.flush().unwrap();
    let kinds: Vec<Vec<PageKind>> = (36..40).chain(1_000..1_004).map(|number| pages_with(&fixture, number)).collect();
    assert!(
        kinds.contains(&vec![PageKind::Overflow]) && kinds.contains(&vec![PageKind::Base]),
        "nothing overflowed: {kinds:?}"
    );
    // Updates of the same length stay where the key is, of all that the chain holds.
    for number in (36..40).chain(1_000..1_004) {
        fixture.write(number, Some(value(number, 2, 900)), Level::Buffered).unwrap();
    }
    fixture.store.flush().unwrap();
    for number in (36..40).chain(1_000..1_004) {
        assert_eq!(pages_with(&fixture, number).len(), 1, "key {number}");
    }
    fixture.check(Ending::Closed, "after the updates");
    for number in (36..40).chain(1_000..1_004) {
        fixture.write(number, None, Level::Buffered).unwrap();
    }
    fixture.store.flush().unwrap();
    fixture.store.squeeze(0);
    fixture.check(Ending::Closed, "after the deletes");
}

/// The key is in base and overflow pages, and its delete is in the cache. The delete may leave the cache only when the
/// pages without the key are synced.
#[test]
fn trap_09_a_delete_stays_as_long_as_its_page_has_the_key() {
    let mut fixture = Fixture::loaded(tree, (0..40).map(|_| 900));
    for number in 0..4 {
        fixture.write(1_000 + number, Some(value(number, 1, 900)), Level::Buffered).unwrap();
    }
    fixture.store.flush().unwrap();
    let deleted = || (36..40).chain(1_000..1_004);
    let kinds: Vec<PageKind> = deleted().flat_map(|number| pages_with(&fixture, number)).collect();
    assert!(
        [PageKind::Base, PageKind::Overflow].iter().all(|kind| kinds.contains(kind)),
        "nothing overflowed: {kinds:?}"
    );
    for number in deleted() {
        fixture.write(number, None, Level::Buffered).unwrap();
    }
    let store = &*fixture.store;
    thread::scope(|scope| {
        let mut flush = SteppedThread::new(scope, &[Phase::Pages, Phase::DoubleWrite], || store.flush().unwrap());
        let stops = std::iter::from_fn(|| flush.step().is_none().then_some(())).inspect(|()| {
            store.squeeze(0);
            deleted().for_each(|number| assert_eq!(store.get(KEYSPACE, &key(number)).unwrap(), None, "key {number}"));
        });
        assert!(stops.count() > 4, "the flush stood still at its I/O");
    });
    fixture.store.squeeze(0);
    fixture.check(Ending::Closed, "after the deletes");
}
