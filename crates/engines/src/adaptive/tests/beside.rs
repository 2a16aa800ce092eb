//! Absorptions that something else goes on beside.

use std::thread;

use ecotone_substrate::Seq;
use ecotone_testkit::sim::{Phase, Walk};

use super::world::{Model, World};
use crate::{adaptive::AdaptiveOptions, engine::Engine};

const KEYS: u32 = 1200;

fn key(number: u32) -> Vec<u8> {
    [&b"key "[..], &number.to_be_bytes()].concat()
}

fn put(world: &mut World, model: &mut Model, numbers: impl Iterator<Item = u32>, value: &[u8]) {
    for number in numbers {
        world.write(&key(number), Some(value));
        model.insert(key(number), value.to_vec());
    }
    // The lsm's part alone, since pages may stand still.
    world.keyspace.lsm.flush(Seq::MAX).unwrap();
}

/// What was flushed meanwhile is above what the job has, and is left for the next one.
#[test]
fn a_compaction_ends_though_something_is_flushed_in_each_absorption() {
    let (mut world, mut model) = (World::new(1, AdaptiveOptions::default()), Model::new());
    put(&mut world, &mut model, 0..KEYS, &[0; 100]);
    world.keyspace.absorb(&key(400), &key(800)).unwrap();
    for round in 1..=6 {
        put(&mut world, &mut model, (0..KEYS).step_by(4), &[round; 100]);
    }
    let (compactions, lsm) = (world.stat("compactions"), world.keyspace.lsm.lsm().clone());
    let (mut stops, mut flushed) = (0, 0);
    thread::scope(|scope| {
        let mut job = Walk::new(scope, &[Phase::Pages], || lsm.compact_next());
        let ended = loop {
            if let Some(ended) = job.step() {
                break ended;
            }
            stops += 1;
            if stops == 3 {
                put(&mut world, &mut model, 500..520, &[100; 50]);
                flushed = world.stat("runs");
            }
        };
        ended.unwrap();
    });
    assert!(stops > 3 && flushed > 6, "{stops} stops with {flushed} runs");
    assert_eq!(world.stat("compactions"), compactions + 1, "after {stops} stops");
    assert!(world.stat("runs") < flushed);
    world.expect(&model);
    while world.environment.scheduler.run_one() {}
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

/// By what was read of tables that an absorption ends, their indexes are chosen, as by what was read of others that are gone.
#[test]
fn what_was_read_of_tables_that_are_absorbed_is_not_forgotten() {
    let (mut world, mut model) = (World::new(2, AdaptiveOptions::default()), Model::new());
    put(&mut world, &mut model, 0..KEYS, &[0; 100]);
    (0..KEYS).for_each(|number| assert!(world.keyspace.get(&key(number)).unwrap().is_some()));
    let read = world.keyspace.lsm.lsm().reads();
    assert!(read >= u64::from(KEYS), "{read} blocks were read");
    world.keyspace.absorb(b"a", b"z").unwrap();
    assert_eq!(world.stat("tables"), 0);
    assert!(world.keyspace.lsm.lsm().reads() >= read);
}

/// So that the log is relieved by all keyspaces at a time.
#[test]
fn the_background_begins_with_a_flush_when_it_is_asked_to() {
    let mut world = World::new(3, AdaptiveOptions::default());
    world.write(b"key", Some(b"value"));
    world.keyspace.begin_flush(Seq::MAX);
    while world.environment.scheduler.run_one() {}
    assert_eq!((world.stat("runs"), world.keyspace.first_unflushed()), (1, None));
}
