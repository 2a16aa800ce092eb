//! Readers that are held at an I/O while their range is converted.

use std::thread;

use ecotone_engine::contract::{Get, Ordered};
use ecotone_testkit::sim::{Phase, SteppedThread};
use ecotone_tree::TreeOptions;

use super::fixture::{ALL, Fixture, Model, key, step};
use crate::AdaptiveOptions;

const KEYS: u32 = 120;

/// Some keys in pages, with newer records or tombstones of some of them in tables; the others in tables alone.
fn fixture() -> (Fixture, Model) {
    // A cached record would be read without I/O.
    let tree = TreeOptions::default().segment_pages(1).record_cache(false);
    let (mut fixture, mut model) =
        (Fixture::new(5, AdaptiveOptions { tree, ..AdaptiveOptions::default() }), Model::new());
    for number in 0..KEYS {
        fixture.put(&mut model, number, Some(&[1; 90]));
    }
    fixture.flush();
    fixture.keyspace.convert_to_pages(&key(40), &key(80)).unwrap();
    for number in (0..KEYS).step_by(3) {
        fixture.put(&mut model, number, (number % 2 > 0).then_some(&[2; 90][..]));
    }
    fixture.flush();
    // Indexes and filters are loaded under locks, which a held reader must not keep.
    fixture.expect(&model);
    (0..KEYS)
        .for_each(|number| assert_eq!(fixture.keyspace.get(&key(number)).unwrap().as_ref(), model.get(&key(number))));
    fixture.keyspace.lsm.forget_blocks();
    (fixture, model)
}

/// The conversion of all keys beside a reader.
#[derive(Debug, Clone, Copy)]
enum Change {
    Absorbed,
    Open,
    Uncovered,
}

impl Change {
    fn make(self, fixture: &Fixture) {
        match self {
            Change::Absorbed => {
                fixture.keyspace.convert_to_pages(b"a", b"z").unwrap();
                assert_eq!(fixture.stat("tables"), 0);
            }
            Change::Open => fixture.keyspace.reactivate(b"a", b"z").unwrap(),
            Change::Uncovered => {
                fixture.keyspace.convert_to_tables(b"a", b"z").unwrap();
                assert_eq!(fixture.stat("paged_ranges"), 0);
            }
        }
    }
}

/// Makes each conversion beside a reader, at each I/O of the reader.
fn beside<T: Send>(read: impl Fn(&Fixture) -> T + Sync, check: impl Fn(T, &Model)) {
    [Change::Absorbed, Change::Open, Change::Uncovered]
        .into_iter()
        .for_each(|change| beside_one(change, &read, &check));
}

fn beside_one<T: Send>(change: Change, read: impl Fn(&Fixture) -> T + Sync, check: impl Fn(T, &Model)) {
    for stop in 1.. {
        let (fixture, model) = fixture();
        let is_over = thread::scope(|scope| {
            let mut reader = SteppedThread::new(scope, &[Phase::Pages, Phase::Table], || read(&fixture));
            let over = (0..stop).find_map(|_| reader.step());
            let is_over = over.is_some();
            let found = over.unwrap_or_else(|| {
                change.make(&fixture);
                reader.finish()
            });
            check(found, &model);
            is_over
        });
        if is_over {
            assert!(stop > 3, "it has {stop} I/Os");
            return;
        }
    }
}

/// Trap 7: table records are in pages before the tables are superseded.
#[test]
fn trap_07_a_key_is_found_though_its_range_changes_its_shape_meanwhile() {
    let numbers = [0, 1, 3, 39, 40, 42, 43, 45, 48, 79, 80, 81, 117, 118];
    let read = |fixture: &Fixture| numbers.map(|number| fixture.keyspace.get(&key(number)).unwrap());
    beside(read, |found, model| {
        numbers
            .iter()
            .zip(found)
            .for_each(|(number, found)| assert_eq!(found.as_ref(), model.get(&key(*number)), "{number}"));
    });
}

#[test]
#[ignore = "long"]
fn trap_07_many_keys_are_found_though_their_ranges_change_their_shape_meanwhile() {
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    beside(
        |fixture| fixture.multi_get(&keys),
        |found, model| {
            keys.iter().zip(found).for_each(|(key, found)| assert_eq!(found.as_ref(), model.get(key), "{key:?}"))
        },
    );
}

#[test]
fn trap_07_a_scan_finds_all_though_their_ranges_change_their_shape_meanwhile() {
    for reverse in [false, true] {
        let read = |fixture: &Fixture| {
            let mut cursor = fixture.keyspace.clone().cursor(ALL);
            let mut records = Model::new();
            while let Some((key, value)) = step(&mut *cursor, reverse) {
                records.insert(key, value);
            }
            records
        };
        beside(read, |found, model| assert_eq!(&found, model));
    }
}
