//! Conversions to pages that several threads share in parts.

use super::fixture::{Fixture, Model, key};
use crate::{AdaptiveOptions, Insert};

const KEYS: u32 = 3000;

/// Flushes write runs only, no pages.
fn options() -> AdaptiveOptions {
    AdaptiveOptions { insert: Insert::Batch, ..AdaptiveOptions::default() }
}

/// Converts all keys to pages, and then twice the records written over them. A third of those are tombstones.
fn convert_thrice(fixture: &mut Fixture) -> Model {
    let mut model = Model::new();
    for round in 0..3_u8 {
        for number in (0..KEYS).filter(|number| round == 0 || number % 4 == u32::from(round)) {
            let value = (round == 0 || number % 3 > 0).then(|| vec![round; 90]);
            fixture.put(&mut model, number, value.as_deref());
        }
        fixture.flush();
        fixture.keyspace.convert_to_pages(&key(0), &key(KEYS)).unwrap();
        assert_eq!(fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(0), &key(KEYS)).bytes, 0);
        fixture.expect(&model);
    }
    model
}

/// Bounds of parts are no bounds of paged ranges. They are not pinned after the conversion.
#[test]
fn an_absorption_in_parts_comes_to_what_the_whole_would() {
    let mut fixture = Fixture::new(1, options());
    let model = convert_thrice(&mut fixture);
    let (parts, segments) = (fixture.stat("conversion_parts"), fixture.stat("segments"));
    assert!(parts >= 12, "{parts} parts");
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    assert!(fixture.keyspace.tree.reorganise(&keys, false).unwrap().is_any);
    assert!(
        fixture.stat("segments") < segments && fixture.stat("paged_ranges") == 1,
        "{} of {segments}",
        fixture.stat("segments")
    );
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

#[test]
fn everything_is_the_same_whether_one_thread_converts_it_or_several() {
    for workers in [1, 3, 6] {
        convert_thrice(&mut Fixture::threaded(u64::from(workers as u32), options(), workers));
    }
}
