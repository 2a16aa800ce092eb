//! Flushes beside paged ranges: a range without flushed records stays pages alone.

use ecotone_engine::contract::Get;
use ecotone_lsm::manifest::PagedRanges;

use super::fixture::{Fixture, Model, key};
use crate::{AdaptiveOptions, Insert};

const KEYS: u32 = 2400;

fn put(fixture: &mut Fixture, model: &mut Model, numbers: impl Iterator<Item = u32>, byte: u8) {
    numbers.for_each(|number| fixture.put(model, number, Some(&[byte; 100])));
    fixture.flush();
}

/// Keys with two paged ranges.
fn covered() -> (Fixture, Model) {
    let (mut fixture, mut model) = (Fixture::new(3, AdaptiveOptions::default()), Model::new());
    put(&mut fixture, &mut model, 0..KEYS, 0);
    fixture.keyspace.convert_to_pages(&key(400), &key(800)).unwrap();
    fixture.keyspace.convert_to_pages(&key(1200), &key(1600)).unwrap();
    (fixture, model)
}

fn paged_ranges(fixture: &Fixture) -> PagedRanges {
    fixture.keyspace.lsm.lsm().paged_ranges().as_ref().clone()
}

/// Bytes of visible table records in a range.
fn counting(fixture: &Fixture, lower: u32, upper: u32) -> u64 {
    fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(lower), &key(upper)).bytes
}

#[test]
fn a_range_that_nobody_writes_stays_pages_alone_however_wide_runs_are() {
    let (mut fixture, mut model) = covered();
    for round in 1..=3 {
        put(&mut fixture, &mut model, (0..400).chain(1700..KEYS).step_by(17), round);
        assert_eq!((counting(&fixture, 400, 800), counting(&fixture, 1200, 1600)), (0, 0), "round {round}");
    }
    fixture.expect(&model);
    put(&mut fixture, &mut model, [500].into_iter(), 9);
    assert!(counting(&fixture, 400, 800) > 0);
    assert_eq!(counting(&fixture, 1200, 1600), 0);
    fixture.expect(&model);
    let before = paged_ranges(&fixture);
    fixture.reopen();
    assert_eq!(paged_ranges(&fixture), before);
    fixture.expect(&model);
}

/// A higher `superseded_from` would hide the older run above the pages.
#[test]
fn a_range_with_something_above_its_pages_keeps_its_floor() {
    let (mut fixture, mut model) = covered();
    put(&mut fixture, &mut model, 450..460, 1);
    let before = paged_ranges(&fixture);
    put(&mut fixture, &mut model, (0..300).chain(2000..KEYS), 2);
    assert_eq!(paged_ranges(&fixture).fragment_at(&key(450)), before.fragment_at(&key(450)));
    assert_ne!(paged_ranges(&fixture).fragment_at(&key(1300)), before.fragment_at(&key(1300)));
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

#[test]
fn an_open_range_stays_open() {
    let (mut fixture, mut model) = covered();
    fixture.keyspace.reactivate(&key(400), &key(800)).unwrap();
    put(&mut fixture, &mut model, (0..300).chain(2000..KEYS), 2);
    let marks: Vec<_> = paged_ranges(&fixture).iter().map(|paged_range| paged_range.superseded_from()).collect();
    assert!(marks.len() == 2 && marks[0].is_none() && marks[1].is_some(), "{marks:?}");
    fixture.expect(&model);
}

/// A tombstone counts as a record.
#[test]
fn a_range_of_which_something_was_deleted_has_that_above_it() {
    let (mut fixture, mut model) = covered();
    fixture.put(&mut model, 1300, None);
    fixture.flush();
    assert!(counting(&fixture, 1200, 1600) > 0 && fixture.keyspace.get(&key(1300)).unwrap().is_none());
    assert_eq!(counting(&fixture, 400, 800), 0);
    fixture.expect(&model);
}

/// An intra-L0 merge drops a superseded record, of which the pages have a newer one: the merged run is newer than
/// `superseded_from`, which would make the record visible again (adaptive-protocol.md, invariant 7).
#[test]
fn what_does_not_count_is_left_out_where_small_runs_become_one() {
    let options = AdaptiveOptions { insert: Insert::Batch, adapt: 0, ..AdaptiveOptions::default() };
    let (mut fixture, mut model) = (Fixture::new(9, options), Model::new());
    let mut flushed = |fixture: &mut Fixture, numbers: &[u32], value: &[u8]| {
        numbers.iter().for_each(|number| fixture.put(&mut model, *number, Some(value)));
        fixture.flush();
        fixture.expect(&model);
    };
    flushed(&mut fixture, &[10, 30, 50, 70], b"first");
    flushed(&mut fixture, &[30], b"second");
    fixture.keyspace.convert_to_pages(&key(20), &key(60)).unwrap();
    assert_eq!(fixture.stat("runs"), 1, "the other had nothing else");
    flushed(&mut fixture, &[50], b"third");
    for number in [80, 90] {
        flushed(&mut fixture, &[number], b"elsewhere");
    }
    while fixture.keyspace.lsm.lsm().run_compaction().unwrap() {}
    assert_eq!(
        (fixture.stat("runs"), fixture.stat("levels"), fixture.stat("table_records")),
        (1, 0, 5),
        "10, 50, 70, 80, 90"
    );
    fixture.reopen();
    flushed(&mut fixture, &[11], b"last");
}
