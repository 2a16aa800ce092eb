//! Deletes of what is in pages.

use super::world::{Model, World, key};
use crate::{adaptive::AdaptiveOptions, engine::Engine};

const KEYS: u32 = 1200;

/// What the pages say of a key, whoever comes to them.
fn in_pages(world: &World, key: &[u8]) -> bool {
    world.keyspace.tree.find_in_pages(key, &mut Vec::new()).unwrap()
}

/// All keys, of which those in the middle are in pages alone.
fn covered() -> (World, Model) {
    let (mut world, mut model) = (World::new(1, AdaptiveOptions::default()), Model::new());
    for number in 0..KEYS {
        world.put(&mut model, number, Some(&[1; 100]));
    }
    world.flush();
    world.keyspace.absorb(&key(400), &key(800)).unwrap();
    (world, model)
}

/// Trap 9: nothing of the key is in any table that the job does not read, and yet there is something older.
#[test]
fn trap_09_a_tombstone_over_pages_ends_in_these() {
    let (mut world, mut model) = covered();
    for number in (0..KEYS).step_by(2) {
        world.put(&mut model, number, None);
    }
    world.flush();
    world.expect(&model);
    assert!(in_pages(&world, &key(600)), "what is deleted goes with an absorption");
    assert!(world.keyspace.compact(&mut |_, _| ()).unwrap());
    world.expect(&model);
    assert!((400..800).all(|number| in_pages(&world, &key(number)) == (number % 2 == 1)));
    world.reopen();
    world.expect(&model);
}

/// What was in a table when its range was covered does not come back when all tables count there again, or nothing is
/// covered.
#[test]
fn trap_09_what_did_not_count_is_gone_when_tables_count_again() {
    for is_opened in [true, false] {
        let (mut world, mut model) = covered();
        for number in 400..800 {
            world.put(&mut model, number, None);
        }
        world.flush();
        world.keyspace.absorb(&key(400), &key(800)).unwrap();
        assert!((400..800).all(|number| !in_pages(&world, &key(number))));
        let records = world.stat("table_records");
        assert!(records > model.len() as u64, "tables across the bounds have some that do not count");
        if is_opened {
            world.keyspace.open(&key(400), &key(800)).unwrap();
        } else {
            world.keyspace.uncover(&key(400), &key(800)).unwrap();
        }
        assert_eq!(world.stat("table_records"), model.len() as u64);
        world.expect(&model);
        world.reopen();
        world.expect(&model);
    }
}

/// What was in a table when its range was covered does not come back with the table's further ways, though its
/// tombstone ended.
#[test]
fn trap_09_what_does_not_count_stays_away() {
    let (mut world, mut model) = covered();
    for number in 400..800 {
        world.put(&mut model, number, None);
    }
    world.flush();
    world.keyspace.absorb(&key(400), &key(800)).unwrap();
    world.expect(&model);
    // Tables across the bounds have both kinds.
    for round in 0..3 {
        for number in (300..400).chain(800..900) {
            world.put(&mut model, number, Some(&[round; 60]));
        }
        world.flush();
        world.expect(&model);
    }
    assert!(world.keyspace.compact(&mut |_, _| ()).unwrap());
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}
