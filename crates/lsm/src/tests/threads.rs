//! Threads that read and write while memtables become tables.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use ecotone_engine::contract::Get;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::{
    table::IndexKind,
    tests::fixture::{ALL, Fixture, Model, collect},
};

const THREADS: u32 = 3;
/// Calls of a thread, and calls between two of its flushes. So its writes are spread over several runs.
const CALLS: u32 = 4000;
const FLUSH_AFTER: u32 = 500;

/// One of the keys of a thread.
fn key(thread: u32, number: u32) -> Vec<u8> {
    (number.wrapping_mul(0x9E37_79B9) / THREADS * THREADS + thread).to_be_bytes().to_vec()
}

/// Writes and reads keys of its own, and flushes now and then.
fn work(fixture: &Fixture, thread: u32) -> Model {
    let (mut random, mut model) = (SmallRng::seed_from_u64(thread.into()), Model::new());
    for call in 1..=CALLS {
        if call % FLUSH_AFTER == 0 {
            fixture.flush();
        }
        let key = key(thread, random.random_range(0..200));
        match random.random_range(0..10) {
            0..4 => {
                let value = vec![random.random(); random.random_range(0..100)];
                fixture.write(&key, Some(&value));
                model.insert(key, value);
            }
            4 => {
                fixture.write(&key, None);
                model.remove(&key);
            }
            _ => assert_eq!(fixture.keyspace.get(&key).unwrap().as_ref(), model.get(&key)),
        }
    }
    model
}

#[test]
fn threads_find_what_they_wrote_while_memtables_become_tables() {
    let (fixture, done) = (Fixture::new(1, IndexKind::Linear), AtomicBool::new(false));
    let mut model = Model::new();
    thread::scope(|scope| {
        let fixture = &fixture;
        let workers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(fixture, thread))).collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let (forward, backward) =
                    (collect(&fixture.keyspace, ALL, false), collect(&fixture.keyspace, ALL, true));
                assert!(forward.is_sorted_by(|a, b| a.0 < b.0) && backward.is_sorted_by(|a, b| a.0 > b.0));
            }
        });
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| model.extend(end.unwrap()));
    });
    fixture.expect(&model);
    assert!(fixture.stat("flushes") >= u64::from(CALLS / FLUSH_AFTER));
}
