//! The record cache in front of tables and pages.

use std::thread;

use ecotone_engine::contract::{Engine, Get};
use ecotone_testkit::sim::{Phase, SteppedThread};

use super::fixture::{Fixture, Model, key};
use crate::{AdaptiveOptions, Insert};

const KEYS: u32 = 200;
/// Flushed records go into runs, or into pages where there are some.
const MODES: [Insert; 2] = [Insert::Batch, Insert::Tree];

/// Keys in pages, and others in tables, none of them cached. `begin` makes the fixture.
fn fixture(begin: fn(u64, AdaptiveOptions) -> Fixture, insert: Insert) -> (Fixture, Model) {
    let (mut fixture, mut model) = (begin(7, AdaptiveOptions { insert, ..AdaptiveOptions::default() }), Model::new());
    for number in 0..KEYS {
        fixture.put(&mut model, number, Some(&[1; 90]));
    }
    fixture.flush();
    fixture.keyspace.convert_to_pages(&key(100), b"l").unwrap();
    (fixture, model)
}

/// Reads keys of both kinds. Returns whether the reads took any I/O.
fn read(fixture: &Fixture, model: &Model, at_once: bool) -> bool {
    let (before, keys) = (fixture.disk.io_index(), (0..KEYS).step_by(9).map(key).collect::<Vec<_>>());
    let found = if at_once {
        fixture.multi_get(&keys)
    } else {
        keys.iter().map(|key| fixture.keyspace.get(key).unwrap()).collect()
    };
    keys.iter().zip(found).for_each(|(key, found)| assert_eq!(found.as_ref(), model.get(key), "{key:?}"));
    fixture.disk.io_index() > before
}

#[test]
fn what_was_read_is_cached_whatever_shape_its_range_has_and_follows_writes() {
    for (at_once, insert) in [false, true].into_iter().flat_map(|at_once| MODES.map(|insert| (at_once, insert))) {
        let (mut fixture, mut model) = fixture(Fixture::unchecked, insert);
        assert!(read(&fixture, &model, at_once));
        assert!(!read(&fixture, &model, at_once), "all of it is cached");
        for (number, value) in
            [(0, Some(&[2; 90][..])), (9, Some(&[2; 1000][..])), (108, Some(&[2; 90][..])), (117, None), (18, None)]
        {
            fixture.put(&mut model, number, value);
        }
        assert!(!read(&fixture, &model, at_once), "memtables come before the cache");
        fixture.flush();
        // Records of another size and deleted ones left the cache.
        assert!(read(&fixture, &model, at_once));
        fixture.keyspace.convert_to_pages(b"a", b"z").unwrap();
        read(&fixture, &model, at_once);
        fixture.put(&mut model, 0, Some(&[3; 90][..]));
        fixture.put(&mut model, 108, Some(&[3; 90][..]));
        fixture.flush();
        let is_there = [17, 18].map(|number| fixture.keyspace.get(&key(number)).unwrap().is_some());
        assert_eq!(is_there, [true, false]);
        let before = fixture.disk.io_index();
        assert_eq!([0, 108].map(|number| fixture.keyspace.get(&key(number)).unwrap().unwrap()), [[3; 90], [3; 90]]);
        assert_eq!(fixture.disk.io_index(), before, "records of the same size are replaced where they are");
        fixture.expect(&model);
    }
}

/// Trap 1: the reader is held at each of its I/Os while the newer record of the key leaves the memtable.
#[test]
fn trap_01_what_was_read_before_a_flush_is_not_admitted_after_it() {
    let cases = [(5, Insert::Batch), (150, Insert::Batch), (150, Insert::Tree)];
    for (number, insert, value, at_once) in cases.into_iter().flat_map(|(number, insert)| {
        let values = [None, Some(&[2; 90][..])].into_iter();
        values.flat_map(move |value| [false, true].map(|at_once| (number, insert, value, at_once)))
    }) {
        for stop in 1.. {
            let (mut fixture, mut model) = fixture(Fixture::new, insert);
            // Indexes and filters are loaded under locks, which a held reader must not keep.
            _ = fixture.keyspace.get(&key(number + 1)).unwrap();
            let keyspace = fixture.keyspace.clone();
            let was_over = thread::scope(|scope| {
                let mut reader = SteppedThread::new(scope, &[Phase::Pages, Phase::Table], || {
                    let key = key(number);
                    let mut found = None;
                    let mut tell = |_: usize, value: Option<&[u8]>| found = value.map(<[u8]>::to_vec);
                    if at_once {
                        keyspace.multi_get(&[&key[..]], &mut tell).unwrap();
                    } else {
                        tell(0, keyspace.get(&key).unwrap().as_deref());
                    }
                    found
                });
                if (0..stop).any(|_| reader.step().is_some()) {
                    return true;
                }
                fixture.put(&mut model, number, value);
                fixture.flush();
                reader.finish();
                false
            });
            for _ in 0..2 {
                assert_eq!(fixture.keyspace.get(&key(number)).unwrap().as_ref(), model.get(&key(number)));
                assert_eq!(fixture.multi_get(&[key(number)])[0].as_ref(), model.get(&key(number)));
            }
            if was_over {
                assert!(stop > 1, "it has {stop} I/Os");
                break;
            }
        }
    }
}
