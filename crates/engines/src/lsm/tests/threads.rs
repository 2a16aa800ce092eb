//! Threads, while memtables become tables.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::world::{ALL, Model, World, collect};
use crate::{engine::Engine, lsm::table::Kind};

const THREADS: u32 = 3;
/// Calls of a thread, and those after which it flushes: what it wrote since the last flush is in another run.
const CALLS: u32 = 4000;
const FLUSH_AFTER: u32 = 500;

/// One of the keys of a thread.
fn key(thread: u32, number: u32) -> Vec<u8> {
    (number.wrapping_mul(0x9E37_79B9) / THREADS * THREADS + thread).to_be_bytes().to_vec()
}

/// Writes and reads keys of its own, and flushes now and then.
fn work(world: &World, thread: u32) -> Model {
    let (mut random, mut model) = (SmallRng::seed_from_u64(thread.into()), Model::new());
    for call in 1..=CALLS {
        if call % FLUSH_AFTER == 0 {
            world.flush();
        }
        let key = key(thread, random.random_range(0..200));
        match random.random_range(0..10) {
            0..4 => {
                let value = vec![random.random(); random.random_range(0..100)];
                world.write(&key, Some(&value));
                model.insert(key, value);
            }
            4 => {
                world.write(&key, None);
                model.remove(&key);
            }
            _ => assert_eq!(world.keyspace.get(&key).unwrap().as_ref(), model.get(&key)),
        }
    }
    model
}

#[test]
fn threads_find_what_they_wrote_while_memtables_become_tables() {
    let (world, done) = (World::new(1, Kind::Linear), AtomicBool::new(false));
    let mut model = Model::new();
    thread::scope(|scope| {
        let world = &world;
        let workers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(world, thread))).collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let (forward, backward) = (collect(&world.keyspace, ALL, false), collect(&world.keyspace, ALL, true));
                assert!(forward.is_sorted_by(|a, b| a.0 < b.0) && backward.is_sorted_by(|a, b| a.0 > b.0));
            }
        });
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| model.extend(end.unwrap()));
    });
    world.expect(&model);
    assert!(world.stat("flushes") >= u64::from(CALLS / FLUSH_AFTER));
}
