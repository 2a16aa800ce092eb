//! Cursors over a keyspace that changes meanwhile, and the reads that scans cause.

use std::{iter, ops::Bound, sync::Arc, thread};

use ecotone_engine::contract::{Compactable, Engine, Get, Ordered, Range};
use ecotone_substrate::{Seq, memory::Component, storage::FileId};
use ecotone_sys::chunk::Size;
use ecotone_testkit::engine::{
    cursors::{Said, change, go_through},
    stat,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::{
    keyspace::LsmKeyspace,
    options::LsmOptions,
    table::{Compression, IndexKind},
    tests::fixture::{ALL, Fixture, Model, collect, step},
    tuning::Tuning,
};

const KEYS: u32 = 600;
const RUNS: u64 = 5;

fn key(number: u32) -> Vec<u8> {
    [&b"key "[..], &number.to_be_bytes()].concat()
}

/// Writes keys to several runs and memtables. Half of the keys are in deleted ranges.
fn settled(fixture: &Fixture, random: &mut SmallRng) -> Said {
    let mut said = Said::new();
    for round in 0..3 {
        for number in 0..KEYS {
            let is_gone = (number / 150).is_multiple_of(2) && round == 2;
            if random.random_bool(0.6) || is_gone {
                let value = (!is_gone).then(|| vec![number as u8 ^ round; 40]);
                fixture.write(&key(number), value.as_deref());
                said.insert(key(number), vec![value]);
            }
        }
        if round < 2 {
            fixture.flush();
        }
    }
    said
}

/// Trap 2: a scan between memory and disk. Its ends stop at any point while writers write and memtables become tables.
#[test]
fn trap_02_a_cursor_gives_each_key_once_with_what_it_said_since_it_was_made() {
    for seed in 0..30 {
        let (fixture, mut random) =
            (Fixture::new(seed, IndexKind::ALL[seed as usize % 3]), SmallRng::seed_from_u64(seed));
        let mut said = settled(&fixture, &mut random);
        let cursor = fixture.keyspace.clone().cursor(ALL);
        let given = go_through(cursor, seed, &mut random, &mut said, |random, said| {
            match random.random_range(0..40) {
                0..10 => change(said, KEYS, random, |key, value| fixture.write(key, value)),
                10 if fixture.stat("runs") < 40 => fixture.flush(),
                11 => _ = fixture.environment.scheduler.run_one(),
                _ => return true,
            }
            false
        });
        assert!(given > 200, "seed {seed}");
    }
}

/// A cursor pins no memtable.
#[test]
fn an_idle_cursor_keeps_its_tables_and_no_memtable() {
    let fixture = Fixture::new(1, IndexKind::Linear);
    (0..2 * KEYS).for_each(|number| fixture.write(&key(number), Some(&[1; 40])));
    let mut cursor = fixture.keyspace.clone().cursor(ALL);
    assert!(step(&mut *cursor, false).unwrap().is_some() && step(&mut *cursor, true).unwrap().is_some());
    let before = fixture.stat("memtable_bytes");
    fixture.flush();
    let slab = Size::Slab.bytes() as u64;
    assert!(before >= 2 * slab && fixture.stat("memtable_bytes") <= slab);
    let mut left = 0;
    while step(&mut *cursor, false).unwrap().is_some() {
        left += 1;
    }
    assert_eq!(left, 2 * KEYS - 2);
}

/// A keyspace of `records` records of 100 bytes, in tables of `table` bytes.
fn loaded(records: u32, table: u64) -> (Fixture, u32) {
    let fixture = Fixture::with(1, IndexKind::Linear, Tuning { table, ..Tuning::TINY });
    let mut all = (0..records).map(|number| Ok((key(number), vec![1; 100])));
    assert_eq!(fixture.keyspace.clone().bulk_load(&mut all).unwrap(), u64::from(records));
    (fixture, records)
}

/// Read requests that a call makes.
fn reads(fixture: &Fixture, call: impl FnOnce()) -> u64 {
    let before = fixture.reads();
    call();
    fixture.reads() - before
}

#[test]
fn a_long_scan_reads_many_blocks_at_a_time_and_a_short_one_few() {
    let (fixture, records) = loaded(20_000, 1 << 20);
    let tables = fixture.stat("tables");
    assert!(tables >= 2);
    for reverse in [false, true] {
        // This loads the indexes.
        assert_eq!(
            collect(&fixture.keyspace, (Bound::Included(key(9_000)), Bound::Excluded(key(9_001))), reverse).len(),
            1
        );
        let all = reads(&fixture, || assert_eq!(collect(&fixture.keyspace, ALL, reverse).len(), records as usize));
        assert!(all > 30 && all <= 500 / 16 + 8 * tables, "{all} reads of {tables} tables");
        for first in (0..records - 50).step_by(777) {
            let range = (Bound::Included(key(first)), Bound::Excluded(key(first + 50)));
            let few = reads(&fixture, || assert_eq!(collect(&fixture.keyspace, range, reverse).len(), 50));
            assert!(few <= 4, "{few} reads for 50 records from {first} on");
        }
    }
}

/// Scans of about six blocks, then of one or two, with no block in memory.
#[test]
fn a_read_takes_as_many_blocks_as_scans_went_on_for_lately() {
    let (fixture, records) = loaded(20_000, 4 << 20);
    assert_eq!(fixture.stat("tables"), 1);
    let scan = |first: u32, length: u32, reverse| {
        let range = (Bound::Included(key(first)), Bound::Excluded(key(first + length)));
        assert_eq!(collect(&fixture.keyspace, range, reverse).len(), length as usize);
    };
    let requests = |length, reverse| {
        reads(&fixture, || {
            for first in (0..records - length).step_by(777) {
                fixture.keyspace.forget_blocks();
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

/// There is memory for only one block at a time, from table to table.
#[test]
fn a_long_scan_goes_on_where_there_is_no_memory_to_spare() {
    let (fixture, records) = loaded(10_000, 256 << 10);
    assert!(fixture.stat("tables") > 3);
    let slab = || fixture.environment.memory.lease_essential(Component::Other, Size::Slab).ok();
    let mut taken: Vec<_> = iter::from_fn(slab).collect();
    drop(taken.pop());
    for reverse in [false, true] {
        assert_eq!(collect(&fixture.keyspace, ALL, reverse).len(), records as usize);
    }
}

/// Three runs are few, and would not be compacted otherwise.
#[test]
fn scans_pay_for_runs_to_become_one() {
    let (fixture, mut model) = (Fixture::new(1, IndexKind::Linear), Model::new());
    for round in 0..3_u8 {
        (0..50).for_each(|number| {
            fixture.write_both(&mut model, &key(3 * number + u32::from(round)), Some(vec![round; 40]))
        });
        fixture.flush();
    }
    let runs = || {
        while fixture.keyspace.lsm().compact_next().unwrap() {}
        fixture.stat("runs")
    };
    // A table has 16 KiB at least. Scans pay for about the bytes of two at most.
    for left in [3, 2, 1] {
        assert_eq!(runs(), left);
        (0..3).for_each(|_| fixture.expect(&model));
        assert_eq!(runs(), left, "little is paid");
        (0..130).for_each(|_| fixture.expect(&model));
    }
    assert_eq!((runs(), fixture.keyspace.lsm().compactor.read_budget.available()), (1, 0), "one costs nothing");
}

/// L0 runs with the same keys, and no index in memory.
fn runs() -> (Fixture, Arc<LsmKeyspace>) {
    let fixture = Fixture::new(1, IndexKind::Linear);
    for round in 0..RUNS {
        (0..KEYS / 2).for_each(|number| fixture.write(&key(number), Some(&[round as u8; 40])));
        fixture.flush();
    }
    let keyspace = fixture.reopened();
    assert_eq!((stat(&keyspace.stats(), "runs"), stat(&keyspace.stats(), "index_bytes")), (RUNS, 0));
    (fixture, keyspace)
}

/// Ten keys from the middle.
fn ten() -> Range {
    (Bound::Included(key(200)), Bound::Excluded(key(210)))
}

/// The number of reads of a scan while one of them is held.
fn reads_beside(fixture: &Fixture, keyspace: &Arc<LsmKeyspace>, (file, offset): (FileId, u64), reverse: bool) -> u64 {
    let before = fixture.reads();
    fixture.disk.hold(file, offset);
    thread::scope(|scope| {
        let scan = scope.spawn(|| collect(keyspace, ten(), reverse));
        fixture.disk.wait_blocked(file, offset);
        let beside = fixture.reads() - before;
        fixture.disk.release(file, offset);
        assert_eq!(scan.join().unwrap().len(), 10);
        beside
    })
}

/// While the read of one source's index, or of its first block, is held, those of all other sources are read.
#[test]
fn the_sources_of_a_scan_begin_together() {
    for reverse in [false, true] {
        let (fixture, keyspace) = runs();
        let version = keyspace.lsm().version();
        let bound = key(if reverse { 210 } else { 200 });
        for (_, run) in version.runs().take(2) {
            let reader = run.table_for(&bound).expect("each run has the key");
            if reader.located(&bound).is_err() {
                let index = (reader.table().name().file(), reader.table().index_at());
                assert_eq!(reads_beside(&fixture, &keyspace, index, reverse), RUNS - 1);
            }
            keyspace.forget_blocks();
            let first = reader.located(&bound).expect("it was loaded").first;
            let block = (reader.table().name().file(), reader.table().block_at(first));
            assert_eq!(reads_beside(&fixture, &keyspace, block, reverse), RUNS - 1);
        }
    }
}

#[test]
fn a_first_read_that_fails_ends_the_scan_and_not_the_next_one() {
    for reverse in [false, true] {
        let (fixture, keyspace) = runs();
        let fail = |failure| {
            fixture.fail_io(failure);
            let mut cursor = keyspace.clone().cursor(ten());
            assert!(step(&mut *cursor, reverse).is_err(), "{failure}");
            assert!(step(&mut *cursor, reverse).unwrap().is_none());
        };
        // Reads of the indexes fail.
        (0..RUNS).for_each(fail);
        assert_eq!(collect(&keyspace, ten(), reverse).len(), 10);
        // Reads of the blocks fail.
        keyspace.forget_blocks();
        (0..RUNS).for_each(fail);
        assert_eq!(collect(&keyspace, ten(), reverse).len(), 10);
        assert_eq!(stat(&keyspace.stats(), "index_loads"), RUNS, "none is loaded twice");
    }
}

/// A compaction keeps cached blocks in the cache although it replaces their tables, and frees those of the old tables.
#[test]
fn blocks_that_short_scans_come_to_again_are_read_once() {
    for compression in [Compression::None, Compression::Lz4] {
        let fixture = Fixture::new(1, IndexKind::Linear);
        let options = LsmOptions { compression, ..LsmOptions::default() };
        let keyspace = fixture.another_with(3, options, Tuning { l0_target: u64::MAX, ..Tuning::TINY });
        let fill = |value: u8| {
            (0..KEYS / 2).for_each(|number| fixture.write_to(&keyspace, &key(number), Some(&[value; 40])));
            keyspace.flush(Seq::MAX).unwrap();
        };
        let scan = |reverse, value: u8| {
            reads(&fixture, || {
                let found = collect(&keyspace, ten(), reverse);
                assert!(found.len() == 10 && found.iter().all(|(_, found)| *found == [value; 40]));
            })
        };
        (1..=RUNS as u8).for_each(fill);
        assert!(scan(false, RUNS as u8) > RUNS, "blocks and indexes, {compression:?}");
        // A forward and a backward scan may begin in adjacent blocks.
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
    let (fixture, records) = loaded(20_000, 1 << 20);
    for reverse in [false, true] {
        assert_eq!(collect(&fixture.keyspace, ALL, reverse).len(), records as usize);
    }
    let (pages, tables) = (fixture.stat("block_cache_pages"), fixture.stat("tables"));
    assert!(pages <= 4 * tables, "{pages} pages of {tables} tables are kept");
}

#[test]
fn a_cursor_of_a_dropped_keyspace_ends_with_an_error() {
    let fixture = Fixture::new(1, IndexKind::Linear);
    (0..KEYS).for_each(|number| fixture.write(&key(number), Some(&[1; 40])));
    let mut cursor = fixture.keyspace.clone().cursor(ALL);
    assert!(step(&mut *cursor, false).unwrap().is_some());
    fixture.keyspace.mark_dropped();
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
    assert!(fixture.keyspace.get(&key(1)).is_err());
}
