//! Conversions in an idle keyspace.

use std::time::Duration;

use ecotone_engine::contract::{Compactable, ConversionReason, Hint, Hintable, Maintained, Ordered, Shape};

use super::{
    controller::{is_pages, layered, range, shapes},
    fixture::{key, step},
};
use crate::{AdaptiveOptions, Insert};

const KEYS: u32 = 4000;
const SECOND: Duration = Duration::from_secs(1);

/// Writes above pages are converted once the keyspace is idle, however little scans have lost to them. A range without
/// scans stays as it is.
#[test]
fn a_burst_is_merged_when_nobody_uses_the_keyspace() {
    for is_scanned in [true, false] {
        let (mut fixture, mut model) = layered(AdaptiveOptions { insert: Insert::Batch, ..AdaptiveOptions::default() });
        fixture.keyspace.hint(&range(1000, 1400), Hint::ReadMostly).unwrap();
        fixture.pass(SECOND);
        fixture.keyspace.hint(&range(1000, 1400), Hint::Auto).unwrap();
        // One run, which needs no compaction.
        fixture.keyspace.compact(&mut |_, _| ()).unwrap();
        (1000..1100).for_each(|number| fixture.put(&mut model, number, Some(&[7; 100])));
        fixture.flush();
        if is_scanned {
            assert!(step(&mut *fixture.keyspace.clone().cursor(range(1100, 1200)), false).is_some());
        }
        fixture.pass(SECOND);
        assert!(!is_pages(&fixture, 1000, 1400), "{:?}", fixture.keyspace.shapes());
        (0..30).for_each(|_| fixture.tick());
        assert_eq!(is_pages(&fixture, 1000, 1400), is_scanned, "{:?}", fixture.keyspace.shapes());
        assert_eq!(shapes(&fixture).contains(&(Shape::Pages, Some(ConversionReason::Idle))), is_scanned);
        fixture.expect(&model);
    }
}

#[test]
fn what_was_deleted_above_pages_ends_when_nobody_uses_the_keyspace() {
    let (mut fixture, mut model) = layered(AdaptiveOptions { insert: Insert::Batch, ..AdaptiveOptions::default() });
    fixture.keyspace.hint(&range(0, KEYS), Hint::ReadMostly).unwrap();
    fixture.pass(SECOND);
    fixture.keyspace.hint(&range(0, KEYS), Hint::Auto).unwrap();
    assert!(is_pages(&fixture, 0, KEYS), "{:?}", fixture.keyspace.shapes());
    let pages = fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(0), &key(KEYS)).pages;
    (0..KEYS).filter(|number| number % 50 > 0).for_each(|number| fixture.put(&mut model, number, None));
    fixture.flush();
    (0..60).for_each(|_| fixture.tick());
    let left = fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(0), &key(KEYS));
    assert!(left.bytes == 0 && 4 * left.pages < pages, "{left:?} of {pages}");
    assert!(fixture.keyspace.reclaimable_deletes() > 0, "a checkpoint gives their space back");
    fixture.expect(&model);
}
