//! The adaptive engine with threads on a real disk: ranges are converted while they are used.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use ecotone::{AdaptiveOptions, ConversionReason, Database, Hint, Keyspace, KeyspaceOptions, LsmOptions, Shape};

const KEYS: u32 = 60_000;
const MAX_WAIT: Duration = Duration::from_secs(60);

fn key(number: u32) -> String {
    format!("key {number:08}")
}

fn value(number: u32, round: u32) -> String {
    format!("{number} {round} {}", "x".repeat(100))
}

fn open(directory: &tempfile::TempDir) -> (Database, Keyspace) {
    let database = Database::builder(directory.path().join("db")).memory_budget(16 << 20).open().unwrap();
    let options = KeyspaceOptions::adaptive(AdaptiveOptions::default().lsm(LsmOptions::default().memtable(1 << 20)));
    let keyspace = database.keyspace("events", options).unwrap();
    (database, keyspace)
}

/// Waits until `is_so` holds for the shapes of the ranges.
fn wait_until(keyspace: &Keyspace, what: &str, is_so: impl Fn(&[Shape]) -> bool) {
    let begun = Instant::now();
    loop {
        let shapes: Vec<_> = keyspace.shapes().iter().map(|range| range.shape).collect();
        if is_so(&shapes) {
            return;
        }
        assert!(begun.elapsed() < MAX_WAIT, "{what}: {shapes:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Checks that all records are there, each with a value of its key.
fn check(keyspace: &Keyspace, last: impl Fn(u32) -> u32) {
    let mut numbers = 0..KEYS;
    for record in keyspace.iter() {
        let ((found, bytes), number) = (record.unwrap(), numbers.next().unwrap());
        assert_eq!((found, bytes), (key(number).into_bytes(), value(number, last(number)).into_bytes()));
    }
    assert!(numbers.next().is_none());
}

#[test]
fn ranges_change_their_shape_while_they_are_read_and_written() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = open(&directory);
    for round in 0..2 {
        (0..KEYS).for_each(|number| keyspace.insert(key(number), value(number, round)).unwrap());
    }
    database.flush().unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in (0..KEYS).step_by(7).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                keyspace.insert(key(number), value(number, 2)).unwrap();
            }
        });
        scope.spawn(|| {
            for number in (0..KEYS - 100).step_by(977).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                let keys = keyspace.range(key(number)..).take(50).map(|record| record.unwrap().0);
                assert!(keys.eq((number..number + 50).map(|number| key(number).into_bytes())));
                assert!(
                    keyspace
                        .get(key(number))
                        .unwrap()
                        .is_some_and(|value| value.starts_with(number.to_string().as_bytes()))
                );
            }
        });
        for hint in [Hint::ReadMostly, Hint::WriteMostly, Hint::ReadMostly] {
            keyspace.hint(key(10_000)..key(40_000), hint).unwrap();
            // A range that is being converted is in no list.
            let done = |shapes: &[Shape]| match hint {
                Hint::WriteMostly => shapes.is_empty(),
                _ => !shapes.is_empty() && !shapes.iter().any(|shape| shape.is_queued()),
            };
            wait_until(&keyspace, "a hint is followed", done);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    (0..KEYS).step_by(7).for_each(|number| keyspace.insert(key(number), value(number, 2)).unwrap());
    assert!(
        !keyspace.shapes().is_empty()
            && keyspace.stats().counters.iter().any(|(name, count)| *name == "ranges_to_pages" && *count > 0)
    );
    let last = |number: u32| if number.is_multiple_of(7) { 2 } else { 1 };
    check(&keyspace, last);
    assert!(
        database
            .verify()
            .unwrap()
            .iter()
            .all(|(_, check)| check.problems.is_empty() && check.records == u64::from(KEYS))
    );
    drop(keyspace);
    database.close().unwrap();
    let (database, keyspace) = open(&directory);
    assert!(!keyspace.shapes().is_empty());
    check(&keyspace, last);
    database.close().unwrap();
}

#[test]
fn a_range_that_is_scanned_again_and_again_becomes_pages_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let (database, keyspace) = open(&directory);
    for round in 0..3 {
        (0..KEYS)
            .step_by(1 + round as usize)
            .for_each(|number| keyspace.insert(key(number), value(number, round)).unwrap());
        database.flush().unwrap();
    }
    let begun = Instant::now();
    while !keyspace
        .shapes()
        .iter()
        .any(|range| range.shape == Shape::Pages && range.reason == Some(ConversionReason::Scans))
    {
        for number in (20_000..22_000).step_by(13) {
            assert_eq!(keyspace.range(key(number)..).take(20).filter(|record| record.is_ok()).count(), 20);
        }
        assert!(begun.elapsed() < MAX_WAIT, "{:?} {:?}", keyspace.shapes(), keyspace.stats());
    }
    let shapes = keyspace.shapes();
    assert!(
        shapes
            .iter()
            .all(|range| range.lower.as_slice() < key(22_000).as_bytes()
                && range.upper.as_slice() > key(20_000).as_bytes()),
        "{shapes:?}"
    );
    let last = |number: u32| if number.is_multiple_of(3) { 2 } else { u32::from(number.is_multiple_of(2)) };
    check(&keyspace, last);
    database.close().unwrap();
}
