//! Absorptions in parts.

use super::world::{Model, World, key};
use crate::adaptive::{AdaptiveOptions, Insert};

const KEYS: u32 = 3000;

/// No flush puts anything into pages.
fn options() -> AdaptiveOptions {
    AdaptiveOptions { insert: Insert::Batch, ..AdaptiveOptions::default() }
}

/// Absorbs all keys, and then twice what was written over them, of which a third are tombstones.
fn absorb_thrice(world: &mut World) -> Model {
    let mut model = Model::new();
    for round in 0..3_u8 {
        for number in (0..KEYS).filter(|number| round == 0 || number % 4 == u32::from(round)) {
            let value = (round == 0 || number % 3 > 0).then(|| vec![round; 90]);
            world.put(&mut model, number, value.as_deref());
        }
        world.flush();
        world.keyspace.absorb(&key(0), &key(KEYS)).unwrap();
        assert_eq!(world.keyspace.lsm.lsm().counted(&key(0), &key(KEYS)).bytes, 0);
        world.expect(&model);
    }
    model
}

/// Bounds of parts are none of covers, and keep nothing apart when all is done.
#[test]
fn an_absorption_in_parts_comes_to_what_the_whole_would() {
    let mut world = World::new(1, options());
    let model = absorb_thrice(&mut world);
    let (parts, segments) = (world.stat("absorption_parts"), world.stat("segments"));
    assert!(parts >= 12, "{parts} parts");
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    assert!(world.keyspace.tree.reorganise(&keys, false).unwrap().is_any);
    assert!(world.stat("segments") < segments && world.stat("covers") == 1, "{} of {segments}", world.stat("segments"));
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

#[test]
fn everything_is_the_same_whether_one_thread_absorbs_it_or_several() {
    for workers in [1, 3, 6] {
        absorb_thrice(&mut World::threaded(u64::from(workers as u32), options(), workers));
    }
}
