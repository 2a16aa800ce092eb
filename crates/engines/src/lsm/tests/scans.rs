//! Cursors, while what they go through changes.

use std::{iter, ops::Bound, sync::Arc, thread};

use ecotone_substrate::{Seq, memory::Component, storage::FileId};
use ecotone_sys::chunk::Size;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::world::{ALL, Model, World, collect, step};
use crate::{
    engine::{Engine, Ordered, Range},
    lsm::{
        family::Sizes,
        keyspace::LsmKeyspace,
        options::LsmOptions,
        table::{Compression, Kind},
    },
    tests::{
        cursors::{Said, change, go_through},
        stat,
    },
};

const KEYS: u32 = 600;
const RUNS: u64 = 5;

fn key(number: u32) -> Vec<u8> {
    [&b"key "[..], &number.to_be_bytes()].concat()
}

/// Keys of which most are settled: half of them there, and others deleted one behind the other. They are in several
/// runs and memtables.
fn settled(world: &World, random: &mut SmallRng) -> Said {
    let mut said = Said::new();
    for round in 0..3 {
        for number in 0..KEYS {
            let is_gone = (number / 150).is_multiple_of(2) && round == 2;
            if random.random_bool(0.6) || is_gone {
                let value = (!is_gone).then(|| vec![number as u8 ^ round; 40]);
                world.write(&key(number), value.as_deref());
                said.insert(key(number), vec![value]);
            }
        }
        if round < 2 {
            world.flush();
        }
    }
    said
}

/// Trap 2: a scan between memory and disk. Its ends are held at any point while others write and memtables become
/// tables.
#[test]
fn trap_02_a_cursor_gives_each_key_once_with_what_it_said_since_it_was_made() {
    for seed in 0..30 {
        let (world, mut random) = (World::new(seed, Kind::ALL[seed as usize % 3]), SmallRng::seed_from_u64(seed));
        let mut said = settled(&world, &mut random);
        let cursor = world.keyspace.clone().cursor(ALL);
        let given = go_through(cursor, seed, &mut random, &mut said, |random, said| {
            match random.random_range(0..40) {
                0..10 => change(said, KEYS, random, |key, value| world.write(key, value)),
                10 if world.stat("runs") < 40 => world.flush(),
                11 => _ = world.environment.scheduler.run_one(),
                _ => return true,
            }
            false
        });
        assert!(given > 200, "seed {seed}");
    }
}

/// A cursor holds no memory of memtables.
#[test]
fn an_idle_cursor_keeps_its_tables_and_no_memtable() {
    let world = World::new(1, Kind::Linear);
    (0..2 * KEYS).for_each(|number| world.write(&key(number), Some(&[1; 40])));
    let mut cursor = world.keyspace.clone().cursor(ALL);
    assert!(step(&mut *cursor, false).unwrap().is_some() && step(&mut *cursor, true).unwrap().is_some());
    let before = world.stat("memtable_bytes");
    world.flush();
    let slab = Size::Slab.bytes() as u64;
    assert!(before >= 2 * slab && world.stat("memtable_bytes") <= slab);
    let mut left = 0;
    while step(&mut *cursor, false).unwrap().is_some() {
        left += 1;
    }
    assert_eq!(left, 2 * KEYS - 2);
}

/// A keyspace of so many records of 100 bytes, in tables of so many bytes.
fn loaded(records: u32, table: u64) -> (World, u32) {
    let world = World::with(1, Kind::Linear, Sizes { table, ..Sizes::TINY });
    let mut all = (0..records).map(|number| Ok((key(number), vec![1; 100])));
    assert_eq!(world.keyspace.clone().bulk_load(&mut all).unwrap(), u64::from(records));
    (world, records)
}

/// Requests that a call makes.
fn reads(world: &World, call: impl FnOnce()) -> u64 {
    let before = world.reads();
    call();
    world.reads() - before
}

#[test]
fn a_long_scan_reads_many_blocks_at_a_time_and_a_short_one_few() {
    let (world, records) = loaded(20_000, 1 << 20);
    let tables = world.stat("tables");
    assert!(tables >= 2);
    for reverse in [false, true] {
        // Indexes are loaded.
        assert_eq!(
            collect(&world.keyspace, (Bound::Included(key(9_000)), Bound::Excluded(key(9_001))), reverse).len(),
            1
        );
        let all = reads(&world, || assert_eq!(collect(&world.keyspace, ALL, reverse).len(), records as usize));
        assert!(all > 30 && all <= 500 / 16 + 8 * tables, "{all} reads of {tables} tables");
        for first in (0..records - 50).step_by(777) {
            let range = (Bound::Included(key(first)), Bound::Excluded(key(first + 50)));
            let few = reads(&world, || assert_eq!(collect(&world.keyspace, range, reverse).len(), 50));
            assert!(few <= 4, "{few} reads for 50 records from {first} on");
        }
    }
}

/// Scans of six blocks or so, then of one or two, of which nothing is in memory.
#[test]
fn a_read_takes_as_many_blocks_as_scans_went_on_for_lately() {
    let (world, records) = loaded(20_000, 4 << 20);
    assert_eq!(world.stat("tables"), 1);
    let scan = |first: u32, length: u32, reverse| {
        let range = (Bound::Included(key(first)), Bound::Excluded(key(first + length)));
        assert_eq!(collect(&world.keyspace, range, reverse).len(), length as usize);
    };
    let requests = |length, reverse| {
        reads(&world, || {
            for first in (0..records - length).step_by(777) {
                world.keyspace.forget_blocks();
                scan(first, length, reverse);
            }
        })
    };
    for reverse in [false, true] {
        for length in [200, 20] {
            (0..5000).for_each(|number| scan(number * 37 % (records - length), length, reverse));
            let scans = f64::from((records - length).div_ceil(777));
            let each = requests(length, reverse) as f64 / scans;
            assert!(each <= 1.2, "{each} requests for {length} records");
        }
    }
}

/// There is memory for blocks one by one, from table to table.
#[test]
fn a_long_scan_goes_on_where_there_is_no_memory_to_spare() {
    let (world, records) = loaded(10_000, 256 << 10);
    assert!(world.stat("tables") > 3);
    let slab = || world.environment.memory.lease_essential(Component::Other, Size::Slab).ok();
    let mut taken: Vec<_> = iter::from_fn(slab).collect();
    drop(taken.pop());
    for reverse in [false, true] {
        assert_eq!(collect(&world.keyspace, ALL, reverse).len(), records as usize);
    }
}

/// Three of them are few, and go down no sooner.
#[test]
fn scans_pay_for_runs_to_become_one() {
    let (world, mut model) = (World::new(1, Kind::Linear), Model::new());
    for round in 0..3_u8 {
        (0..50).for_each(|number| {
            world.write_both(&mut model, &key(3 * number + u32::from(round)), Some(vec![round; 40]))
        });
        world.flush();
    }
    let runs = || {
        while world.keyspace.lsm().compact_next().unwrap() {}
        world.stat("runs")
    };
    // A table has 16 KiB at least; no more is paid at once than two take.
    for left in [3, 2, 1] {
        assert_eq!(runs(), left);
        (0..3).for_each(|_| world.expect(&model));
        assert_eq!(runs(), left, "little is paid");
        (0..130).for_each(|_| world.expect(&model));
    }
    assert_eq!((runs(), world.keyspace.lsm().toll.paid()), (1, 0), "one costs nothing");
}

/// Runs of level 0 that have the same keys, and of which no index is in memory.
fn runs() -> (World, Arc<LsmKeyspace>) {
    let world = World::new(1, Kind::Linear);
    for round in 0..RUNS {
        (0..KEYS / 2).for_each(|number| world.write(&key(number), Some(&[round as u8; 40])));
        world.flush();
    }
    let keyspace = world.reopened();
    assert_eq!((stat(&keyspace.stats(), "runs"), stat(&keyspace.stats(), "index_bytes")), (RUNS, 0));
    (world, keyspace)
}

/// Ten keys from the middle.
fn ten() -> Range {
    (Bound::Included(key(200)), Bound::Excluded(key(210)))
}

/// Reads of a scan while one of them is held.
fn reads_beside(world: &World, keyspace: &Arc<LsmKeyspace>, (file, offset): (FileId, u64), reverse: bool) -> u64 {
    let before = world.reads();
    world.disk.hold(file, offset);
    thread::scope(|scope| {
        let scan = scope.spawn(|| collect(keyspace, ten(), reverse));
        world.disk.wait_blocked(file, offset);
        let beside = world.reads() - before;
        world.disk.release(file, offset);
        assert_eq!(scan.join().unwrap().len(), 10);
        beside
    })
}

/// The index, or the first block, of one source cannot be read for the time being: those of all others are.
#[test]
fn the_sources_of_a_scan_begin_together() {
    for reverse in [false, true] {
        let (world, keyspace) = runs();
        let version = keyspace.lsm().version();
        let bound = key(if reverse { 210 } else { 200 });
        for (_, run) in version.runs().take(2) {
            let handle = run.covering(&bound).expect("each run has the key");
            if handle.located(&bound).is_err() {
                let index = (handle.table().name().file(), handle.table().index_at());
                assert_eq!(reads_beside(&world, &keyspace, index, reverse), RUNS - 1);
            }
            keyspace.forget_blocks();
            let first = handle.located(&bound).expect("it was loaded").first;
            let block = (handle.table().name().file(), handle.table().block_at(first));
            assert_eq!(reads_beside(&world, &keyspace, block, reverse), RUNS - 1);
        }
    }
}

#[test]
fn a_first_read_that_fails_ends_the_scan_and_not_the_next_one() {
    for reverse in [false, true] {
        let (world, keyspace) = runs();
        let fail = |failure| {
            world.fail_io(failure);
            let mut cursor = keyspace.clone().cursor(ten());
            assert!(step(&mut *cursor, reverse).is_err(), "{failure}");
            assert!(step(&mut *cursor, reverse).unwrap().is_none());
        };
        // Of the indexes.
        (0..RUNS).for_each(fail);
        assert_eq!(collect(&keyspace, ten(), reverse).len(), 10);
        // Of the blocks.
        keyspace.forget_blocks();
        (0..RUNS).for_each(fail);
        assert_eq!(collect(&keyspace, ten(), reverse).len(), 10);
        assert_eq!(stat(&keyspace.stats(), "index_loads"), RUNS, "none is loaded twice");
    }
}

/// A compaction, whose tables are others, keeps them in memory, and nothing of the tables that are gone.
#[test]
fn blocks_that_short_scans_come_to_again_are_read_once() {
    for compression in [Compression::None, Compression::Lz4] {
        let world = World::new(1, Kind::Linear);
        let options = LsmOptions { compression, ..LsmOptions::default() };
        let keyspace = world.another_with(3, options, Sizes { level_0: u64::MAX, ..Sizes::TINY });
        let fill = |value: u8| {
            (0..KEYS / 2).for_each(|number| world.write_to(&keyspace, &key(number), Some(&[value; 40])));
            keyspace.flush(Seq::MAX).unwrap();
        };
        let scan = |reverse, value: u8| {
            reads(&world, || {
                let found = collect(&keyspace, ten(), reverse);
                assert!(found.len() == 10 && found.iter().all(|(_, found)| *found == [value; 40]));
            })
        };
        (1..=RUNS as u8).for_each(fill);
        assert!(scan(false, RUNS as u8) > RUNS, "blocks and indexes, {compression:?}");
        // Forward and backward may begin in blocks that lie side by side.
        assert_eq!(scan(false, RUNS as u8), 0, "{compression:?}");
        scan(true, RUNS as u8);
        assert_eq!(scan(true, RUNS as u8), 0, "{compression:?}");
        assert!(stat(&keyspace.stats(), "block_cache_hits") >= 2 * RUNS);
        fill(77);
        let found = scan(false, 77);
        assert!((1..=2).contains(&found), "index and block of the run that is new: {found} reads, {compression:?}");
        let before = stat(&keyspace.stats(), "block_cache_pages");
        keyspace.compact(&mut |_, _| ()).unwrap();
        let pages = stat(&keyspace.stats(), "block_cache_pages");
        assert!(before > RUNS && (1..=4).contains(&pages), "{before} pages and then {pages}, {compression:?}");
        assert!(scan(false, 77) <= 1, "the index, {compression:?}");
        assert_eq!(scan(false, 77), 0, "{compression:?}");
    }
}

#[test]
fn a_long_scan_leaves_the_block_cache_as_it_is() {
    let (world, records) = loaded(20_000, 1 << 20);
    for reverse in [false, true] {
        assert_eq!(collect(&world.keyspace, ALL, reverse).len(), records as usize);
    }
    let (pages, tables) = (world.stat("block_cache_pages"), world.stat("tables"));
    assert!(pages <= 4 * tables, "{pages} pages of {tables} tables are kept");
}

#[test]
fn a_cursor_of_a_dropped_keyspace_ends_with_an_error() {
    let world = World::new(1, Kind::Linear);
    (0..KEYS).for_each(|number| world.write(&key(number), Some(&[1; 40])));
    let mut cursor = world.keyspace.clone().cursor(ALL);
    assert!(step(&mut *cursor, false).unwrap().is_some());
    world.keyspace.retire();
    let mut given = 0;
    let error = loop {
        match step(&mut *cursor, false) {
            Ok(Some(_)) => given += 1,
            Ok(None) => panic!("it ended without an error"),
            Err(error) => break error,
        }
    };
    assert!(given < 10 && error.to_string().contains("closed"), "{given} records and then: {error}");
    assert!(step(&mut *cursor, false).unwrap().is_none() && step(&mut *cursor, true).unwrap().is_none());
    assert!(world.keyspace.get(&key(1)).is_err());
}
