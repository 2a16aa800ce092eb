//! What flushes leave of covers: those that they have no record of stay pages alone.

use super::world::{Model, World, key};
use crate::{
    adaptive::{AdaptiveOptions, Insert},
    engine::Engine,
    lsm::structure::Covers,
};

const KEYS: u32 = 2400;

fn put(world: &mut World, model: &mut Model, numbers: impl Iterator<Item = u32>, byte: u8) {
    numbers.for_each(|number| world.put(model, number, Some(&[byte; 100])));
    world.flush();
}

/// Keys of which two ranges are covered.
fn covered() -> (World, Model) {
    let (mut world, mut model) = (World::new(3, AdaptiveOptions::default()), Model::new());
    put(&mut world, &mut model, 0..KEYS, 0);
    world.keyspace.absorb(&key(400), &key(800)).unwrap();
    world.keyspace.absorb(&key(1200), &key(1600)).unwrap();
    (world, model)
}

fn covers(world: &World) -> Covers {
    world.keyspace.lsm.lsm().version().covers().as_ref().clone()
}

/// Bytes of tables that count in a range.
fn counting(world: &World, lower: u32, upper: u32) -> u64 {
    world.keyspace.lsm.lsm().counted(&key(lower), &key(upper)).bytes
}

#[test]
fn a_range_that_nobody_writes_stays_pages_alone_however_wide_runs_are() {
    let (mut world, mut model) = covered();
    for round in 1..=3 {
        put(&mut world, &mut model, (0..400).chain(1700..KEYS).step_by(17), round);
        assert_eq!((counting(&world, 400, 800), counting(&world, 1200, 1600)), (0, 0), "round {round}");
    }
    world.expect(&model);
    put(&mut world, &mut model, [500].into_iter(), 9);
    assert!(counting(&world, 400, 800) > 0);
    assert_eq!(counting(&world, 1200, 1600), 0);
    world.expect(&model);
    let before = covers(&world);
    world.reopen();
    assert_eq!(covers(&world), before);
    world.expect(&model);
}

/// Its floor would hide what was flushed before.
#[test]
fn a_range_with_something_above_its_pages_keeps_its_floor() {
    let (mut world, mut model) = covered();
    put(&mut world, &mut model, 450..460, 1);
    let before = covers(&world);
    put(&mut world, &mut model, (0..300).chain(2000..KEYS), 2);
    assert_eq!(covers(&world).at(&key(450)), before.at(&key(450)));
    assert_ne!(covers(&world).at(&key(1300)), before.at(&key(1300)));
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

#[test]
fn an_open_range_stays_open() {
    let (mut world, mut model) = covered();
    world.keyspace.open(&key(400), &key(800)).unwrap();
    put(&mut world, &mut model, (0..300).chain(2000..KEYS), 2);
    let floors: Vec<_> = covers(&world).iter().map(|cover| cover.floor()).collect();
    assert!(floors.len() == 2 && floors[0].is_none() && floors[1].is_some(), "{floors:?}");
    world.expect(&model);
}

/// A tombstone is a record.
#[test]
fn a_range_of_which_something_was_deleted_has_that_above_it() {
    let (mut world, mut model) = covered();
    world.put(&mut model, 1300, None);
    world.flush();
    assert!(counting(&world, 1200, 1600) > 0 && world.keyspace.get(&key(1300)).unwrap().is_none());
    assert_eq!(counting(&world, 400, 800), 0);
    world.expect(&model);
}

/// Decision 15, invariant 7: of the oldest of them a record does not count that is in pages, newer, and the run that it
/// would be in is above the floor.
#[test]
fn what_does_not_count_is_left_out_where_small_runs_become_one() {
    let options = AdaptiveOptions { insert: Insert::Batch, adapt: 0, ..AdaptiveOptions::default() };
    let (mut world, mut model) = (World::new(9, options), Model::new());
    let mut flushed = |world: &mut World, numbers: &[u32], value: &[u8]| {
        numbers.iter().for_each(|number| world.put(&mut model, *number, Some(value)));
        world.flush();
        world.expect(&model);
    };
    flushed(&mut world, &[10, 30, 50, 70], b"first");
    flushed(&mut world, &[30], b"second");
    world.keyspace.absorb(&key(20), &key(60)).unwrap();
    assert_eq!(world.stat("runs"), 1, "the other had nothing else");
    flushed(&mut world, &[50], b"third");
    for number in [80, 90] {
        flushed(&mut world, &[number], b"elsewhere");
    }
    while world.keyspace.lsm.lsm().compact_next().unwrap() {}
    assert_eq!(
        (world.stat("runs"), world.stat("levels"), world.stat("table_records")),
        (1, 0, 5),
        "10, 50, 70, 80, 90"
    );
    world.reopen();
    flushed(&mut world, &[11], b"last");
}
