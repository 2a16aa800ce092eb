//! Whether what is flushed of pages goes into these at once or into a run, where nobody has chosen.

use std::{ops::Bound, thread, time::Duration};

use ecotone_substrate::Seq;
use ecotone_testkit::sim::{Phase, Walk};

use super::world::{Model, World, key, step};
use crate::{
    adaptive::{AdaptiveOptions, Insert},
    engine::{Engine, Hint, Ordered},
    lsm::LsmOptions,
};

const KEYS: u32 = 4000;
const SECOND: Duration = Duration::from_secs(1);

fn put(world: &mut World, model: &mut Model, numbers: impl Iterator<Item = u32>, byte: u8) {
    numbers.for_each(|number| world.put(model, number, Some(&[byte; 100])));
}

/// All keys in pages.
fn covered(insert: Insert) -> (World, Model) {
    covered_in(World::new(4, AdaptiveOptions { insert, ..AdaptiveOptions::default() }))
}

fn covered_in(mut world: World) -> (World, Model) {
    let mut model = Model::new();
    put(&mut world, &mut model, 0..KEYS, 0);
    world.flush();
    world.keyspace.absorb(&key(0), &key(KEYS)).unwrap();
    (world, model)
}

/// So many scans of ten records.
fn scan(world: &World, scans: u32) {
    for number in 0..scans {
        let from = number.wrapping_mul(2_654_435_761) % (KEYS - 10);
        let mut cursor = world.keyspace.clone().cursor((Bound::Included(key(from)), Bound::Unbounded));
        (0..10).for_each(|_| assert!(step(&mut *cursor, false).is_some()));
    }
}

fn is_pages(world: &World) -> bool {
    world.keyspace.lsm.lsm().counted(&key(0), &key(KEYS)).bytes == 0
}

#[test]
fn few_inserts_among_many_scans_go_into_pages_and_a_burst_into_runs() {
    let (mut world, mut model) = covered(Insert::Auto);
    for round in 1..=5 {
        scan(&world, 1000);
        put(&mut world, &mut model, (0..KEYS).skip(round as usize).step_by(100), round);
        world.flush();
        assert_eq!((is_pages(&world), world.stat("diverted_records")), (true, 40 * u64::from(round)));
    }
    world.expect(&model);
    // Too few for what it costs.
    scan(&world, 10);
    put(&mut world, &mut model, (0..KEYS).step_by(100), 6);
    world.flush();
    assert_eq!((is_pages(&world), world.stat("diverted_records")), (false, 200));
    world.keyspace.absorb(&key(0), &key(KEYS)).unwrap();
    scan(&world, 2000);
    // Without threads in the background a writer flushes when two memtables wait.
    put(&mut world, &mut model, 0..KEYS, 7);
    assert_eq!((is_pages(&world), world.stat("diverted_records"), world.stat("diversions_given_up")), (false, 200, 0));
    world.flush();
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

#[test]
fn scans_of_another_time_count_no_more() {
    let (mut world, mut model) = covered(Insert::Auto);
    scan(&world, 5000);
    world.pass(SECOND);
    for round in 0..2 {
        put(&mut world, &mut model, (0..KEYS).step_by(100), round);
        world.flush();
    }
    assert_eq!((is_pages(&world), world.stat("diverted_records")), (false, 40));
    world.expect(&model);
}

#[test]
fn what_somebody_has_said_comes_first() {
    let all = (Bound::Unbounded, Bound::Unbounded);
    for (hint, expected) in [(Hint::ReadMostly, true), (Hint::Auto, false)] {
        let (mut world, mut model) = covered(Insert::Auto);
        world.keyspace.hint(&all, hint).unwrap();
        put(&mut world, &mut model, (0..KEYS).step_by(100), 1);
        world.flush();
        assert_eq!(is_pages(&world), expected, "{hint:?}");
        world.expect(&model);
    }
    let (mut world, mut model) = covered(Insert::Batch);
    scan(&world, 5000);
    put(&mut world, &mut model, (0..KEYS).step_by(100), 1);
    world.flush();
    assert_eq!((is_pages(&world), world.stat("diverted_records")), (false, 0));
    world.expect(&model);
}

/// What is in pages by then is the same as in the run.
#[test]
fn a_flush_into_pages_is_given_up_when_another_memtable_waits() {
    for insert in [Insert::Auto, Insert::Tree] {
        let lsm = LsmOptions { memtable: Some(8 << 20), ..LsmOptions::default() };
        let (mut world, mut model) =
            covered_in(World::large(4, AdaptiveOptions { lsm, insert, ..AdaptiveOptions::default() }));
        scan(&world, 5000);
        // More than is brought into pages together.
        (0..KEYS).step_by(4).for_each(|number| world.put(&mut model, number, Some(&[1; 1500])));
        let keyspace = world.keyspace.clone();
        thread::scope(|scope| {
            let mut flush = Walk::new(scope, &[Phase::Pages], || keyspace.lsm.flush(Seq::MAX));
            assert!(flush.step().is_none());
            world.write(&key(0), Some(b"another"));
            model.insert(key(0), b"another".to_vec());
            world.keyspace.begin_flush(Seq::MAX);
            flush.finish().unwrap();
        });
        let given_up = u64::from(insert == Insert::Auto);
        assert_eq!((world.stat("diversions_given_up"), is_pages(&world)), (given_up, given_up == 0));
        world.flush();
        world.expect(&model);
    }
}
