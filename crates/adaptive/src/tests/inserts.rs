//! Flushes that bring records into pages at once.

use std::{io::ErrorKind, iter, sync::Arc, thread};

use ecotone_engine::contract::{Engine, Ordered};
use ecotone_substrate::Seq;
use ecotone_testkit::{
    sim::{Phase, SteppedThread},
    thread_watch::ThreadWatch,
};
use ecotone_tree::{ForecastKind, TreeOptions};

use super::fixture::{ALL, Fixture, Model, key, step};
use crate::{AdaptiveOptions, Insert};

const KEYS: u32 = 1200;

fn put(fixture: &mut Fixture, model: &mut Model, numbers: impl Iterator<Item = u32>, value: Option<&[u8]>) {
    numbers.for_each(|number| fixture.put(model, number, value));
}

/// Keys with one paged range. All flushed records of that range go into its pages.
fn covered(lower: u32, upper: u32) -> (Fixture, Model) {
    let tree = TreeOptions::default().segment_pages(4);
    let options = AdaptiveOptions { tree, insert: Insert::Tree, ..AdaptiveOptions::default() };
    let (mut fixture, mut model) = (Fixture::new(3, options), Model::new());
    put(&mut fixture, &mut model, 0..KEYS, Some(&[0; 90]));
    fixture.flush();
    fixture.keyspace.convert_to_pages(&key(lower), &key(upper)).unwrap();
    (fixture, model)
}

fn in_pages(fixture: &Fixture, number: u32) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    fixture.keyspace.tree.find_in_pages(&key(number), &mut value).unwrap().then_some(value)
}

/// Bytes of visible table records in a range.
fn counting(fixture: &Fixture, lower: u32, upper: u32) -> u64 {
    fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(lower), &key(upper)).bytes
}

/// The first conversion of table records to pages counts no inserts. Flushes into pages do. Each flush of a memtable
/// may end an epoch of the forecast.
#[test]
fn the_forecast_is_of_inserts_and_not_of_what_moves() {
    const MANY: u32 = 110_000;
    let tree = TreeOptions::default().forecast(ForecastKind::Trend);
    let mut fixture =
        Fixture::unchecked(5, AdaptiveOptions { tree, insert: Insert::Tree, ..AdaptiveOptions::default() });
    (0..MANY).for_each(|number| fixture.write(&key(2 * number), Some(b"1")));
    fixture.flush();
    fixture.keyspace.convert_to_pages(&key(0), &key(2 * MANY)).unwrap();
    fixture.flush();
    assert_eq!(fixture.stat("forecast_kind"), ForecastKind::Off as u64, "it knows of no insert");
    (0..MANY).for_each(|number| fixture.write(&key(2 * number + 1), Some(b"1")));
    assert!(fixture.stat("records_flushed_to_pages") > 100_000);
    assert_eq!(fixture.stat("forecast_kind"), ForecastKind::Trend as u64);
}

#[test]
fn what_is_flushed_of_pages_is_in_these_and_the_rest_in_a_run() {
    let (mut fixture, mut model) = covered(400, 800);
    for round in 1..=3 {
        put(&mut fixture, &mut model, (0..KEYS).step_by(7), Some(&[round; 60]));
        put(&mut fixture, &mut model, (0..KEYS).step_by(11), None);
        put(&mut fixture, &mut model, [KEYS + 5].into_iter(), Some(b"behind"));
        fixture.flush();
        assert_eq!(counting(&fixture, 400, 800), 0, "round {round}");
        assert!((400..800).all(|number| in_pages(&fixture, number).as_ref() == model.get(&key(number))));
        assert!((0..400).all(|number| in_pages(&fixture, number).is_none()) && counting(&fixture, 0, 400) > 0);
        fixture.expect(&model);
    }
    assert!(fixture.stat("paged_ranges") == 1 && fixture.stat("records_flushed_to_pages") > 3 * 80);
    fixture.reopen();
    assert_eq!(counting(&fixture, 400, 800), 0);
    fixture.expect(&model);
}

/// Pages are older than a visible run above them.
#[test]
fn a_range_with_something_above_its_pages_gets_a_run_and_one_that_is_converted_again_does_not() {
    let (mut fixture, mut model) = covered(400, 800);
    fixture.keyspace.reactivate(&key(400), &key(800)).unwrap();
    put(&mut fixture, &mut model, 500..520, Some(&[1; 60]));
    fixture.flush();
    assert!(counting(&fixture, 400, 800) > 0 && in_pages(&fixture, 500) == Some(vec![0; 90]));
    fixture.expect(&model);
    fixture.keyspace.convert_to_pages(&key(400), &key(800)).unwrap();
    put(&mut fixture, &mut model, 500..520, Some(&[2; 60]));
    fixture.flush();
    assert_eq!((counting(&fixture, 400, 800), in_pages(&fixture, 500)), (0, Some(vec![2; 60])));
    fixture.expect(&model);
}

/// The watermark advances without a new table.
#[test]
fn a_flush_into_pages_alone_makes_a_version_and_no_table() {
    let (mut fixture, mut model) = covered(400, 800);
    let (before, tables) = (fixture.keyspace.lsm.lsm().current_version(), fixture.stat("tables"));
    put(&mut fixture, &mut model, (400..800).step_by(5), Some(&[1; 60]));
    assert!(fixture.keyspace.first_unflushed().is_some());
    fixture.flush();
    assert_eq!((fixture.keyspace.first_unflushed(), fixture.stat("tables")), (None, tables));
    assert!(!Arc::ptr_eq(&before, &fixture.keyspace.lsm.lsm().current_version()));
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

/// Trap 2: the cursor read a page before a flush brought records into the page. At the next batch of the cursor, the
/// memtable is gone.
#[test]
fn trap_02_a_cursor_finds_what_came_into_a_page_that_it_had_read() {
    for reverse in [false, true] {
        let (mut fixture, mut model) = covered(0, KEYS);
        put(&mut fixture, &mut model, (0..KEYS).step_by(2), None);
        fixture.flush();
        put(&mut fixture, &mut model, (0..KEYS).step_by(2), Some(&[1; 60]));
        let mut cursor = fixture.keyspace.clone().cursor(ALL);
        let mut records: Vec<_> = (0..3).filter_map(|_| step(&mut *cursor, reverse)).collect();
        fixture.flush();
        records.extend(iter::from_fn(|| step(&mut *cursor, reverse)));
        if reverse {
            records.reverse();
        }
        assert!(records.into_iter().eq(model));
    }
}

/// Trap 5: a reader with the version from before a flush without tables still finds the pages.
#[test]
fn trap_05_pages_stay_for_a_version_that_a_flush_without_tables_replaced() {
    let (mut fixture, mut model) = covered(0, KEYS);
    let mut cursor = fixture.keyspace.clone().cursor(ALL);
    let mut records: Vec<_> = (0..100).filter_map(|_| step(&mut *cursor, false)).collect();
    let seen = model.clone();
    put(&mut fixture, &mut model, [3].into_iter(), Some(&[1; 60]));
    fixture.flush();
    assert_eq!(counting(&fixture, 0, KEYS), 0);
    fixture.keyspace.convert_to_tables(&key(0), &key(KEYS)).unwrap();
    assert!(in_pages(&fixture, 700).is_some(), "somebody reads it");
    records.extend(iter::from_fn(|| step(&mut *cursor, false)));
    assert!(records.into_iter().eq(seen));
    drop(cursor);
    fixture.flush();
    while fixture.environment.scheduler.run_one() {}
    assert!(in_pages(&fixture, 700).is_none());
    fixture.expect(&model);
}

/// Trap 11: the flush fails at each of its I/Os. The memtable stays until all its records are in pages and in the run.
#[test]
fn trap_11_a_flush_into_pages_that_fails_changes_nothing_that_is_read() {
    let flush = |failure: Option<u64>| {
        let (mut fixture, mut model) = covered(300, 900);
        put(&mut fixture, &mut model, (0..KEYS).step_by(9), Some(&[1; 150]));
        put(&mut fixture, &mut model, (320..400).chain(850..950), None);
        let start = fixture.disk.io_index();
        failure.into_iter().for_each(|ahead| fixture.disk.fail_at(start + ahead, ErrorKind::Other));
        let flushed = fixture.keyspace.lsm.flush(Seq::MAX);
        assert_eq!(flushed.is_err(), failure.is_some(), "{failure:?}");
        let count = fixture.disk.io_index() - start;
        fixture.expect(&model);
        count
    };
    let all = flush(None);
    assert!(all > 20, "{all}");
    (0..all).for_each(|failure| _ = flush(Some(failure)));
}

/// Trap 15: the log is synced up to the records of a page before the page is written.
#[test]
fn trap_15_the_log_is_synced_before_a_page_is_written() {
    let (mut fixture, mut model) = covered(400, 800);
    put(&mut fixture, &mut model, (400..800).step_by(5), Some(&[1; 60]));
    let (tail, keyspace) = (fixture.tail(), fixture.keyspace.clone());
    thread::scope(|scope| {
        let mut flush = SteppedThread::new(scope, &[Phase::Pages], || keyspace.lsm.flush(Seq::MAX));
        assert!(flush.step().is_none());
        assert!(fixture.synced() >= tail, "{} of {tail}", fixture.synced());
        flush.finish().unwrap();
    });
    fixture.expect(&model);
}

/// Without space for pages there may be space for a run. Records that are in pages already are the same in the run.
#[test]
fn without_space_for_pages_all_goes_into_the_run() {
    let (mut fixture, mut model) = covered(0, KEYS);
    // Runs until the page file would have to grow.
    for round in 1.. {
        put(&mut fixture, &mut model, (0..KEYS).skip(usize::from(round)).step_by(70), Some(&[round; 1800]));
        let (keyspace, disk) = (fixture.keyspace.clone(), &fixture.disk);
        disk.space_limit(disk.space_used());
        thread::scope(|scope| {
            let mut flush =
                SteppedThread::new(scope, &[Phase::Directory, Phase::Table], || keyspace.lsm.flush(Seq::MAX));
            let over = flush.step();
            disk.space_limit(u64::MAX);
            over.unwrap_or_else(|| flush.finish()).unwrap();
        });
        if fixture.stat("page_flushes_given_up") > 0 {
            break;
        }
        assert!(round < 60 && counting(&fixture, 0, KEYS) == 0, "{} bytes of pages", fixture.stat("used_bytes"));
    }
    assert!(counting(&fixture, 0, KEYS) > 0);
    // The run is above the pages, so newer records have to go above the run.
    put(&mut fixture, &mut model, 0..KEYS, Some(b"newer"));
    fixture.flush();
    fixture.environment.health.check().unwrap();
    fixture.expect(&model);
    fixture.keyspace.convert_to_pages(&key(0), &key(KEYS)).unwrap();
    put(&mut fixture, &mut model, (0..KEYS).step_by(70), Some(&[99; 1800]));
    fixture.flush();
    assert_eq!(counting(&fixture, 0, KEYS), 0);
    fixture.expect(&model);
}

/// A conversion to tables that has read a page would miss records that come into the page later.
#[test]
fn what_is_flushed_while_its_range_is_converted_to_tables_goes_into_a_run() {
    for stop in 1.. {
        let (mut fixture, mut model) = covered(300, 900);
        let keyspace = fixture.keyspace.clone();
        let was_over = thread::scope(|scope| {
            let mut job =
                SteppedThread::new(scope, &[Phase::Pages, Phase::Table], || keyspace.convert_to_tables(b"a", b"z"));
            if (0..stop).any(|_| job.step().is_some()) {
                return true;
            }
            put(&mut fixture, &mut model, (0..KEYS).step_by(7), Some(&[1; 60]));
            // Only the lsm is flushed, because I/O on pages may be held.
            fixture.keyspace.lsm.flush(Seq::MAX).unwrap();
            job.finish().unwrap();
            false
        });
        fixture.expect(&model);
        if was_over {
            return assert!(stop > 10, "it has {stop} I/Os");
        }
    }
}

/// A conversion to tables waits for a flush into the pages. Pages at the bounds are not claimed.
#[test]
fn a_range_is_converted_to_tables_when_the_flush_that_brings_records_into_it_is_over() {
    for stop in 1.. {
        let (mut fixture, mut model) = covered(300, 900);
        put(&mut fixture, &mut model, (500..700).step_by(7), Some(&[1; 60]));
        let (keyspace, watch) = (fixture.keyspace.clone(), ThreadWatch::default());
        let was_over = thread::scope(|scope| {
            let mut flush = SteppedThread::new(scope, &[Phase::Pages], || keyspace.lsm.flush(Seq::MAX));
            if (0..stop).any(|_| flush.step().is_some()) {
                return true;
            }
            let job = scope.spawn(|| {
                watch.begin();
                keyspace.convert_to_tables(b"a", b"z")
            });
            watch.wait_asleep();
            flush.finish().unwrap();
            job.join().unwrap().unwrap();
            false
        });
        fixture.expect(&model);
        if was_over {
            return assert!(stop > 3, "it has {stop} I/Os");
        }
        assert_eq!(fixture.stat("paged_ranges"), 0);
    }
}
