//! Ranges whose tables come to count again, and ranges that are tables again.

use std::iter;

use super::world::{ALL, Model, World, key, step};
use crate::{
    adaptive::AdaptiveOptions,
    engine::{Engine, Ordered},
    lsm::structure::Place,
    tree::TreeOptions,
};

const KEYS: u32 = 2400;

fn put(world: &mut World, model: &mut Model, numbers: impl Iterator<Item = u32>, value: Option<&[u8]>) {
    numbers.for_each(|number| world.put(model, number, value));
    world.flush();
}

/// So many keys, of which those of a range are covered.
fn covered(keys: u32, (lower, upper): (u32, u32)) -> (World, Model) {
    let tree = TreeOptions { segment_pages: 4, ..TreeOptions::default() };
    let (mut world, mut model) = (World::new(2, AdaptiveOptions { tree, ..AdaptiveOptions::default() }), Model::new());
    put(&mut world, &mut model, 0..keys, Some(&[0; 100]));
    world.keyspace.absorb(&key(lower), &key(upper)).unwrap();
    assert_eq!(world.stat("covers"), 1);
    (world, model)
}

fn in_pages(world: &World, number: u32) -> bool {
    world.keyspace.tree.find_in_pages(&key(number), &mut Vec::new()).unwrap()
}

fn floors(world: &World) -> Vec<Option<Place>> {
    world.keyspace.lsm.lsm().version().covers().iter().map(|cover| cover.floor()).collect()
}

#[test]
fn what_is_uncovered_is_in_tables_alone_and_its_pages_are_free() {
    let (mut world, mut model) = covered(KEYS, (200, 2000));
    put(&mut world, &mut model, (0..KEYS).step_by(7), Some(&[1; 60]));
    put(&mut world, &mut model, (0..KEYS).step_by(11), None);
    let used = world.stat("used_bytes");
    world.keyspace.uncover(&key(0), &key(KEYS)).unwrap();
    assert_eq!((world.stat("covers"), (0..KEYS).filter(|number| in_pages(&world, *number)).count()), (0, 0));
    assert!(world.stat("segments") < 10, "a page for each piece: {}", world.stat("segments"));
    world.expect(&model);
    // What was given back is free when that is synced.
    world.reopen();
    assert!(world.stat("used_bytes") < used / 4, "{} bytes of {used}", world.stat("used_bytes"));
    world.expect(&model);
    world.keyspace.absorb(&key(0), &key(KEYS)).unwrap();
    assert_eq!((world.stat("covers"), world.stat("tables")), (1, 0));
    world.expect(&model);
}

/// A part of a cover goes, and the others stay as they are.
#[test]
fn a_part_of_a_cover_is_uncovered_between_two_fences() {
    let (mut world, mut model) = covered(KEYS, (0, KEYS));
    put(&mut world, &mut model, (0..KEYS).step_by(7), Some(&[1; 60]));
    world.keyspace.uncover(&key(900), &key(1100)).unwrap();
    assert_eq!(world.stat("covers"), 2);
    assert!((900..1100).all(|number| !in_pages(&world, number)) && in_pages(&world, 100) && in_pages(&world, 2300));
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

/// Trap 5: whoever has a version in which a range is covered finds it in pages, however long he takes, and nobody waits
/// for him.
#[test]
fn trap_05_pages_stay_as_long_as_somebody_has_a_version_from_before() {
    let (mut world, model) = covered(KEYS, (200, 2000));
    let mut cursor = world.keyspace.clone().cursor(ALL);
    let mut records: Vec<_> = (0..500).filter_map(|_| step(&mut *cursor, false)).collect();
    world.keyspace.uncover(&key(0), &key(KEYS)).unwrap();
    world.keyspace.absorb(&key(0), &key(KEYS)).unwrap();
    let is_covered =
        |world: &World, number: u32| world.keyspace.lsm.lsm().version().covers().at(&key(number)).is_some();
    assert!(in_pages(&world, 700) && !is_covered(&world, 700), "it is not covered again before its pages are cleared");
    assert!(is_covered(&world, 100) && is_covered(&world, 2100));
    world.expect(&model);
    records.extend(iter::from_fn(|| step(&mut *cursor, false)));
    assert!(records.into_iter().eq(model.clone()));
    drop(cursor);
    world.flush();
    while world.environment.scheduler.run_one() {}
    assert!(!in_pages(&world, 700));
    world.keyspace.absorb(&key(0), &key(KEYS)).unwrap();
    assert!(in_pages(&world, 700) && is_covered(&world, 700));
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

/// What is not cleared when the database is closed is by the next opening.
#[test]
fn what_was_not_cleared_goes_at_the_next_opening() {
    let (mut world, model) = covered(KEYS, (200, 2000));
    let mut cursor = world.keyspace.clone().cursor(ALL);
    (0..500).for_each(|_| assert!(step(&mut *cursor, false).is_some()));
    world.keyspace.uncover(&key(0), &key(KEYS)).unwrap();
    assert!(in_pages(&world, 700));
    world.reopen();
    assert!(!in_pages(&world, 700) && world.keyspace.tree.is_carved(b"", None));
    world.expect(&model);
}

/// A burst of few records over many pages runs at the pace of an lsm.
#[test]
fn a_job_opens_what_it_would_have_to_rewrite_many_pages_for() {
    let (mut world, mut model) = covered(KEYS, (0, KEYS));
    for round in 1..=8 {
        put(&mut world, &mut model, (0..KEYS).step_by(60), Some(&[round; 100]));
    }
    let before = world.stat("used_bytes");
    assert!(world.keyspace.lsm.lsm().compact_next().unwrap());
    assert_eq!(
        (world.stat("compactions"), world.stat("runs"), world.stat("levels"), world.stat("used_bytes")),
        (1, 0, 1, before)
    );
    assert!(floors(&world).contains(&None), "all tables count");
    world.expect(&model);
    put(&mut world, &mut model, (0..KEYS).step_by(9), None);
    world.reopen();
    world.expect(&model);
    world.keyspace.absorb(b"a", b"z").unwrap();
    assert_eq!((world.stat("covers"), world.stat("tables")), (1, 0));
    world.expect(&model);
}

/// A cover is opened where the job has records of it.
#[test]
fn a_job_opens_a_part_of_a_cover() {
    let (mut world, mut model) = covered(KEYS, (0, KEYS));
    for round in 1..=8 {
        put(&mut world, &mut model, (300..2100).step_by(90), Some(&[round; 10]));
    }
    let lsm = world.keyspace.lsm.lsm();
    assert!(lsm.compact_next().unwrap(), "runs become one");
    assert_eq!((world.stat("runs"), floors(&world).len()), (5, 1));
    assert!(lsm.merge_next((&key(0), &key(KEYS)), u64::MAX, || ()).unwrap().is_some());
    let floors = floors(&world);
    assert!(floors.len() == 3 && floors[0].is_some() && floors[1].is_none() && floors[2].is_some(), "{floors:?}");
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

/// Of a dropped keyspace nothing is cleared any more.
#[test]
fn a_keyspace_can_be_dropped_while_something_is_to_be_cleared() {
    let (world, _) = covered(KEYS, (200, 2000));
    let mut cursor = world.keyspace.clone().cursor(ALL);
    assert!(step(&mut *cursor, false).is_some());
    world.keyspace.uncover(&key(0), &key(KEYS)).unwrap();
    world.keyspace.retire();
    drop(cursor);
    while world.environment.scheduler.run_one() {}
    world.environment.health.check().unwrap();
}
