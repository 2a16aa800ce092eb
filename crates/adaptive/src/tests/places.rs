//! Ranges that become pages one run or level at a time (A8; adaptive.md, "Converting to pages").

use std::time::Duration;

use ecotone_engine::contract::{Compactable, ConversionReason, Hint, Hintable, Shape};
use ecotone_lsm::{Split, manifest::RunId};

use super::{
    controller::{self, is_pages, range, scan, shapes},
    fixture::{Fixture, Model, key},
};
use crate::{AdaptiveOptions, Insert};

const KEYS: u32 = 4000;
const SECOND: Duration = Duration::from_secs(1);

fn options(split: Split) -> AdaptiveOptions {
    AdaptiveOptions { split, insert: Insert::Batch, ..AdaptiveOptions::default() }
}

/// Keys in the last level, and newer records in runs.
fn layered(options: AdaptiveOptions) -> (Fixture, Model) {
    let (mut fixture, mut model) = (Fixture::new(4, options), Model::new());
    (0..KEYS).for_each(|number| fixture.put(&mut model, number, Some(&[0; 100])));
    fixture.flush();
    fixture.keyspace.compact(&mut |_, _| ()).unwrap();
    for round in 1..=3u8 {
        for number in (0..KEYS).skip(round.into()).step_by(7) {
            fixture.put(&mut model, number, (number % 5 > 0).then_some(&[round; 100]));
        }
        fixture.flush();
    }
    (fixture, model)
}

/// Conversions until a range has no visible table records.
fn conversion_steps(fixture: &Fixture, (lower, upper): (u32, u32)) -> usize {
    fixture.keyspace.lsm.lsm().range_sizes().conversion_steps(fixture.keyspace.options.split, &key(lower), &key(upper))
}

/// Bytes of visible table records in a range.
fn counting(fixture: &Fixture, (lower, upper): (u32, u32)) -> u64 {
    fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(lower), &key(upper)).bytes
}

/// Trap 12: records of newer runs and levels stay above the pages, tombstones too.
#[test]
fn trap_12_the_oldest_place_becomes_pages_first() {
    let (mut fixture, model) = layered(options(Split::Down));
    let part = (500, 3000);
    let passes = conversion_steps(&fixture, part);
    assert!(passes >= 4 && model[&key(1002)] == [1; 100] && !model.contains_key(&key(1010)), "{passes}");
    let mut left = counting(&fixture, part);
    for pass in 1..=passes {
        fixture.keyspace.convert_to_pages(&key(part.0), &key(part.1)).unwrap();
        let range_size = counting(&fixture, part);
        assert!(
            range_size < left && (range_size == 0) == (pass == passes),
            "{range_size} of {left} after {pass} of {passes}"
        );
        left = range_size;
        let in_pages = |number| {
            let mut value = Vec::new();
            fixture.keyspace.tree.find_in_pages(&key(number), &mut value).unwrap().then_some(value)
        };
        if pass == 1 {
            assert_eq!([1002, 1010].map(in_pages), [Some(vec![0; 100]), Some(vec![0; 100])]);
            let paged_ranges = fixture.keyspace.lsm.lsm().paged_ranges();
            assert!(paged_ranges.iter().all(|paged_range| paged_range.superseded_from() == Some(RunId::LAST)));
        }
        fixture.expect(&model);
        fixture.reopen();
        fixture.expect(&model);
    }
    assert_eq!((conversion_steps(&fixture, part), fixture.stat("paged_ranges")), (1, 1));
}

/// A compaction that would move records into superseded levels converts them to pages first, or reactivates the tables
/// there.
#[test]
fn what_is_above_a_floor_at_a_level_does_not_sink_below_it() {
    let (mut fixture, model) = layered(options(Split::Down));
    fixture.keyspace.convert_to_pages(&key(500), &key(3000)).unwrap();
    fixture.keyspace.compact(&mut |_, _| ()).unwrap();
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

#[test]
fn a_hint_goes_on_until_nothing_counts_above_pages() {
    let (mut fixture, mut model) = layered(AdaptiveOptions { adapt: 0, ..options(Split::Down) });
    fixture.keyspace.hint(&range(500, 3000), Hint::ReadMostly).unwrap();
    // Later records are in another run, which the hint does not ask for.
    fixture.put(&mut model, 600, Some(b"later"));
    let pieces = fixture.stat("ranges_to_pages");
    fixture.pass(SECOND);
    assert!(
        is_pages(&fixture, 500, 3000) && fixture.stat("ranges_to_pages") > pieces,
        "{:?}",
        fixture.keyspace.shapes()
    );
    assert!(
        shapes(&fixture).iter().all(|shape| *shape == (Shape::Pages, Some(ConversionReason::Hint))),
        "{:?}",
        fixture.keyspace.shapes()
    );
    fixture.expect(&model);
}

/// Each run or level is paid for. The next one is converted when scans have lost its cost again.
#[test]
fn scans_pay_for_one_place_after_the_other() {
    let (fixture, model) = controller::layered(options(Split::Down));
    let hot = (2450, 2850);
    let passes = conversion_steps(&fixture, hot);
    let begun = (0..60).any(|_| {
        scan(&fixture, hot, 1);
        fixture.stat("conversion_bytes") > 0
    });
    assert!(begun && passes > 1 && !is_pages(&fixture, 2500, 2800), "{passes} {:?}", fixture.keyspace.shapes());
    assert!(
        shapes(&fixture).contains(&(Shape::PagesBelowTables, Some(ConversionReason::Scans))),
        "{:?}",
        fixture.keyspace.shapes()
    );
    let bytes = fixture.stat("conversion_bytes");
    (0..10).for_each(|_| fixture.pass(SECOND));
    assert_eq!(fixture.stat("conversion_bytes"), bytes, "nobody scans");
    scan(&fixture, hot, 200);
    assert!(is_pages(&fixture, 2500, 2800), "{:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
}
