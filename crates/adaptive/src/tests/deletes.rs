//! Deletes of records that are in pages.

use ecotone_engine::contract::Compactable;

use super::fixture::{Fixture, Model, key};
use crate::AdaptiveOptions;

const KEYS: u32 = 1200;

/// Whether the pages have a key, without the tables above.
fn in_pages(fixture: &Fixture, key: &[u8]) -> bool {
    fixture.keyspace.tree.find_in_pages(key, &mut Vec::new()).unwrap()
}

/// All keys, with those in the middle in pages alone.
fn covered() -> (Fixture, Model) {
    let (mut fixture, mut model) = (Fixture::new(1, AdaptiveOptions::default()), Model::new());
    for number in 0..KEYS {
        fixture.put(&mut model, number, Some(&[1; 100]));
    }
    fixture.flush();
    fixture.keyspace.convert_to_pages(&key(400), &key(800)).unwrap();
    (fixture, model)
}

/// Trap 9: no table outside the job has the key, and yet the pages have an older record.
#[test]
fn trap_09_a_tombstone_over_pages_ends_in_these() {
    let (mut fixture, mut model) = covered();
    for number in (0..KEYS).step_by(2) {
        fixture.put(&mut model, number, None);
    }
    fixture.flush();
    fixture.expect(&model);
    assert!(in_pages(&fixture, &key(600)), "what is deleted goes with an absorption");
    fixture.keyspace.compact(&mut |_, _| ()).unwrap();
    fixture.expect(&model);
    assert!((400..800).all(|number| in_pages(&fixture, &key(number)) == (number % 2 == 1)));
    fixture.reopen();
    fixture.expect(&model);
}

/// A superseded table record does not come back when older tables are reactivated, or when the range is no longer
/// paged.
#[test]
fn trap_09_what_did_not_count_is_gone_when_tables_count_again() {
    for is_opened in [true, false] {
        let (mut fixture, mut model) = covered();
        for number in 400..800 {
            fixture.put(&mut model, number, None);
        }
        fixture.flush();
        fixture.keyspace.convert_to_pages(&key(400), &key(800)).unwrap();
        assert!((400..800).all(|number| !in_pages(&fixture, &key(number))));
        let records = fixture.stat("table_records");
        assert!(records > model.len() as u64, "tables across the bounds have some that do not count");
        if is_opened {
            fixture.keyspace.reactivate(&key(400), &key(800)).unwrap();
        } else {
            fixture.keyspace.convert_to_tables(&key(400), &key(800)).unwrap();
        }
        assert_eq!(fixture.stat("table_records"), model.len() as u64);
        fixture.expect(&model);
        fixture.reopen();
        fixture.expect(&model);
    }
}

/// A superseded table record does not come back in later compactions of its table, although its tombstone was dropped.
#[test]
fn trap_09_what_does_not_count_stays_away() {
    let (mut fixture, mut model) = covered();
    for number in 400..800 {
        fixture.put(&mut model, number, None);
    }
    fixture.flush();
    fixture.keyspace.convert_to_pages(&key(400), &key(800)).unwrap();
    fixture.expect(&model);
    // Tables across the bounds have visible and superseded records.
    for round in 0..3 {
        for number in (300..400).chain(800..900) {
            fixture.put(&mut model, number, Some(&[round; 60]));
        }
        fixture.flush();
        fixture.expect(&model);
    }
    fixture.keyspace.compact(&mut |_, _| ()).unwrap();
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}
