//! The record cache in front of tables and pages.

use std::thread;

use ecotone_testkit::sim::{Phase, Walk};

use super::world::{Model, World, key};
use crate::{
    adaptive::{AdaptiveOptions, Insert},
    engine::Engine,
};

const KEYS: u32 = 200;
/// What is flushed goes into runs, or into pages where there are some.
const MODES: [Insert; 2] = [Insert::Batch, Insert::Tree];

/// Keys in pages, and others in tables, none of them cached, in a keyspace that is begun by one of the world's ways.
fn world(begin: fn(u64, AdaptiveOptions) -> World, insert: Insert) -> (World, Model) {
    let (mut world, mut model) = (begin(7, AdaptiveOptions { insert, ..AdaptiveOptions::default() }), Model::new());
    for number in 0..KEYS {
        world.put(&mut model, number, Some(&[1; 90]));
    }
    world.flush();
    world.keyspace.absorb(&key(100), b"l").unwrap();
    (world, model)
}

/// Reads keys of both kinds, and tells whether that took any I/O.
fn read(world: &World, model: &Model, at_once: bool) -> bool {
    let (before, keys) = (world.disk.io_index(), (0..KEYS).step_by(9).map(key).collect::<Vec<_>>());
    let found = if at_once {
        world.multi_get(&keys)
    } else {
        keys.iter().map(|key| world.keyspace.get(key).unwrap()).collect()
    };
    keys.iter().zip(found).for_each(|(key, found)| assert_eq!(found.as_ref(), model.get(key), "{key:?}"));
    world.disk.io_index() > before
}

#[test]
fn what_was_read_is_cached_whatever_shape_its_range_has_and_follows_writes() {
    for (at_once, insert) in [false, true].into_iter().flat_map(|at_once| MODES.map(|insert| (at_once, insert))) {
        let (mut world, mut model) = world(World::unjudged, insert);
        assert!(read(&world, &model, at_once));
        assert!(!read(&world, &model, at_once), "all of it is cached");
        for (number, value) in
            [(0, Some(&[2; 90][..])), (9, Some(&[2; 1000][..])), (108, Some(&[2; 90][..])), (117, None), (18, None)]
        {
            world.put(&mut model, number, value);
        }
        assert!(!read(&world, &model, at_once), "memtables come before the cache");
        world.flush();
        // What has another size, or is gone, left the cache.
        assert!(read(&world, &model, at_once));
        world.keyspace.absorb(b"a", b"z").unwrap();
        read(&world, &model, at_once);
        world.put(&mut model, 0, Some(&[3; 90][..]));
        world.put(&mut model, 108, Some(&[3; 90][..]));
        world.flush();
        let is_there = [17, 18].map(|number| world.keyspace.get(&key(number)).unwrap().is_some());
        assert_eq!(is_there, [true, false]);
        let before = world.disk.io_index();
        assert_eq!([0, 108].map(|number| world.keyspace.get(&key(number)).unwrap().unwrap()), [[3; 90], [3; 90]]);
        assert_eq!(world.disk.io_index(), before, "records of the same size are replaced where they are");
        world.expect(&model);
    }
}

/// Trap 1: whatever the reader is at when the key's newer record leaves the memtable.
#[test]
fn trap_01_what_was_read_before_a_flush_is_not_admitted_after_it() {
    let cases = [(5, Insert::Batch), (150, Insert::Batch), (150, Insert::Tree)];
    for (number, insert, value, at_once) in cases.into_iter().flat_map(|(number, insert)| {
        let values = [None, Some(&[2; 90][..])].into_iter();
        values.flat_map(move |value| [false, true].map(|at_once| (number, insert, value, at_once)))
    }) {
        for stop in 1.. {
            let (mut world, mut model) = world(World::new, insert);
            // Indexes and filters are loaded under locks, with which no reader may stand still.
            _ = world.keyspace.get(&key(number + 1)).unwrap();
            let keyspace = world.keyspace.clone();
            let was_over = thread::scope(|scope| {
                let mut reader = Walk::new(scope, &[Phase::Pages, Phase::Table], || {
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
                world.put(&mut model, number, value);
                world.flush();
                reader.finish();
                false
            });
            for _ in 0..2 {
                assert_eq!(world.keyspace.get(&key(number)).unwrap().as_ref(), model.get(&key(number)));
                assert_eq!(world.multi_get(&[key(number)])[0].as_ref(), model.get(&key(number)));
            }
            if was_over {
                assert!(stop > 1, "it has {stop} I/Os");
                break;
            }
        }
    }
}
