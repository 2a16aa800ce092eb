//! Everything compacted at once.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::world::{Model, World, expect, key};
use crate::{engine::Engine, lsm::table::Kind};

/// Writes and deletes keys, some of them several times.
fn fill(world: &World, model: &mut Model, random: &mut SmallRng) {
    for _ in 0..4000 {
        let (key, value) = (key(random.random_range(0..1500)), vec![random.random(); 100]);
        world.write_both(model, &key, (!random.random_bool(0.3)).then_some(value));
        if random.random_bool(0.02) {
            world.environment.scheduler.run_one();
        }
    }
}

/// Compacts everything. What was told of the progress rises, to all that there was to do.
fn compact(world: &World) {
    let mut told = Vec::new();
    assert!(world.keyspace.compact(&mut |done, all| told.push((done, all))).unwrap());
    assert!(told.is_sorted() && told[0].0 == 0 && told[told.len() - 1] == (told[0].1, told[0].1), "{told:?}");
    world.keyspace.checkpoint_is_durable();
}

#[test]
fn one_level_is_left_with_what_is_there_and_nothing_else() {
    for (seed, kind) in (1..).zip(Kind::ALL) {
        let (world, mut model, mut random) = (World::new(seed, kind), Model::new(), SmallRng::seed_from_u64(seed));
        for _ in 0..3 {
            fill(&world, &mut model, &mut random);
            compact(&world);
            let stats =
                ["memtables", "runs", "levels", "table_tombstones", "table_records"].map(|name| world.stat(name));
            assert_eq!(stats, [1, 0, 1, 0, model.len() as u64]);
            assert_eq!(world.tables(), world.stat("tables"), "what was replaced is removed");
            world.expect(&model);
        }
        let compactions = world.stat("compactions");
        compact(&world);
        assert_eq!(world.stat("compactions"), compactions, "there is nothing more to do");
        expect(&world.reopened(), &model);
    }
}

#[test]
fn nothing_is_left_of_a_keyspace_whose_keys_were_all_deleted() {
    let (world, mut model) = (World::new(1, Kind::Linear), Model::new());
    fill(&world, &mut model, &mut SmallRng::seed_from_u64(1));
    model.keys().for_each(|key| world.write(key, None));
    compact(&world);
    assert_eq!((world.stat("levels"), world.stat("tables"), world.tables()), (0, 0, 0));
    world.expect(&Model::new());
}

/// Small runs that come meanwhile would become one with those that are to sink.
#[test]
fn what_is_there_at_the_beginning_sinks_whatever_is_flushed_meanwhile() {
    let world = World::new(1, Kind::Linear);
    let write = |numbers: &[u32], value: Option<&[u8]>| {
        numbers.iter().for_each(|number| world.write(&key(*number), value));
        world.flush();
    };
    write(&[100, 110], Some(b"first"));
    write(&[200, 210], None);
    write(&[300, 310], None);
    let mut turns = 0;
    world
        .keyspace
        .compact(&mut |done, all| {
            if done > 0 && done < all && turns == 0 {
                turns += 1;
                [400, 401].iter().for_each(|number| write(&[*number, 500 + number], Some(b"later")));
                while world.keyspace.lsm().compact_next().unwrap() {}
            }
        })
        .unwrap();
    assert_eq!((turns, world.stat("table_tombstones"), world.stat("runs")), (1, 0, 2));
    [402, 403].iter().for_each(|number| write(&[*number], Some(b"last")));
    while world.keyspace.lsm().compact_next().unwrap() {}
    assert_eq!(world.stat("runs"), 1, "they become one again");
}

/// It ends though others write all the time, and what they wrote is there.
#[test]
fn it_ends_whatever_others_write() {
    let (world, is_over) = (World::threaded(1, 2), AtomicBool::new(false));
    let mut model = Model::new();
    fill(&world, &mut model, &mut SmallRng::seed_from_u64(1));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut random = SmallRng::seed_from_u64(2);
            while !is_over.load(Ordering::Relaxed) {
                let (key, value) = (key(random.random_range(0..1500)), vec![random.random(); 100]);
                world.write_both(&mut model, &key, Some(value));
            }
        });
        (0..5).for_each(|_| assert!(world.keyspace.compact(&mut |_, _| ()).unwrap()));
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("writing goes on");
    });
    world.expect(&model);
}

/// There is room for less than a compaction writes before it removes what it replaces. It says so and takes nothing
/// along; with more room it comes to its end.
#[test]
fn compaction_of_everything_on_a_full_disk_is_told_so_and_loses_nothing() {
    let (world, mut model) = (World::new(1, Kind::Linear), Model::new());
    for number in 0..4000 {
        world.write_both(&mut model, &key(number), (number % 7 > 0).then(|| vec![number as u8; 100]));
    }
    world.flush();
    let (used, tables) = (world.disk.space_used(), world.tables());
    for room in [0, 20 << 10, 100 << 10] {
        world.disk.space_limit(used + room);
        let error = world.keyspace.compact(&mut |_, _| ()).unwrap_err();
        assert!(error.is_no_space() && error.to_string().contains("space"), "{error}");
        assert_eq!((world.disk.space_used(), world.tables()), (used, tables), "what was written in vain is gone");
        world.environment.health.check().expect("nothing was promised");
        world.expect(&model);
    }
    world.disk.space_limit(u64::MAX);
    world.keyspace.compact(&mut |_, _| ()).unwrap();
    assert_eq!((world.stat("runs"), world.stat("levels"), world.stat("table_tombstones")), (0, 1, 0));
    world.expect(&model);
}
