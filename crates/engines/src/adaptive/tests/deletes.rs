//! Deletes of what is in pages.

use super::world::{Model, World};
use crate::{adaptive::AdaptiveOptions, engine::Engine};

const KEYS: u32 = 1200;

fn key(number: u32) -> Vec<u8> {
    [&b"key "[..], &number.to_be_bytes()].concat()
}

/// What the pages say of a key, whoever comes to them.
fn in_pages(world: &World, key: &[u8]) -> bool {
    world.keyspace.tree.find_in_pages(key, &mut Vec::new()).unwrap()
}

/// All keys, of which those in the middle are in pages alone.
fn covered() -> (World, Model) {
    let (mut world, mut model) = (World::new(1, AdaptiveOptions::default()), Model::new());
    for number in 0..KEYS {
        world.write(&key(number), Some(&[1; 100]));
        model.insert(key(number), vec![1; 100]);
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
        world.write(&key(number), None);
        model.remove(&key(number));
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

/// What was in a table when its range was covered does not come back with the table's further ways, though its tombstone ended.
#[test]
fn trap_09_what_does_not_count_stays_away() {
    let (mut world, mut model) = covered();
    for number in 400..800 {
        world.write(&key(number), None);
        model.remove(&key(number));
    }
    world.flush();
    world.keyspace.absorb(&key(400), &key(800)).unwrap();
    world.expect(&model);
    // Tables across the bounds have both kinds.
    for round in 0..3 {
        for number in (300..400).chain(800..900) {
            world.write(&key(number), Some(&[round; 60]));
            model.insert(key(number), vec![round; 60]);
        }
        world.flush();
        world.expect(&model);
    }
    assert!(world.keyspace.compact(&mut |_, _| ()).unwrap());
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}
