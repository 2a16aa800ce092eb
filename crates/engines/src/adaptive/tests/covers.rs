//! Ranges that are covered, with all that goes on beside.

use std::ops::Bound;

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::world::{Model, World, key};
use crate::{
    adaptive::{AdaptiveOptions, Insert},
    engine::{Engine, Ordered},
    lsm::Split,
    tree::{PageFill, TreeOptions},
};

const KEYS: u32 = 900;

/// A few neighbours, or some of all.
fn write_some(world: &mut World, model: &mut Model, random: &mut SmallRng) {
    let (first, width) = if random.random() { (0, KEYS) } else { (random.random_range(0..KEYS), 60) };
    for _ in 0..random.random_range(1..200) {
        let value = random.random_bool(0.7).then(|| vec![random.random(); random.random_range(0..250)]);
        world.put(model, first + random.random_range(0..width), value.as_deref());
    }
}

/// Covers, opens or uncovers a range.
fn reshape(world: &World, random: &mut SmallRng) {
    let (lower, width) = (random.random_range(0..KEYS), random.random_range(1..300));
    let (lower, upper) = (key(lower), key(lower + width));
    match random.random_range(0..6) {
        0 => world.keyspace.open(&lower, &upper).unwrap(),
        1 => world.keyspace.uncover(&lower, &upper).unwrap(),
        _ => world.keyspace.absorb(&lower, &upper).unwrap(),
    }
}

fn check_some(world: &World, model: &Model, random: &mut SmallRng, seed: u64) {
    for _ in 0..20 {
        let key = key(random.random_range(0..KEYS + 60));
        assert_eq!(world.keyspace.get(&key).unwrap().as_ref(), model.get(&key), "seed {seed}: {key:?}");
    }
    let keys: Vec<_> = (0..random.random_range(1..50)).map(|_| key(random.random_range(0..KEYS + 60))).collect();
    assert!(
        world.multi_get(&keys).iter().zip(&keys).all(|(found, key)| found.as_ref() == model.get(key)),
        "seed {seed}"
    );
    let (lower, width) = (random.random_range(0..KEYS), random.random_range(1..100));
    let wanted: Vec<_> =
        model.range(key(lower)..key(lower + width)).map(|(key, value)| (key.clone(), value.clone())).collect();
    let range = || (Bound::Included(key(lower)), Bound::Excluded(key(lower + width)));
    assert_eq!(world.collect(range(), false), wanted, "seed {seed}");
    assert!(world.collect(range(), true).into_iter().rev().eq(wanted), "seed {seed}");
}

/// Trap 12: absorptions, openings, uncoverings, compactions and flushes in any order, and lives in between; what is
/// flushed goes into runs, into pages, or by chance.
#[test]
fn trap_12_what_was_written_is_read_whatever_shape_its_range_has() {
    let (mut absorbed, mut compacted, mut diverted) = (0, 0, 0);
    for seed in 0..30 {
        let mut random = SmallRng::seed_from_u64(seed);
        let tree = TreeOptions { segment_pages: [1, 4, 16][seed as usize % 3], ..TreeOptions::default() };
        let insert = [Insert::Batch, Insert::Tree, Insert::Auto][seed as usize / 3 % 3];
        let (split, page_fill) =
            ([Split::Side, Split::Down][seed as usize % 2], [PageFill::Even, PageFill::Spread][seed as usize / 2 % 2]);
        let options = AdaptiveOptions { tree, insert, split, page_fill, ..AdaptiveOptions::default() };
        let mut world = if insert == Insert::Auto { World::restless(seed, options) } else { World::new(seed, options) };
        let mut model = Model::new();
        for _ in 0..150 {
            match random.random_range(0..20) {
                0..7 => write_some(&mut world, &mut model, &mut random),
                7..11 => world.flush(),
                // An absorption before a compaction is a job of its own.
                11..14 => (0..random.random_range(1..6)).for_each(|_| _ = world.environment.scheduler.run_one()),
                14..17 => reshape(&world, &mut random),
                17 if random.random_bool(0.3) => {
                    diverted += world.stat("diverted_records");
                    world.reopen();
                }
                _ => check_some(&world, &model, &mut random, seed),
            }
        }
        world.expect(&model);
        (absorbed, compacted) = (absorbed + world.stat("covers"), compacted + world.stat("compactions"));
        world.reopen();
        world.expect(&model);
    }
    assert!(absorbed > 20 && compacted > 20 && diverted > 1000, "{absorbed}, {compacted} and {diverted}");
}

/// Ordinals: all runs are gone, and with them what a floor was named by.
#[test]
fn what_is_flushed_when_all_tables_are_gone_counts() {
    let (mut world, mut model) = (World::new(1, AdaptiveOptions::default()), Model::new());
    for round in 0..3_u8 {
        (0..KEYS).for_each(|number| world.put(&mut model, number, Some(&[round; 30])));
        world.flush();
        world.keyspace.absorb(b"a", b"z").unwrap();
        assert_eq!((world.stat("tables"), world.stat("covers")), (0, 1));
        world.expect(&model);
        world.reopen();
        world.expect(&model);
    }
    (0..KEYS).for_each(|number| world.put(&mut model, number, None));
    world.flush();
    world.expect(&model);
    world.keyspace.absorb(b"a", b"z").unwrap();
    assert_eq!(world.stat("tables"), 0);
    world.expect(&Model::new());
}

#[test]
fn a_bulk_load_into_what_is_covered_comes_above_it() {
    let (mut world, mut model) = (World::new(1, AdaptiveOptions::default()), Model::new());
    (0..100).for_each(|number| world.put(&mut model, number, Some(&[1; 30])));
    world.flush();
    world.keyspace.absorb(b"a", b"z").unwrap();
    let records = (100..2000).map(|number| (key(number), vec![2; 60]));
    model.extend(records.clone());
    assert_eq!(world.keyspace.clone().bulk_load(&mut records.map(Ok)).unwrap(), 1900);
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

/// A run that was begun does not count where what it had was absorbed meanwhile.
#[test]
fn a_bulk_load_whose_first_keys_are_absorbed_goes_on_above_them() {
    let (mut world, mut model) = (World::new(1, AdaptiveOptions::default()), Model::new());
    // A tombstone behind all that is loaded, so that this becomes a run.
    world.write(b"z", Some(b""));
    world.flush();
    world.write(b"z", None);
    world.flush();
    let keyspace = world.keyspace.clone();
    let mut absorbed = false;
    let mut records = (0..2000).map(|number| {
        if number == 600 {
            assert!(keyspace.lsm.bounds().contains(&key(0)), "a table is there");
            keyspace.absorb(&key(50), b"y").unwrap();
            absorbed = keyspace.lsm.bounds().contains(&key(0));
        }
        Ok((key(number), vec![2; 60]))
    });
    assert_eq!(world.keyspace.clone().bulk_load(&mut records).unwrap(), 2000);
    assert!(absorbed, "a part of the run is left");
    model.extend((0..2000).map(|number| (key(number), vec![2; 60])));
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

/// After opening as before.
#[test]
fn reorganisation_stays_between_the_bounds_of_covers() {
    let (mut world, mut model) = (World::new(1, AdaptiveOptions::default()), Model::new());
    (0..KEYS).for_each(|number| world.put(&mut model, number, Some(&[1; 90])));
    world.flush();
    world.keyspace.absorb(&key(300), &key(330)).unwrap();
    let reorganise = |world: &World| {
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        assert!(world.keyspace.tree.reorganise(&keys, false).unwrap().is_any);
        assert_eq!(world.stat("segments"), 3);
    };
    reorganise(&world);
    world.expect(&model);
    world.reopen();
    reorganise(&world);
    world.expect(&model);
}

#[test]
fn what_no_table_has_any_more_is_not_absorbed_again() {
    let (mut world, mut model) = (World::new(1, AdaptiveOptions::default()), Model::new());
    (0..KEYS).for_each(|number| world.put(&mut model, number, Some(&[1; 30])));
    world.flush();
    world.keyspace.absorb(&key(300), &key(600)).unwrap();
    [650, 700].into_iter().for_each(|number| world.put(&mut model, number, Some(&[2; 30])));
    world.flush();
    let tail = world.tail();
    world.keyspace.absorb(&key(300), &key(600)).unwrap();
    assert_eq!(world.tail(), tail);
    world.expect(&model);
}

/// What they kept apart may be put together.
#[test]
fn bounds_between_covers_that_became_one_are_none_any_more() {
    let (mut world, mut model) = (World::new(1, AdaptiveOptions::default()), Model::new());
    (0..KEYS).for_each(|number| world.put(&mut model, number, Some(&[1; 30])));
    world.flush();
    world.keyspace.absorb(&key(300), &key(330)).unwrap();
    world.keyspace.absorb(&key(330), &key(360)).unwrap();
    assert_eq!((world.stat("covers"), world.stat("segments")), (1, 4));
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    assert!(world.keyspace.tree.reorganise(&keys, false).unwrap().is_any);
    assert_eq!(world.stat("segments"), 3);
    world.expect(&model);
}

/// More keys at once than are looked for together, in pages, in tables above them, and in tables alone.
#[test]
fn many_keys_are_found_at_once_whatever_shape_their_ranges_have() {
    let (mut world, mut model) = (World::new(2, AdaptiveOptions::default()), Model::new());
    (0..KEYS).for_each(|number| world.put(&mut model, number, (number % 5 > 0).then_some(&[1; 90][..])));
    world.flush();
    [(50, 350), (400, 700), (710, 790)]
        .into_iter()
        .for_each(|(from, to)| world.keyspace.absorb(&key(from), &key(to)).unwrap());
    (0..KEYS).step_by(3).for_each(|number| world.put(&mut model, number, (number % 2 > 0).then_some(&[2; 90][..])));
    world.flush();
    let keys: Vec<_> = (0..KEYS + 60).chain(0..KEYS).map(key).collect();
    assert!(world.multi_get(&keys).iter().zip(&keys).all(|(found, key)| found.as_ref() == model.get(key)));
}

/// A turn to compact is not held while all pages of a large range are written anew for a few records.
#[test]
fn a_piece_has_few_pages_however_little_counts_above_them() {
    let insert = Insert::Batch;
    let (mut world, mut model) =
        (World::new(6, AdaptiveOptions { insert, ..AdaptiveOptions::default() }), Model::new());
    (0..4 * KEYS).for_each(|number| world.put(&mut model, number, Some(&[1; 100])));
    world.flush();
    let (lower, upper) = (key(0), key(4 * KEYS));
    world.keyspace.absorb(&lower, &upper).unwrap();
    [10, 4 * KEYS - 10].into_iter().for_each(|number| world.put(&mut model, number, Some(&[2; 100])));
    world.flush();
    let (lsm, mut from, mut pieces) = (world.keyspace.lsm.lsm().clone(), lower, 0);
    while from < upper {
        from = lsm.absorb_next(Split::Side, (&from, &upper), || ()).unwrap();
        pieces += 1;
    }
    assert!(pieces >= 4, "{pieces} pieces of 64 KiB for {} bytes", model.len() * 108);
    world.expect(&model);
}
