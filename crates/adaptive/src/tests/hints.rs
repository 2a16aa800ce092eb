//! Hints: when the conversions that they ask for come, and what a later hint changes.

use std::{ops::Bound, time::Duration};

use ecotone_engine::contract::{ConversionReason, Get, Hint, Hintable, Ordered, Shape};

use super::{
    controller::{is_pages, layered, layered_with, range, scan, shapes},
    fixture::{Fixture, Model, key, step},
};
use crate::AdaptiveOptions;

const KEYS: u32 = 4000;
const SECOND: Duration = Duration::from_secs(1);

/// A new hint cancels a contrary hinted task.
#[test]
fn the_last_hint_counts() {
    let (fixture, model) = layered(AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() });
    for _ in 0..100 {
        fixture.keyspace.hint(&range(200, 900), Hint::ReadMostly).unwrap();
        fixture.keyspace.hint(&range(200, 900), Hint::WriteMostly).unwrap();
    }
    assert_eq!(shapes(&fixture), [(Shape::ToBeTables, Some(ConversionReason::Hint))]);
    fixture.keyspace.hint(&(Bound::Unbounded, Bound::Unbounded), Hint::Auto).unwrap();
    assert_eq!(shapes(&fixture), []);
    fixture.pass(SECOND);
    assert_eq!(fixture.stat("ranges_to_pages"), 0);
    fixture.expect(&model);
}

#[test]
fn hints_are_followed_at_once_and_forgotten() {
    let (mut fixture, model) = layered(AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() });
    fixture.keyspace.hint(&range(200, 900), Hint::ReadMostly).unwrap();
    assert_eq!(shapes(&fixture), [(Shape::ToBePages, Some(ConversionReason::Hint))]);
    fixture.pass(SECOND);
    assert!(is_pages(&fixture, 200, 900) && shapes(&fixture) == [(Shape::Pages, Some(ConversionReason::Hint))]);
    fixture.keyspace.hint(&range(200, 900), Hint::WriteMostly).unwrap();
    fixture.pass(SECOND);
    assert!(!is_pages(&fixture, 200, 900) && fixture.stat("paged_ranges") == 0, "{:?}", fixture.keyspace.shapes());
    fixture.keyspace.hint(&(Bound::Unbounded, Bound::Unbounded), Hint::ReadMostly).unwrap();
    fixture.pass(SECOND);
    assert_eq!((fixture.stat("tables"), fixture.stat("paged_ranges")), (0, 1));
    fixture.keyspace.hint(&(Bound::Unbounded, Bound::Unbounded), Hint::Auto).unwrap();
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

/// Records in the memtable alone are flushed into the new pages. A hint for an empty range does nothing.
#[test]
fn a_hint_is_followed_before_anything_is_flushed() {
    let (mut fixture, mut model) =
        (Fixture::new(9, AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() }), Model::new());
    (0..100).for_each(|number| fixture.put(&mut model, number, Some(&[1; 50])));
    fixture.keyspace.hint(&range(50, 20), Hint::WriteMostly).unwrap();
    fixture.keyspace.hint(&(Bound::Unbounded, Bound::Unbounded), Hint::ReadMostly).unwrap();
    fixture.pass(SECOND);
    assert_eq!((fixture.stat("paged_ranges"), fixture.stat("tables"), fixture.stat("flushes")), (1, 0, 0));
    fixture.flush();
    assert!(is_pages(&fixture, 0, 100), "{:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
}

/// Pages need the memory that the cached blocks of their records had.
#[test]
fn what_becomes_pages_leaves_the_block_cache() {
    let (fixture, model) = layered(AdaptiveOptions::default());
    for number in (0..KEYS).step_by(20) {
        let mut cursor = fixture.keyspace.clone().cursor((Bound::Included(key(number)), Bound::Unbounded));
        assert!(step(&mut *cursor, false).is_some());
    }
    assert!(fixture.stat("block_cache_pages") > 50);
    let bytes = fixture.stat("block_cache_bytes");
    fixture.keyspace.hint(&(Bound::Unbounded, Bound::Unbounded), Hint::ReadMostly).unwrap();
    fixture.pass(SECOND);
    assert_eq!((fixture.stat("tables"), fixture.stat("block_cache_pages")), (0, 0));
    assert!(fixture.stat("block_cache_bytes") < bytes, "slabs without pages go back to the budget");
    fixture.expect(&model);
}

#[test]
fn what_is_hinted_to_be_written_is_not_adapted_however_it_is_scanned() {
    let (mut fixture, mut model) = layered_with(AdaptiveOptions::default(), 1000);
    fixture.keyspace.hint(&range(900, 1500), Hint::WriteMostly).unwrap();
    scan(&fixture, (1000, 1400), 60);
    assert_eq!(fixture.stat("paged_ranges"), 0);
    // Adds a run, in case compaction has left only one.
    (900..1500).step_by(3).for_each(|number| fixture.put(&mut model, number, Some(&[7; 100])));
    fixture.flush();
    fixture.keyspace.hint(&range(900, 1500), Hint::Auto).unwrap();
    scan(&fixture, (1000, 1400), 120);
    assert!(is_pages(&fixture, 1200, 1350), "{:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
}

/// A keyspace that only follows hints, with a hinted task that found the disk full. The disk has space again.
fn put_off() -> (Fixture, Model) {
    let options = AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() };
    let (mut fixture, mut model) = (Fixture::with_tables(6, options, 1 << 20), Model::new());
    // The page file starts with one MiB and would need three.
    (0..KEYS).for_each(|number| fixture.put(&mut model, number, Some(&[number as u8; 800])));
    fixture.flush();
    fixture.disk.space_limit(fixture.disk.space_used());
    fixture.keyspace.hint(&range(200, 3800), Hint::ReadMostly).unwrap();
    fixture.pass(SECOND);
    assert!(fixture.stat("conversions_given_up") > 0 && !is_pages(&fixture, 200, 3800));
    fixture.disk.space_limit(u64::MAX);
    (fixture, model)
}

/// On a full disk nothing is converted and nothing is lost. The hinted task is tried again a minute later.
#[test]
fn a_full_disk_puts_it_off() {
    let (mut fixture, mut model) = put_off();
    let given_up = fixture.stat("conversions_given_up");
    assert!(
        shapes(&fixture).contains(&(Shape::ToBePages, Some(ConversionReason::Hint))),
        "{:?}",
        fixture.keyspace.shapes()
    );
    fixture.environment.health.check().unwrap();
    let flush = |fixture: &mut Fixture, model: &mut Model| {
        fixture.put(model, 1, Some(b"1"));
        fixture.flush();
    };
    flush(&mut fixture, &mut model);
    fixture.pass(SECOND);
    assert!(!is_pages(&fixture, 200, 3800), "it is not tried again and again");
    fixture.pass(60 * SECOND);
    flush(&mut fixture, &mut model);
    fixture.pass(SECOND);
    assert!(
        is_pages(&fixture, 200, 3800) && fixture.stat("conversions_given_up") == given_up,
        "{:?}",
        fixture.keyspace.shapes()
    );
    fixture.expect(&model);
}

/// The latest hint holds, also if an older one was postponed until then.
#[test]
fn a_hint_does_not_come_before_one_that_is_put_off() {
    let (fixture, model) = put_off();
    fixture.keyspace.hint(&range(1000, 1400), Hint::WriteMostly).unwrap();
    fixture.pass(SECOND);
    fixture.pass(60 * SECOND);
    // There are only point reads.
    assert!(fixture.keyspace.get(&key(1200)).unwrap().is_some());
    fixture.tick();
    assert!(is_pages(&fixture, 200, 900) && is_pages(&fixture, 1500, 3800), "{:?}", fixture.keyspace.shapes());
    assert_eq!(
        fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(1050), &key(1350)).pages,
        0,
        "{:?}",
        fixture.keyspace.shapes()
    );
    fixture.expect(&model);
}
