//! Flushes that bring records into pages at once.

use std::{io::ErrorKind, iter, sync::Arc, thread, time::Duration};

use ecotone_substrate::Seq;
use ecotone_testkit::sim::{Phase, Walk};

use super::world::{ALL, Model, World, key, step};
use crate::{
    adaptive::{AdaptiveOptions, Insert},
    engine::{Engine, Ordered},
    tree::{ForecastKind, TreeOptions},
};

const KEYS: u32 = 1200;
/// Long enough for a thread to come to a mutex.
const WHILE: Duration = Duration::from_millis(20);

fn put(world: &mut World, model: &mut Model, numbers: impl Iterator<Item = u32>, value: Option<&[u8]>) {
    numbers.for_each(|number| world.put(model, number, value));
}

/// Keys of which those of a range are in pages, and of which all that is flushed goes there.
fn covered(lower: u32, upper: u32) -> (World, Model) {
    let tree = TreeOptions { segment_pages: 4, ..TreeOptions::default() };
    let options = AdaptiveOptions { tree, insert: Insert::Tree, ..AdaptiveOptions::default() };
    let (mut world, mut model) = (World::new(3, options), Model::new());
    put(&mut world, &mut model, 0..KEYS, Some(&[0; 90]));
    world.flush();
    world.keyspace.absorb(&key(lower), &key(upper)).unwrap();
    (world, model)
}

fn in_pages(world: &World, number: u32) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    world.keyspace.tree.find_in_pages(&key(number), &mut value).unwrap().then_some(value)
}

/// Bytes of tables that count in a range.
fn counting(world: &World, lower: u32, upper: u32) -> u64 {
    world.keyspace.lsm.lsm().counted(&key(lower), &key(upper)).bytes
}

/// What comes from tables into pages for the first time is no insert, and what is flushed into them is. An epoch may
/// end with each flush of a memtable.
#[test]
fn the_forecast_is_of_inserts_and_not_of_what_moves() {
    const MANY: u32 = 110_000;
    let tree = TreeOptions { forecast: ForecastKind::Trend, ..TreeOptions::default() };
    let mut world = World::unjudged(5, AdaptiveOptions { tree, insert: Insert::Tree, ..AdaptiveOptions::default() });
    (0..MANY).for_each(|number| world.write(&key(2 * number), Some(b"1")));
    world.flush();
    world.keyspace.absorb(&key(0), &key(2 * MANY)).unwrap();
    world.flush();
    assert_eq!(world.stat("forecast_kind"), ForecastKind::Off as u64, "it knows of no insert");
    (0..MANY).for_each(|number| world.write(&key(2 * number + 1), Some(b"1")));
    assert!(world.stat("diverted_records") > 100_000);
    assert_eq!(world.stat("forecast_kind"), ForecastKind::Trend as u64);
}

#[test]
fn what_is_flushed_of_pages_is_in_these_and_the_rest_in_a_run() {
    let (mut world, mut model) = covered(400, 800);
    for round in 1..=3 {
        put(&mut world, &mut model, (0..KEYS).step_by(7), Some(&[round; 60]));
        put(&mut world, &mut model, (0..KEYS).step_by(11), None);
        put(&mut world, &mut model, [KEYS + 5].into_iter(), Some(b"behind"));
        world.flush();
        assert_eq!(counting(&world, 400, 800), 0, "round {round}");
        assert!((400..800).all(|number| in_pages(&world, number).as_ref() == model.get(&key(number))));
        assert!((0..400).all(|number| in_pages(&world, number).is_none()) && counting(&world, 0, 400) > 0);
        world.expect(&model);
    }
    assert!(world.stat("covers") == 1 && world.stat("diverted_records") > 3 * 80);
    world.reopen();
    assert_eq!(counting(&world, 400, 800), 0);
    world.expect(&model);
}

/// What is below a run that counts is older than it.
#[test]
fn a_range_with_something_above_its_pages_gets_a_run_and_one_that_is_absorbed_again_does_not() {
    let (mut world, mut model) = covered(400, 800);
    world.keyspace.open(&key(400), &key(800)).unwrap();
    put(&mut world, &mut model, 500..520, Some(&[1; 60]));
    world.flush();
    assert!(counting(&world, 400, 800) > 0 && in_pages(&world, 500) == Some(vec![0; 90]));
    world.expect(&model);
    world.keyspace.absorb(&key(400), &key(800)).unwrap();
    put(&mut world, &mut model, 500..520, Some(&[2; 60]));
    world.flush();
    assert_eq!((counting(&world, 400, 800), in_pages(&world, 500)), (0, Some(vec![2; 60])));
    world.expect(&model);
}

/// Its watermark goes on without a table.
#[test]
fn a_flush_into_pages_alone_makes_a_version_and_no_table() {
    let (mut world, mut model) = covered(400, 800);
    let (before, tables) = (world.keyspace.lsm.lsm().version(), world.stat("tables"));
    put(&mut world, &mut model, (400..800).step_by(5), Some(&[1; 60]));
    assert!(world.keyspace.first_unflushed().is_some());
    world.flush();
    assert_eq!((world.keyspace.first_unflushed(), world.stat("tables")), (None, tables));
    assert!(!Arc::ptr_eq(&before, &world.keyspace.lsm.lsm().version()));
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

/// Trap 2: a page was read before what a memtable had came into it, and the memtable is gone at the next batch.
#[test]
fn trap_02_a_cursor_finds_what_came_into_a_page_that_it_had_read() {
    for reverse in [false, true] {
        let (mut world, mut model) = covered(0, KEYS);
        put(&mut world, &mut model, (0..KEYS).step_by(2), None);
        world.flush();
        put(&mut world, &mut model, (0..KEYS).step_by(2), Some(&[1; 60]));
        let mut cursor = world.keyspace.clone().cursor(ALL);
        let mut records: Vec<_> = (0..3).filter_map(|_| step(&mut *cursor, reverse)).collect();
        world.flush();
        records.extend(iter::from_fn(|| step(&mut *cursor, reverse)));
        if reverse {
            records.reverse();
        }
        assert!(records.into_iter().eq(model));
    }
}

/// Trap 5: whoever has a version from before a flush without tables finds the pages, too.
#[test]
fn trap_05_pages_stay_for_a_version_that_a_flush_without_tables_replaced() {
    let (mut world, mut model) = covered(0, KEYS);
    let mut cursor = world.keyspace.clone().cursor(ALL);
    let mut records: Vec<_> = (0..100).filter_map(|_| step(&mut *cursor, false)).collect();
    let seen = model.clone();
    put(&mut world, &mut model, [3].into_iter(), Some(&[1; 60]));
    world.flush();
    assert_eq!(counting(&world, 0, KEYS), 0);
    world.keyspace.uncover(&key(0), &key(KEYS)).unwrap();
    assert!(in_pages(&world, 700).is_some(), "somebody reads it");
    records.extend(iter::from_fn(|| step(&mut *cursor, false)));
    assert!(records.into_iter().eq(seen));
    drop(cursor);
    world.flush();
    while world.environment.scheduler.run_one() {}
    assert!(in_pages(&world, 700).is_none());
    world.expect(&model);
}

/// Trap 11: at each of its I/Os. What a memtable has stays there until all of it is in pages and in the run.
#[test]
fn trap_11_a_flush_into_pages_that_fails_changes_nothing_that_is_read() {
    let flush = |failure: Option<u64>| {
        let (mut world, mut model) = covered(300, 900);
        put(&mut world, &mut model, (0..KEYS).step_by(9), Some(&[1; 150]));
        put(&mut world, &mut model, (320..400).chain(850..950), None);
        let start = world.disk.io_index();
        failure.into_iter().for_each(|ahead| world.disk.fail_at(start + ahead, ErrorKind::Other));
        let flushed = world.keyspace.lsm.flush(Seq::MAX);
        assert_eq!(flushed.is_err(), failure.is_some(), "{failure:?}");
        let count = world.disk.io_index() - start;
        world.expect(&model);
        count
    };
    let all = flush(None);
    assert!(all > 20, "{all}");
    (0..all).for_each(|failure| _ = flush(Some(failure)));
}

/// Trap 15: what a page has is in the log as far as that is synced.
#[test]
fn trap_15_the_log_is_synced_before_a_page_is_written() {
    let (mut world, mut model) = covered(400, 800);
    put(&mut world, &mut model, (400..800).step_by(5), Some(&[1; 60]));
    let (tail, keyspace) = (world.tail(), world.keyspace.clone());
    thread::scope(|scope| {
        let mut flush = Walk::new(scope, &[Phase::Pages], || keyspace.lsm.flush(Seq::MAX));
        assert!(flush.step().is_none());
        assert!(world.synced() >= tail, "{} of {tail}", world.synced());
        flush.finish().unwrap();
    });
    world.expect(&model);
}

/// Where there is no space for pages there may be some for a run, and what is in pages already is the same.
#[test]
fn without_space_for_pages_all_goes_into_the_run() {
    let (mut world, mut model) = covered(0, KEYS);
    // Until the page file would have to grow.
    for round in 1.. {
        put(&mut world, &mut model, (0..KEYS).skip(usize::from(round)).step_by(70), Some(&[round; 1800]));
        let (keyspace, disk) = (world.keyspace.clone(), &world.disk);
        disk.space_limit(disk.space_used());
        thread::scope(|scope| {
            let mut flush = Walk::new(scope, &[Phase::Directory, Phase::Table], || keyspace.lsm.flush(Seq::MAX));
            let over = flush.step();
            disk.space_limit(u64::MAX);
            over.unwrap_or_else(|| flush.finish()).unwrap();
        });
        if world.stat("diversions_given_up") > 0 {
            break;
        }
        assert!(round < 60 && counting(&world, 0, KEYS) == 0, "{} bytes of pages", world.stat("used_bytes"));
    }
    assert!(counting(&world, 0, KEYS) > 0);
    // The run is above the pages, so what is newer has to come above it.
    put(&mut world, &mut model, 0..KEYS, Some(b"newer"));
    world.flush();
    world.environment.health.check().unwrap();
    world.expect(&model);
    world.keyspace.absorb(&key(0), &key(KEYS)).unwrap();
    put(&mut world, &mut model, (0..KEYS).step_by(70), Some(&[99; 1800]));
    world.flush();
    assert_eq!(counting(&world, 0, KEYS), 0);
    world.expect(&model);
}

/// Who reads pages to bring them into tables would miss what comes into them meanwhile.
#[test]
fn what_is_flushed_while_its_range_is_uncovered_goes_into_a_run() {
    for stop in 1.. {
        let (mut world, mut model) = covered(300, 900);
        let keyspace = world.keyspace.clone();
        let was_over = thread::scope(|scope| {
            let mut job = Walk::new(scope, &[Phase::Pages, Phase::Table], || keyspace.uncover(b"a", b"z"));
            if (0..stop).any(|_| job.step().is_some()) {
                return true;
            }
            put(&mut world, &mut model, (0..KEYS).step_by(7), Some(&[1; 60]));
            // The lsm's part alone, since pages may stand still.
            world.keyspace.lsm.flush(Seq::MAX).unwrap();
            job.finish().unwrap();
            false
        });
        world.expect(&model);
        if was_over {
            return assert!(stop > 10, "it has {stop} I/Os");
        }
    }
}

/// The other way round it waits. Nobody claims what lies at the bounds.
#[test]
fn a_range_is_uncovered_when_the_flush_that_brings_records_into_it_is_over() {
    for stop in 1.. {
        let (mut world, mut model) = covered(300, 900);
        put(&mut world, &mut model, (500..700).step_by(7), Some(&[1; 60]));
        let keyspace = world.keyspace.clone();
        let was_over = thread::scope(|scope| {
            let mut flush = Walk::new(scope, &[Phase::Pages], || keyspace.lsm.flush(Seq::MAX));
            if (0..stop).any(|_| flush.step().is_some()) {
                return true;
            }
            let job = scope.spawn(|| keyspace.uncover(b"a", b"z"));
            thread::sleep(WHILE);
            flush.finish().unwrap();
            job.join().unwrap().unwrap();
            false
        });
        world.expect(&model);
        if was_over {
            return assert!(stop > 3, "it has {stop} I/Os");
        }
        assert_eq!(world.stat("covers"), 0);
    }
}
