//! Ranges that become pages one place at a time (A8; decision 14, "Side-split and down-split").

use std::time::Duration;

use super::{
    upkeep::{self, is_pages, range, scan, shapes},
    world::{Model, World, key},
};
use crate::{
    adaptive::{AdaptiveOptions, Insert},
    engine::{Engine, Hint, Ordered},
    lsm::{Split, structure::Place},
};

const KEYS: u32 = 4000;
const SECOND: Duration = Duration::from_secs(1);

fn options(split: Split) -> AdaptiveOptions {
    AdaptiveOptions { split, insert: Insert::Batch, ..AdaptiveOptions::default() }
}

/// Keys in the last level, and what came over them in runs.
fn layered(options: AdaptiveOptions) -> (World, Model) {
    let (mut world, mut model) = (World::new(4, options), Model::new());
    (0..KEYS).for_each(|number| world.put(&mut model, number, Some(&[0; 100])));
    world.flush();
    world.keyspace.compact(&mut |_, _| ()).unwrap();
    for round in 1..=3u8 {
        for number in (0..KEYS).skip(round.into()).step_by(7) {
            world.put(&mut model, number, (number % 5 > 0).then_some(&[round; 100]));
        }
        world.flush();
    }
    (world, model)
}

/// How many absorptions it takes until nothing counts there.
fn absorptions(world: &World, (lower, upper): (u32, u32)) -> usize {
    world.keyspace.lsm.lsm().absorptions(world.keyspace.options.split, &key(lower), &key(upper))
}

/// Bytes of tables that count there.
fn counting(world: &World, (lower, upper): (u32, u32)) -> u64 {
    world.keyspace.lsm.lsm().counted(&key(lower), &key(upper)).bytes
}

/// Trap 12: what is above stays there, newer than what the pages get, deletes too.
#[test]
fn trap_12_the_oldest_place_becomes_pages_first() {
    let (mut world, model) = layered(options(Split::Down));
    let part = (500, 3000);
    let passes = absorptions(&world, part);
    assert!(passes >= 4 && model[&key(1002)] == [1; 100] && !model.contains_key(&key(1010)), "{passes}");
    let mut left = counting(&world, part);
    for pass in 1..=passes {
        world.keyspace.absorb(&key(part.0), &key(part.1)).unwrap();
        let counted = counting(&world, part);
        assert!(counted < left && (counted == 0) == (pass == passes), "{counted} of {left} after {pass} of {passes}");
        left = counted;
        let in_pages = |number| {
            let mut value = Vec::new();
            world.keyspace.tree.find_in_pages(&key(number), &mut value).unwrap().then_some(value)
        };
        if pass == 1 {
            assert_eq!([1002, 1010].map(in_pages), [Some(vec![0; 100]), Some(vec![0; 100])]);
            let version = world.keyspace.lsm.lsm().version();
            assert!(version.covers().iter().all(|cover| cover.floor() == Some(Place::Level(1))));
        }
        world.expect(&model);
        world.reopen();
        world.expect(&model);
    }
    assert_eq!((absorptions(&world, part), world.stat("covers")), (1, 1));
}

/// What a compaction would bring below such a floor is absorbed before, or opened with it.
#[test]
fn what_is_above_a_floor_at_a_level_does_not_sink_below_it() {
    let (mut world, model) = layered(options(Split::Down));
    world.keyspace.absorb(&key(500), &key(3000)).unwrap();
    world.keyspace.compact(&mut |_, _| ()).unwrap();
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

#[test]
fn a_hint_goes_on_until_nothing_counts_above_pages() {
    let (mut world, mut model) = layered(AdaptiveOptions { adapt: 0, ..options(Split::Down) });
    world.keyspace.hint(&range(500, 3000), Hint::ReadMostly).unwrap();
    // What comes later is another place, and not asked for.
    world.put(&mut model, 600, Some(b"later"));
    let pieces = world.stat("absorbed_pieces");
    world.pass(SECOND);
    assert!(is_pages(&world, 500, 3000) && world.stat("absorbed_pieces") > pieces, "{:?}", world.keyspace.shapes());
    assert!(shapes(&world).iter().all(|shape| *shape == ("pages", "hint")), "{:?}", world.keyspace.shapes());
    world.expect(&model);
}

/// Each place is paid for, and the next one is not taken before scans have lost its price to what is left.
#[test]
fn scans_pay_for_one_place_after_the_other() {
    let (world, model) = upkeep::layered(options(Split::Down));
    let hot = (2450, 2850);
    let passes = absorptions(&world, hot);
    let begun = (0..60).any(|_| {
        scan(&world, hot, 1);
        world.stat("adapted_bytes") > 0
    });
    assert!(begun && passes > 1 && !is_pages(&world, 2500, 2800), "{passes} {:?}", world.keyspace.shapes());
    assert!(shapes(&world).contains(&("pages under buffers", "scans")), "{:?}", world.keyspace.shapes());
    let bytes = world.stat("adapted_bytes");
    (0..10).for_each(|_| world.pass(SECOND));
    assert_eq!(world.stat("adapted_bytes"), bytes, "nobody scans");
    scan(&world, hot, 200);
    assert!(is_pages(&world, 2500, 2800), "{:?}", world.keyspace.shapes());
    world.expect(&model);
}
