//! Conversions that fail, or that a crash interrupts.

use std::io::ErrorKind;

use ecotone_engine::contract::Ordered;
use ecotone_substrate::Result;
use ecotone_tree::TreeOptions;

use super::fixture::{ALL, Fixture, Model, key, step};
use crate::AdaptiveOptions;

const KEYS: u32 = 900;
/// Records and their size that need more of a page file than its initial size.
const MANY: u32 = 1500;
const BYTES: usize = 1800;

/// A keyspace of so many keys, some of them in pages. All have newer records of so many bytes, or tombstones, in
/// tables.
fn fixture(keys: u32, bytes: usize) -> (Fixture, Model) {
    let tree = TreeOptions::default().segment_pages(4);
    let (mut fixture, mut model) =
        (Fixture::new(3, AdaptiveOptions { tree, ..AdaptiveOptions::default() }), Model::new());
    for round in 0..3_u8 {
        for number in (0..keys).filter(|number| round == 0 || number % 3 == u32::from(round)) {
            let value = (round == 0 || number % 2 == 0).then(|| vec![round; bytes]);
            fixture.put(&mut model, number, value.as_deref());
        }
        fixture.flush();
        if round == 0 {
            fixture.keyspace.convert_to_pages(&key(300), &key(600)).unwrap();
        }
    }
    (fixture, model)
}

/// Makes a conversion fail at each of its I/Os.
fn fail_everywhere(change: impl Fn(&Fixture) -> Result<()>) {
    let change = |failure: Option<u64>| {
        let (fixture, model) = fixture(KEYS, 90);
        let start = fixture.disk.io_index();
        failure.into_iter().for_each(|ahead| fixture.disk.fail_at(start + ahead, ErrorKind::Other));
        let changed = change(&fixture);
        assert_eq!(changed.is_err(), failure.is_some(), "{failure:?}");
        let count = fixture.disk.io_index() - start;
        fixture.expect(&model);
        count
    };
    let all = change(None);
    assert!(all > 8, "{all}");
    (0..all).for_each(|failure| _ = change(Some(failure)));
}

/// Trap 11: the conversion fails at each of its I/Os. Table records stay visible until all of them are in pages.
#[test]
fn trap_11_an_absorption_that_fails_changes_nothing_that_is_read() {
    fail_everywhere(|fixture| fixture.keyspace.convert_to_pages(&key(100), &key(800)));
}

/// Superseded records stay superseded until the visible ones are written out.
#[test]
fn trap_11_an_opening_that_fails_changes_nothing_that_is_read() {
    fail_everywhere(|fixture| fixture.keyspace.reactivate(&key(100), &key(800)));
}

/// Pages are read until all their records are in tables, and freed after that.
#[test]
fn trap_11_a_conversion_to_tables_that_fails_changes_nothing_that_is_read() {
    fail_everywhere(|fixture| fixture.keyspace.convert_to_tables(&key(100), &key(800)));
}

/// Pages outside all paged ranges are free after the opening.
#[test]
fn what_a_crash_leaves_of_an_absorption_goes_at_the_next_opening() {
    let (mut fixture, model) = fixture(KEYS, 90);
    let value = || Some(vec![7; 1000]);
    for numbers in [0..200, 700..900] {
        // The edit of the manifest is missing, as after a crash.
        fixture.keyspace.tree.ingest(&mut numbers.map(|number| Ok((key(number), value()))), false).unwrap();
    }
    let covered = fixture.stat("segments");
    fixture.reopen();
    assert!(fixture.stat("segments") < covered - 20, "{} segments of {covered}", fixture.stat("segments"));
    let tree = &fixture.keyspace.tree;
    assert!(tree.is_cleared(b"", Some(&key(300))) && tree.is_cleared(&key(600), None));
    fixture.expect(&model);
}

/// Written pages are freed again when there is no space for the rest of the range.
#[test]
fn what_came_into_pages_in_vain_is_carved_out_again() {
    let (mut fixture, mut model) = (Fixture::with_tables(4, AdaptiveOptions::default(), 1 << 20), Model::new());
    // The page file starts with one MiB and would need three.
    for number in 0..MANY {
        fixture.put(&mut model, number, Some(&[number as u8; BYTES]));
    }
    fixture.flush();
    fixture.disk.space_limit(fixture.disk.space_used());
    let error = fixture.keyspace.convert_to_pages(&key(0), &key(MANY)).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    assert!(fixture.stat("segments") <= 3, "{} segments", fixture.stat("segments"));
    fixture.expect(&model);
    fixture.disk.space_limit(u64::MAX);
    fixture.keyspace.convert_to_pages(&key(0), &key(MANY)).unwrap();
    assert!(fixture.stat("segments") > 3 && fixture.stat("paged_ranges") == 1 && fixture.stat("tables") == 0);
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

/// Converted records stay converted. Removed tables make room for the next step, unless a cursor still reads them.
#[test]
fn a_full_disk_ends_an_absorption_between_two_pieces_only_where_tables_have_to_stay() {
    let (mut fixture, mut model) = (Fixture::new(5, AdaptiveOptions::default()), Model::new());
    for number in 0..MANY {
        fixture.put(&mut model, number, Some(&[number as u8; BYTES]));
    }
    fixture.flush();
    let tables = fixture.stat("tables");
    let mut cursor = fixture.keyspace.clone().cursor(ALL);
    assert!(step(&mut *cursor, false).is_some());
    fixture.disk.space_limit(fixture.disk.space_used() + (1 << 20));
    let error = fixture.keyspace.convert_to_pages(&key(0), &key(MANY)).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    assert!(
        fixture.stat("paged_ranges") == 1 && fixture.stat("tables") < tables,
        "{} tables are left",
        fixture.stat("tables")
    );
    fixture.expect(&model);
    drop(cursor);
    fixture.keyspace.convert_to_pages(&key(0), &key(MANY)).unwrap();
    assert_eq!((fixture.stat("paged_ranges"), fixture.stat("tables")), (1, 0));
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}
