//! Conversions of ranges to pages and back to tables, mostly by the policy.

use std::{ops::Bound, time::Duration};

use ecotone_engine::contract::{Compactable, ConversionReason, Engine, Get, Hint, Hintable, Ordered, Range, Shape};
use ecotone_lsm::Split;
use ecotone_substrate::{Error, limits::MAX_KEY};

use super::fixture::{ALL, Fixture, Model, key, step};
use crate::AdaptiveOptions;

const KEYS: u32 = 4000;
const SECOND: Duration = Duration::from_secs(1);

/// Keys in several runs and levels.
pub(super) fn layered(options: AdaptiveOptions) -> (Fixture, Model) {
    layered_with(options, 100)
}

/// The same with values of so many bytes. Large ones make it costly to convert what is not scanned.
pub(super) fn layered_with(options: AdaptiveOptions, bytes: usize) -> (Fixture, Model) {
    let (mut fixture, mut model) = (Fixture::new(4, options), Model::new());
    for round in 0..3u8 {
        for number in (0..KEYS).filter(|number| number % 3 == u32::from(round) || round == 0) {
            fixture.put(&mut model, number, Some(&vec![round; bytes]));
        }
        fixture.flush();
        fixture.pass(Duration::ZERO);
    }
    (fixture, model)
}

pub(super) fn range(lower: u32, upper: u32) -> Range {
    (Bound::Included(key(lower)), Bound::Excluded(key(upper)))
}

/// Makes a hundred scans a second, of twenty records each, that begin in a range, and a tick each tenth of a second.
pub(super) fn scan(fixture: &Fixture, range: (u32, u32), seconds: u32) {
    scan_by_tenths(fixture, range, 10 * seconds, 10);
}

/// Makes so many scans each tenth of a second.
fn scan_by_tenths(fixture: &Fixture, (lower, upper): (u32, u32), tenths: u32, scans: u32) {
    for number in 0..scans * tenths {
        let from = lower + number.wrapping_mul(2_654_435_761) % (upper - lower);
        let mut cursor = fixture.keyspace.clone().cursor((Bound::Included(key(from)), Bound::Unbounded));
        (0..20).for_each(|_| assert!(step(&mut *cursor, false).is_some()));
        drop(cursor);
        // Simulates more data than memory.
        fixture.keyspace.lsm.forget_blocks();
        if number % scans == scans - 1 {
            fixture.pass(SECOND / 10);
        }
    }
}

/// Makes one scan a second.
fn scan_seldom(fixture: &Fixture, (lower, upper): (u32, u32), seconds: u32) {
    for second in 0..seconds {
        assert!(
            step(&mut *fixture.keyspace.clone().cursor(range(lower + second % (upper - lower), KEYS)), false).is_some()
        );
        fixture.pass(SECOND);
    }
}

/// Whether a range has pages and no visible table records.
pub(super) fn is_pages(fixture: &Fixture, lower: u32, upper: u32) -> bool {
    let range_size = fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(lower), &key(upper));
    range_size.bytes == 0 && range_size.pages > 0
}

pub(super) fn shapes(fixture: &Fixture) -> Vec<(Shape, Option<ConversionReason>)> {
    fixture.keyspace.shapes().into_iter().map(|shape| (shape.shape, shape.reason)).collect()
}

#[test]
fn a_range_that_is_scanned_becomes_pages_and_the_rest_stays_tables() {
    let (mut fixture, model) = layered(AdaptiveOptions::default());
    scan_by_tenths(&fixture, (1000, 1400), 1, 1);
    assert!(shapes(&fixture).is_empty(), "one scan pays for nothing");
    scan(&fixture, (1000, 1400), 60);
    assert!(is_pages(&fixture, 1150, 1350), "{:?}", fixture.keyspace.shapes());
    assert!(fixture.stat("ranges_to_pages") >= 1);
    let range_size = |lower, upper| fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(lower), &key(upper));
    assert_eq!((range_size(0, 800).pages, range_size(1800, KEYS).pages), (0, 0), "{:?}", fixture.keyspace.shapes());
    assert!(shapes(&fixture).iter().all(|shape| *shape == (Shape::Pages, Some(ConversionReason::Scans))));
    fixture.expect(&model);
    fixture.reopen();
    assert!(is_pages(&fixture, 1150, 1350));
    fixture.expect(&model);
}

/// The scans read the last records, downwards from the end of all keys.
#[test]
fn a_range_that_is_scanned_down_becomes_pages() {
    let (fixture, model) = layered(AdaptiveOptions::default());
    for number in 0..6000 {
        let mut cursor = fixture.keyspace.clone().cursor(ALL);
        (0..20).for_each(|_| assert!(step(&mut *cursor, true).is_some()));
        drop(cursor);
        fixture.keyspace.lsm.forget_blocks();
        if number % 10 == 9 {
            fixture.pass(SECOND / 10);
        }
    }
    assert!(is_pages(&fixture, KEYS - 20, KEYS) && !is_pages(&fixture, 0, 1000), "{:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
}

/// A phase of some seconds is enough.
#[test]
fn a_short_phase_is_noticed() {
    let (mut fixture, mut model) = layered(AdaptiveOptions::default());
    (1000..1400).step_by(3).for_each(|number| fixture.put(&mut model, number, Some(&[9; 100])));
    let is_noticed = (0..5).any(|_| {
        scan_by_tenths(&fixture, (1000, 1400), 10, 100);
        is_pages(&fixture, 1050, 1350)
    });
    assert!(is_noticed, "{:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
}

/// Pages would not last: the next flush would bring records above them again.
#[test]
fn a_range_that_is_written_a_lot_and_seldom_scanned_stays_tables() {
    let (mut fixture, mut model) = layered(AdaptiveOptions::default());
    for round in 0..20 {
        (1000..1400).for_each(|number| fixture.put(&mut model, number, Some(&[round; 100])));
        fixture.flush();
        scan_by_tenths(&fixture, (1000, 1400), 1, 5);
    }
    assert_eq!((fixture.stat("ranges_to_pages"), shapes(&fixture)), (0, vec![]));
    (1000..1400).step_by(3).for_each(|number| fixture.put(&mut model, number, Some(&[99; 100])));
    fixture.flush();
    scan(&fixture, (1000, 1400), 120);
    assert!(is_pages(&fixture, 1150, 1350), "scans pay as they do elsewhere: {:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
}

/// A keyspace that was in three runs and levels, fits into memory as one run but not as pages, and was merged into one
/// run because of scans.
fn merged(split: Split) -> (Fixture, Model) {
    let options = AdaptiveOptions { split, ..AdaptiveOptions::default() };
    let (mut fixture, mut model) = (Fixture::with_memory(6, options, 14 << 20), Model::new());
    for round in 0..3u8 {
        for number in (0..KEYS).filter(|number| number % 3 == u32::from(round) || round == 0) {
            fixture.put(&mut model, number, Some(&[round; 1500]));
        }
        fixture.flush();
        fixture.pass(Duration::ZERO);
    }
    assert!(!is_one_run(&fixture));
    scan(&fixture, (0, KEYS - 20), 200);
    assert!(
        fixture.stat("ranges_to_one_run") > 0 && fixture.stat("ranges_to_pages") == 0,
        "{:?}",
        fixture.keyspace.stats()
    );
    assert!(is_one_run(&fixture) && shapes(&fixture).is_empty());
    fixture.expect(&model);
    (fixture, model)
}

/// A small remainder may stay in each run and level.
fn is_one_run(fixture: &Fixture) -> bool {
    let range_size = fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(0), &key(KEYS));
    range_size.bytes - range_size.largest_run < range_size.largest_run / 12
}

/// A few new records do not cause a merge, whatever scans lose. Many do, with at most three times their bytes read.
#[test]
#[ignore = "long"]
fn what_was_merged_is_merged_again_for_enough() {
    let (mut fixture, mut model) = merged(Split::Side);
    for (part, is_enough) in [(400, false), (3, true)] {
        for number in (0..KEYS).step_by(part) {
            fixture.put(&mut model, number, Some(&[7; 1500]));
        }
        fixture.flush();
        let stats = || (fixture.stat("ranges_to_one_run"), fixture.stat("conversion_bytes"));
        let before = stats();
        scan(&fixture, (0, KEYS - 20), 200);
        assert_eq!(stats().0 > before.0, is_enough);
        let most = 3 * fixture.keyspace.lsm.lsm().range_sizes().merged_size(&key(0), &key(KEYS), u64::MAX);
        assert!(stats().1 - before.1 <= most);
    }
    assert!(is_one_run(&fixture));
    fixture.expect(&model);
}

#[test]
#[ignore = "long"]
fn what_is_as_large_as_memory_is_merged_where_places_become_pages_one_by_one() {
    merged(Split::Down);
}

#[test]
#[ignore = "long"]
fn what_is_as_large_as_memory_is_merged() {
    let (mut fixture, mut model) = merged(Split::Side);
    // A tenth of the keys fits into memory as pages.
    (0..KEYS / 10).step_by(3).for_each(|number| fixture.put(&mut model, number, Some(&[9; 1500])));
    fixture.flush();
    scan_seldom(&fixture, (0, KEYS / 10), 6000);
    scan(&fixture, (0, KEYS / 10), 120);
    assert!(is_pages(&fixture, 70, KEYS / 10 - 50), "{:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
}

/// Ranges that are pages stay pages. The rest becomes one run.
#[test]
#[ignore = "long"]
fn what_is_as_large_as_memory_is_merged_beside_a_part_that_is_pages() {
    let (mut fixture, mut model) = merged(Split::Side);
    fixture.keyspace.hint(&range(0, KEYS / 10), Hint::ReadMostly).unwrap();
    fixture.pass(SECOND);
    fixture.keyspace.hint(&range(0, KEYS / 10), Hint::Auto).unwrap();
    assert!(is_pages(&fixture, 0, KEYS / 10));
    let stats = |fixture: &Fixture| (fixture.stat("ranges_to_one_run"), fixture.stat("conversion_bytes"));
    let before = stats(&fixture);
    (0..KEYS).step_by(3).for_each(|number| fixture.put(&mut model, number, Some(&[8; 1500])));
    fixture.flush();
    let range_size = |lower, upper| fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(lower), &key(upper));
    assert!(range_size(0, KEYS / 10).bytes > 0, "the flush went into its pages");
    scan(&fixture, (0, KEYS - 20), 400);
    assert!(stats(&fixture).0 > before.0 && is_pages(&fixture, 0, KEYS / 10), "{:?}", fixture.keyspace.shapes());
    let rest = range_size(KEYS / 10, KEYS);
    assert!(
        rest.pages == 0 && rest.bytes - rest.largest_run < rest.largest_run / 4,
        "{rest:?} {:?}",
        fixture.keyspace.shapes()
    );
    assert!(stats(&fixture).1 - before.1 <= 3 * rest.largest_run);
    fixture.expect(&model);
}

/// Whether a table of the newest run has keys on both sides of a key.
fn is_over(fixture: &Fixture, key: &[u8]) -> bool {
    fixture.keyspace.lsm.lsm().is_in_newest_table(key)
}

/// No table of L0 crosses the bounds of the hot range, so that the tables within can be compacted alone.
#[test]
fn what_is_flushed_is_cut_where_scans_begin_to_go() {
    let (mut fixture, mut model) = layered_with(AdaptiveOptions::default(), 1000);
    let mut flush = |fixture: &mut Fixture| {
        (0..KEYS).step_by(100).for_each(|number| fixture.put(&mut model, number, Some(&[9; 50])));
        fixture.flush();
    };
    flush(&mut fixture);
    assert!(is_over(&fixture, &key(1000)) && is_over(&fixture, &key(1400)));
    scan(&fixture, (1000, 1400), 20);
    let hot_bounds = fixture.keyspace.controller.hot_bounds();
    let is_about = |number: usize, expected: u32| {
        key(expected - 50) < hot_bounds[number] && hot_bounds[number] < key(expected + 50)
    };
    assert!(hot_bounds.len() == 2 && is_about(0, 1000) && is_about(1, 1400), "{hot_bounds:?}");
    flush(&mut fixture);
    assert!(hot_bounds.iter().all(|bound| !is_over(&fixture, bound)));
    fixture.expect(&model);
}

#[test]
fn two_hot_ranges_become_pages() {
    let (fixture, model) = layered(AdaptiveOptions::default());
    for _ in 0..40 {
        scan(&fixture, (500, 700), 1);
        scan(&fixture, (3000, 3200), 1);
    }
    assert!(is_pages(&fixture, 580, 640) && is_pages(&fixture, 3080, 3140), "{:?}", fixture.keyspace.shapes());
    assert!(!is_pages(&fixture, 1500, 2500), "{:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
}

#[test]
fn nothing_is_adapted_where_nobody_wants_it() {
    let (fixture, model) = layered(AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() });
    scan(&fixture, (1000, 1400), 60);
    assert_eq!((shapes(&fixture), fixture.stat("paged_ranges")), (vec![], 0));
    fixture.expect(&model);
}

#[test]
fn points_and_scans_of_one_source_pay_for_nothing() {
    let (mut fixture, mut model) = (Fixture::new(5, AdaptiveOptions::default()), Model::new());
    (0..KEYS).for_each(|number| fixture.put(&mut model, number, Some(&[1; 100])));
    fixture.flush();
    fixture.keyspace.compact(&mut |_, _| ()).unwrap();
    scan(&fixture, (1000, 1400), 60);
    (0..20_000).for_each(|number| assert!(fixture.keyspace.get(&key(number % KEYS)).unwrap().is_some()));
    scan(&fixture, (1000, 1400), 10);
    assert_eq!(fixture.stat("paged_ranges"), 0);
    fixture.expect(&model);
}

#[test]
fn a_range_that_scans_have_left_becomes_tables_again() {
    let (fixture, model) = layered(AdaptiveOptions::default());
    scan(&fixture, (1000, 1400), 80);
    assert!(is_pages(&fixture, 1150, 1350));
    scan_seldom(&fixture, (3000, 3010), 2400);
    assert!(!is_pages(&fixture, 1150, 1350) && fixture.stat("ranges_to_tables") > 0, "{:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
}

/// A day passes with writes and point reads, but no scans.
#[test]
fn a_range_that_nobody_scans_is_not_left() {
    let (mut fixture, mut model) = layered(AdaptiveOptions::default());
    scan(&fixture, (1000, 1400), 80);
    assert!(is_pages(&fixture, 1150, 1350));
    for round in 0..20 {
        fixture.put(&mut model, 3000 + round, Some(b"by day"));
        fixture.flush();
        assert!(fixture.keyspace.get(&key(1200)).unwrap().is_some());
        fixture.pass(3600 * SECOND);
        (0..12).for_each(|_| fixture.tick());
    }
    scan(&fixture, (1150, 1200), 1);
    assert!(is_pages(&fixture, 1150, 1350) && fixture.stat("ranges_to_tables") == 0, "{:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
}

/// The same for a range that an earlier session converted. A cold range with a hint for pages stays pages.
#[test]
fn a_range_of_an_earlier_life_that_scans_have_left_becomes_tables_again() {
    let (mut fixture, model) = layered(AdaptiveOptions::default());
    fixture.keyspace.hint(&range(1000, 1400), Hint::ReadMostly).unwrap();
    fixture.keyspace.hint(&range(2000, 2400), Hint::ReadMostly).unwrap();
    fixture.pass(SECOND);
    fixture.reopen();
    assert!(is_pages(&fixture, 1000, 1400) && is_pages(&fixture, 2000, 2400));
    fixture.keyspace.hint(&range(1000, 1400), Hint::ReadMostly).unwrap();
    scan(&fixture, (1000, 2400), 40);
    scan_seldom(&fixture, (3000, 3010), 2400);
    assert!(is_pages(&fixture, 1000, 1400) && !is_pages(&fixture, 2150, 2350), "{:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
}

/// A part of the cold range cannot become tables. The range stays pages, and the conversion is not repeated at once.
#[test]
fn a_cold_range_that_has_no_space_to_become_tables_stays_pages() {
    let (mut fixture, model) = layered(AdaptiveOptions::default());
    fixture.keyspace.hint(&range(1000, 2400), Hint::ReadMostly).unwrap();
    fixture.pass(SECOND);
    fixture.reopen();
    fixture.keyspace.hint(&range(1700, 2000), Hint::ReadMostly).unwrap();
    scan(&fixture, (1000, 2400), 10);
    fixture.disk.space_limit(fixture.disk.space_used());
    scan_seldom(&fixture, (3000, 3010), 2400);
    assert!(
        fixture.stat("conversions_given_up") > 0 && is_pages(&fixture, 1000, 2400),
        "{:?}",
        fixture.keyspace.shapes()
    );
    fixture.disk.space_limit(u64::MAX);
    fixture.expect(&model);
}

/// The bounds of all paged ranges share a size limit. Ranges beyond the limit are not converted, and everything else
/// goes on.
#[test]
fn more_ranges_than_a_root_has_room_for_are_put_off() {
    let (mut fixture, mut model) =
        (Fixture::new(8, AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() }), Model::new());
    let long = |number: u32| [&key(number)[..], &[b'k'; MAX_KEY - 8]].concat();
    for number in 0..1200 {
        fixture.write(&long(number), Some(b"value"));
        model.insert(long(number), b"value".to_vec());
    }
    fixture.flush();
    let refused =
        (0..600).find_map(|number| fixture.keyspace.convert_to_pages(&long(2 * number), &long(2 * number + 1)).err());
    assert!(matches!(refused, Some(Error::Limit { limit: 1_048_576, .. })), "{refused:?}");
    let paged_ranges = fixture.stat("paged_ranges");
    fixture.keyspace.hint(&(Bound::Included(long(1150)), Bound::Excluded(long(1160))), Hint::ReadMostly).unwrap();
    fixture.pass(SECOND);
    assert_eq!((fixture.stat("paged_ranges"), fixture.stat("conversions_given_up")), (paged_ranges, 1));
    fixture.environment.health.check().unwrap();
    fixture.write(&long(1155), None);
    model.remove(&long(1155));
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

/// Idle compaction does not run beside scans and point reads of pages, nor beside in-place writes.
#[test]
fn who_reads_pages_or_writes_in_place_uses_the_keyspace() {
    let (mut fixture, mut model) = layered(AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() });
    fixture.keyspace.hint(&range(0, 2000), Hint::ReadMostly).unwrap();
    fixture.pass(SECOND);
    fixture.keyspace.compact(&mut |_, _| ()).unwrap();
    for round in 0..2u8 {
        (3000..3050).for_each(|number| fixture.put(&mut model, number, Some(&[round; 50])));
        fixture.flush();
    }
    assert!(is_pages(&fixture, 0, 2000) && fixture.stat("runs") == 2);
    for number in 0..15 {
        assert!(step(&mut *fixture.keyspace.clone().cursor(range(number, 1000)), false).is_some());
        fixture.tick();
    }
    for number in 0..15 {
        assert!(fixture.keyspace.get(&key(number)).unwrap().is_some());
        fixture.tick();
    }
    // A value of the same length is overwritten in place.
    for round in 0..15 {
        fixture.put(&mut model, 3000, Some(&[round; 50]));
        fixture.tick();
    }
    assert_eq!(fixture.stat("runs"), 2);
    let is_compacted = (0..60).any(|_| {
        fixture.tick();
        fixture.stat("runs") == 0
    });
    assert!(is_compacted, "nobody uses the keyspace");
    fixture.expect(&model);
}

/// Ranges that scans have paid for are converted after the scans end.
#[test]
fn what_is_worth_adapting_is_adapted_when_nobody_uses_the_keyspace() {
    let (fixture, model) = layered(AdaptiveOptions::default());
    for number in 0..6000 {
        assert!(step(&mut *fixture.keyspace.clone().cursor(range(1000 + number % 400, 2000)), false).is_some());
        fixture.keyspace.lsm.forget_blocks();
    }
    assert_eq!(fixture.stat("ranges_to_pages"), 0);
    let is_adapted = (0..60).any(|_| {
        fixture.tick();
        is_pages(&fixture, 1000, 1400)
    });
    assert!(is_adapted, "{:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
}
