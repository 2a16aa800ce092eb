//! Readers that stand still in the middle, while what they read becomes pages, or tables.

use std::thread;

use ecotone_testkit::sim::{Phase, Walk};

use super::world::{ALL, Model, World, key, step};
use crate::{
    adaptive::AdaptiveOptions,
    engine::{Engine, Ordered},
    tree::TreeOptions,
};

const KEYS: u32 = 120;

/// Some keys in pages, of which some are in tables above as well, or deleted there; the others in tables alone.
fn world() -> (World, Model) {
    // What is cached is read from nowhere.
    let tree = TreeOptions { segment_pages: 1, record_cache: false, ..TreeOptions::default() };
    let (mut world, mut model) = (World::new(5, AdaptiveOptions { tree, ..AdaptiveOptions::default() }), Model::new());
    for number in 0..KEYS {
        world.put(&mut model, number, Some(&[1; 90]));
    }
    world.flush();
    world.keyspace.absorb(&key(40), &key(80)).unwrap();
    for number in (0..KEYS).step_by(3) {
        world.put(&mut model, number, (number % 2 > 0).then_some(&[2; 90][..]));
    }
    world.flush();
    // Indexes and filters are loaded under locks, with which no reader may stand still.
    world.expect(&model);
    (0..KEYS)
        .for_each(|number| assert_eq!(world.keyspace.get(&key(number)).unwrap().as_ref(), model.get(&key(number))));
    world.keyspace.lsm.forget_blocks();
    (world, model)
}

/// What becomes of all while somebody reads.
#[derive(Debug, Clone, Copy)]
enum Change {
    Absorbed,
    Open,
    Uncovered,
}

impl Change {
    fn make(self, world: &World) {
        match self {
            Change::Absorbed => {
                world.keyspace.absorb(b"a", b"z").unwrap();
                assert_eq!(world.stat("tables"), 0);
            }
            Change::Open => world.keyspace.open(b"a", b"z").unwrap(),
            Change::Uncovered => {
                world.keyspace.uncover(b"a", b"z").unwrap();
                assert_eq!(world.stat("covers"), 0);
            }
        }
    }
}

/// Changes its shape while somebody reads, at each of his I/Os.
fn beside<T: Send>(read: impl Fn(&World) -> T + Sync, check: impl Fn(T, &Model)) {
    [Change::Absorbed, Change::Open, Change::Uncovered]
        .into_iter()
        .for_each(|change| beside_one(change, &read, &check));
}

fn beside_one<T: Send>(change: Change, read: impl Fn(&World) -> T + Sync, check: impl Fn(T, &Model)) {
    for stop in 1.. {
        let (world, model) = world();
        let is_over = thread::scope(|scope| {
            let mut reader = Walk::new(scope, &[Phase::Pages, Phase::Table], || read(&world));
            let over = (0..stop).find_map(|_| reader.step());
            let is_over = over.is_some();
            let found = over.unwrap_or_else(|| {
                change.make(&world);
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

/// Trap 7: what is in no table that counts any more was in pages before that was said.
#[test]
fn trap_07_a_key_is_found_though_its_range_changes_its_shape_meanwhile() {
    let numbers = [0, 1, 3, 39, 40, 42, 43, 45, 48, 79, 80, 81, 117, 118];
    let read = |world: &World| numbers.map(|number| world.keyspace.get(&key(number)).unwrap());
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
        |world| world.multi_get(&keys),
        |found, model| {
            keys.iter().zip(found).for_each(|(key, found)| assert_eq!(found.as_ref(), model.get(key), "{key:?}"))
        },
    );
}

#[test]
fn trap_07_a_scan_finds_all_though_their_ranges_change_their_shape_meanwhile() {
    for reverse in [false, true] {
        let read = |world: &World| {
            let mut cursor = world.keyspace.clone().cursor(ALL);
            let mut records = Model::new();
            while let Some((key, value)) = step(&mut *cursor, reverse) {
                records.insert(key, value);
            }
            records
        };
        beside(read, |found, model| assert_eq!(&found, model));
    }
}
