//! Ranges whose tables are reactivated, and ranges that are converted back to tables.

use std::iter;

use ecotone_engine::contract::{Engine, Ordered};
use ecotone_lsm::manifest::RunId;
use ecotone_tree::TreeOptions;

use super::fixture::{ALL, Fixture, Model, key, step};
use crate::AdaptiveOptions;

const KEYS: u32 = 2400;

fn put(fixture: &mut Fixture, model: &mut Model, numbers: impl Iterator<Item = u32>, value: Option<&[u8]>) {
    numbers.for_each(|number| fixture.put(model, number, value));
    fixture.flush();
}

/// So many keys, with one paged range.
fn covered(keys: u32, (lower, upper): (u32, u32)) -> (Fixture, Model) {
    let tree = TreeOptions::default().segment_pages(4);
    let (mut fixture, mut model) =
        (Fixture::new(2, AdaptiveOptions { tree, ..AdaptiveOptions::default() }), Model::new());
    put(&mut fixture, &mut model, 0..keys, Some(&[0; 100]));
    fixture.keyspace.convert_to_pages(&key(lower), &key(upper)).unwrap();
    assert_eq!(fixture.stat("paged_ranges"), 1);
    (fixture, model)
}

fn in_pages(fixture: &Fixture, number: u32) -> bool {
    fixture.keyspace.tree.find_in_pages(&key(number), &mut Vec::new()).unwrap()
}

fn marks(fixture: &Fixture) -> Vec<Option<RunId>> {
    fixture.keyspace.lsm.lsm().paged_ranges().iter().map(|paged_range| paged_range.superseded_from()).collect()
}

#[test]
fn what_is_converted_to_tables_is_in_tables_alone_and_its_pages_are_free() {
    let (mut fixture, mut model) = covered(KEYS, (200, 2000));
    put(&mut fixture, &mut model, (0..KEYS).step_by(7), Some(&[1; 60]));
    put(&mut fixture, &mut model, (0..KEYS).step_by(11), None);
    let used = fixture.stat("used_bytes");
    fixture.keyspace.convert_to_tables(&key(0), &key(KEYS)).unwrap();
    assert_eq!((fixture.stat("paged_ranges"), (0..KEYS).filter(|number| in_pages(&fixture, *number)).count()), (0, 0));
    assert!(fixture.stat("segments") < 10, "a page for each piece: {}", fixture.stat("segments"));
    fixture.expect(&model);
    // Freed pages are reusable when the checkpoint is durable.
    fixture.reopen();
    assert!(fixture.stat("used_bytes") < used / 4, "{} bytes of {used}", fixture.stat("used_bytes"));
    fixture.expect(&model);
    fixture.keyspace.convert_to_pages(&key(0), &key(KEYS)).unwrap();
    assert_eq!((fixture.stat("paged_ranges"), fixture.stat("tables")), (1, 0));
    fixture.expect(&model);
}

/// A part of a paged range becomes tables, and the other parts stay as they are.
#[test]
fn a_part_of_a_paged_range_is_converted_to_tables_between_two_fences() {
    let (mut fixture, mut model) = covered(KEYS, (0, KEYS));
    put(&mut fixture, &mut model, (0..KEYS).step_by(7), Some(&[1; 60]));
    fixture.keyspace.convert_to_tables(&key(900), &key(1100)).unwrap();
    assert_eq!(fixture.stat("paged_ranges"), 2);
    assert!(
        (900..1100).all(|number| !in_pages(&fixture, number)) && in_pages(&fixture, 100) && in_pages(&fixture, 2300)
    );
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

/// Trap 5: a reader with a version in which a range is paged finds its pages, however long the reader takes. Nothing
/// waits for the reader.
#[test]
fn trap_05_pages_stay_as_long_as_somebody_has_a_version_from_before() {
    let (mut fixture, model) = covered(KEYS, (200, 2000));
    let mut cursor = fixture.keyspace.clone().cursor(ALL);
    let mut records: Vec<_> = (0..500).filter_map(|_| step(&mut *cursor, false)).collect();
    fixture.keyspace.convert_to_tables(&key(0), &key(KEYS)).unwrap();
    fixture.keyspace.convert_to_pages(&key(0), &key(KEYS)).unwrap();
    let is_paged = |fixture: &Fixture, number: u32| {
        fixture.keyspace.lsm.lsm().paged_ranges().visibility_at(&key(number)).has_pages
    };
    assert!(
        in_pages(&fixture, 700) && !is_paged(&fixture, 700),
        "it is not covered again before its pages are cleared"
    );
    assert!(is_paged(&fixture, 100) && is_paged(&fixture, 2100));
    fixture.expect(&model);
    records.extend(iter::from_fn(|| step(&mut *cursor, false)));
    assert!(records.into_iter().eq(model.clone()));
    drop(cursor);
    fixture.flush();
    while fixture.environment.scheduler.run_one() {}
    assert!(!in_pages(&fixture, 700));
    fixture.keyspace.convert_to_pages(&key(0), &key(KEYS)).unwrap();
    assert!(in_pages(&fixture, 700) && is_paged(&fixture, 700));
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

/// Pages that are not cleared when the database is closed are cleared by the next opening.
#[test]
fn what_was_not_cleared_goes_at_the_next_opening() {
    let (mut fixture, model) = covered(KEYS, (200, 2000));
    let mut cursor = fixture.keyspace.clone().cursor(ALL);
    (0..500).for_each(|_| assert!(step(&mut *cursor, false).is_some()));
    fixture.keyspace.convert_to_tables(&key(0), &key(KEYS)).unwrap();
    assert!(in_pages(&fixture, 700));
    fixture.reopen();
    assert!(!in_pages(&fixture, 700) && fixture.keyspace.tree.is_cleared(b"", None));
    fixture.expect(&model);
}

/// A burst of few records over many pages is compacted at the pace of an lsm.
#[test]
fn a_job_opens_what_it_would_have_to_rewrite_many_pages_for() {
    let (mut fixture, mut model) = covered(KEYS, (0, KEYS));
    for round in 1..=8 {
        put(&mut fixture, &mut model, (0..KEYS).step_by(60), Some(&[round; 100]));
    }
    let before = fixture.stat("used_bytes");
    assert!(fixture.keyspace.lsm.lsm().run_compaction().unwrap());
    assert_eq!(
        (fixture.stat("compactions"), fixture.stat("runs"), fixture.stat("levels"), fixture.stat("used_bytes")),
        (1, 0, 1, before)
    );
    assert!(marks(&fixture).contains(&None), "all tables count");
    fixture.expect(&model);
    put(&mut fixture, &mut model, (0..KEYS).step_by(9), None);
    fixture.reopen();
    fixture.expect(&model);
    fixture.keyspace.convert_to_pages(b"a", b"z").unwrap();
    assert_eq!((fixture.stat("paged_ranges"), fixture.stat("tables")), (1, 0));
    fixture.expect(&model);
}

/// Tables are reactivated only where the job has records of the paged range.
#[test]
fn a_job_opens_a_part_of_a_cover() {
    let (mut fixture, mut model) = covered(KEYS, (0, KEYS));
    for round in 1..=8 {
        put(&mut fixture, &mut model, (300..2100).step_by(90), Some(&[round; 10]));
    }
    let lsm = fixture.keyspace.lsm.lsm();
    assert!(lsm.run_compaction().unwrap(), "runs become one");
    assert_eq!((fixture.stat("runs"), marks(&fixture).len()), (5, 1));
    assert!(lsm.compact_range_step((&key(0), &key(KEYS)), u64::MAX, || ()).unwrap().is_some());
    let marks = marks(&fixture);
    assert!(marks.len() == 3 && marks[0].is_some() && marks[1].is_none() && marks[2].is_some(), "{marks:?}");
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

/// No pages of a dropped keyspace are cleared.
#[test]
fn a_keyspace_can_be_dropped_while_something_is_to_be_cleared() {
    let (fixture, _) = covered(KEYS, (200, 2000));
    let mut cursor = fixture.keyspace.clone().cursor(ALL);
    assert!(step(&mut *cursor, false).is_some());
    fixture.keyspace.convert_to_tables(&key(0), &key(KEYS)).unwrap();
    fixture.keyspace.mark_dropped();
    drop(cursor);
    while fixture.environment.scheduler.run_one() {}
    fixture.environment.health.check().unwrap();
}
