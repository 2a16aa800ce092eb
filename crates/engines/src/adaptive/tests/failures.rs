//! Absorptions that do not come to their end.

use std::io::ErrorKind;

use ecotone_substrate::Result;

use super::world::{ALL, Model, World, key, step};
use crate::{adaptive::AdaptiveOptions, engine::Ordered, tree::TreeOptions};

const KEYS: u32 = 900;
/// Records that need more of a page file than it has at its beginning.
const MANY: u32 = 1500;
const BYTES: usize = 1800;

/// So many keys, of which some are covered, and all have newer records, with so many bytes, or tombstones in tables.
fn world(keys: u32, bytes: usize) -> (World, Model) {
    let tree = TreeOptions { segment_pages: 4, ..TreeOptions::default() };
    let (mut world, mut model) = (World::new(3, AdaptiveOptions { tree, ..AdaptiveOptions::default() }), Model::new());
    for round in 0..3_u8 {
        for number in (0..keys).filter(|number| round == 0 || number % 3 == u32::from(round)) {
            let value = (round == 0 || number % 2 == 0).then(|| vec![round; bytes]);
            world.put(&mut model, number, value.as_deref());
        }
        world.flush();
        if round == 0 {
            world.keyspace.absorb(&key(300), &key(600)).unwrap();
        }
    }
    (world, model)
}

/// Has a change of shape fail at each of its I/Os.
fn fail_everywhere(change: impl Fn(&World) -> Result<()>) {
    let change = |failure: Option<u64>| {
        let (world, model) = world(KEYS, 90);
        let start = world.disk.io_index();
        failure.into_iter().for_each(|ahead| world.disk.fail_at(start + ahead, ErrorKind::Other));
        let changed = change(&world);
        assert_eq!(changed.is_err(), failure.is_some(), "{failure:?}");
        let count = world.disk.io_index() - start;
        world.expect(&model);
        count
    };
    let all = change(None);
    assert!(all > 8, "{all}");
    (0..all).for_each(|failure| _ = change(Some(failure)));
}

/// Trap 11: at each of its I/Os. What is in tables counts until all of it is in pages.
#[test]
fn trap_11_an_absorption_that_fails_changes_nothing_that_is_read() {
    fail_everywhere(|world| world.keyspace.absorb(&key(100), &key(800)));
}

/// What does not count stays where it is, and does not count, until all of it is written out.
#[test]
fn trap_11_an_opening_that_fails_changes_nothing_that_is_read() {
    fail_everywhere(|world| world.keyspace.open(&key(100), &key(800)));
}

/// What is in pages is read there until all of it is in tables, and its pages go after that.
#[test]
fn trap_11_an_uncovering_that_fails_changes_nothing_that_is_read() {
    fail_everywhere(|world| world.keyspace.uncover(&key(100), &key(800)));
}

/// Pages that no cover has, and that nobody reads, are free after opening.
#[test]
fn what_a_crash_leaves_of_an_absorption_goes_at_the_next_opening() {
    let (mut world, model) = world(KEYS, 90);
    let value = || Some(vec![7; 1000]);
    for numbers in [0..200, 700..900] {
        // As if the edit had not come any more.
        world.keyspace.tree.absorb(&mut numbers.map(|number| Ok((key(number), value()))), false).unwrap();
    }
    let covered = world.stat("segments");
    world.reopen();
    assert!(world.stat("segments") < covered - 20, "{} segments of {covered}", world.stat("segments"));
    let tree = &world.keyspace.tree;
    assert!(tree.is_carved(b"", Some(&key(300))) && tree.is_carved(&key(600), None));
    world.expect(&model);
}

/// The first pages of a range that were written are free again when there is no space for the others.
#[test]
fn what_came_into_pages_in_vain_is_carved_out_again() {
    let (mut world, mut model) = (World::with_tables(4, AdaptiveOptions::default(), 1 << 20), Model::new());
    // The page file has a MiB to begin with, and would need three.
    for number in 0..MANY {
        world.put(&mut model, number, Some(&[number as u8; BYTES]));
    }
    world.flush();
    world.disk.space_limit(world.disk.space_used());
    let error = world.keyspace.absorb(&key(0), &key(MANY)).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    assert!(world.stat("segments") <= 3, "{} segments", world.stat("segments"));
    world.expect(&model);
    world.disk.space_limit(u64::MAX);
    world.keyspace.absorb(&key(0), &key(MANY)).unwrap();
    assert!(world.stat("segments") > 3 && world.stat("covers") == 1 && world.stat("tables") == 0);
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

/// What is absorbed by then stays so. Tables that go with a piece make room for the next, unless somebody reads them.
#[test]
fn a_full_disk_ends_an_absorption_between_two_pieces_only_where_tables_have_to_stay() {
    let (mut world, mut model) = (World::new(5, AdaptiveOptions::default()), Model::new());
    for number in 0..MANY {
        world.put(&mut model, number, Some(&[number as u8; BYTES]));
    }
    world.flush();
    let tables = world.stat("tables");
    let mut cursor = world.keyspace.clone().cursor(ALL);
    assert!(step(&mut *cursor, false).is_some());
    world.disk.space_limit(world.disk.space_used() + (1 << 20));
    let error = world.keyspace.absorb(&key(0), &key(MANY)).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    assert!(world.stat("covers") == 1 && world.stat("tables") < tables, "{} tables are left", world.stat("tables"));
    world.expect(&model);
    drop(cursor);
    world.keyspace.absorb(&key(0), &key(MANY)).unwrap();
    assert_eq!((world.stat("covers"), world.stat("tables")), (1, 0));
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}
