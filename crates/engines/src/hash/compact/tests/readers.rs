//! Readers beside folds: what they came to stays as long as they have it (traps 5 and 7).

use std::{thread, time::Duration};

use ecotone_testkit::sim::{Phase, Walk};

use super::*;
use crate::hash::cold::{Lookup, Step};

fn filled() -> World {
    let world = World::new(1, false);
    for round in 0..4u32 {
        (0..400u32).for_each(|key| world.set(&(key * 7 + round).to_be_bytes(), &[round as u8; 100]));
        world.compact().unwrap();
    }
    world
}

/// A reader knows its block and has not read it when the partition is folded, its old base loses its name, and what it
/// has of the deltas could be punched.
#[test]
fn no_false_absence_on_a_block_read_that_a_fold_passes() {
    let world = filled();
    let key = 7u32.to_be_bytes();
    let hash = hash_of(&key);
    let partition = world.hash.cold.partition(hash, &world.hash.domain.pin());
    let mut step = Lookup::begin(partition, hash).unwrap();
    world.fold_all().unwrap();
    world.journal.sync();
    world.compactor().fold_if_due().unwrap();
    let (mut frame, mut value) = (world.frame(), Vec::new());
    let found = loop {
        step = match step {
            Step::Ended(found) => break found,
            Step::Reads(lookup) => {
                let (file, offset, len) = lookup.wanted();
                file.read(&mut frame[..len], offset).unwrap();
                lookup.resume(&key, &frame, &mut value).expect("the file is there for who has it open")
            }
        };
    };
    assert!(found && value == [0; 100]);
    assert_eq!(world.value(&key), Some(vec![0; 100]));
}

/// A search stands still before or behind the read of its block; meanwhile its record goes into another base, and the
/// file that it reads loses its name.
#[test]
fn trap_07_a_search_that_folds_pass_goes_on() {
    for stops in 1..=2 {
        let world = filled();
        world.fold_all().unwrap();
        world.journal.sync();
        let (key, before) = (7u32.to_be_bytes(), world.disk.files());
        thread::scope(|scope| {
            let mut search = Walk::new(scope, &[Phase::Table], || world.value(&key));
            assert!((0..stops).all(|_| search.step().is_none()), "it stands still at its read");
            (0..2_000u32).for_each(|other| world.set(&(100_000 + other).to_be_bytes(), &[1; 100]));
            world.compact().unwrap();
            world.fold_all().unwrap();
            world.journal.sync();
            let there = world.disk.files();
            assert!(
                !before.is_empty() && before.keys().all(|file| !there.contains_key(file)),
                "all bases were replaced"
            );
            assert_eq!((0..10).find_map(|_| search.step()), Some(Some(vec![0; 100])));
        });
    }
}

/// Compacts beside somebody who is pinned again and again, and has an entry that was there when he was pinned last
/// before BEGIN rose. Whether there was such a pin.
fn entry_outlasts_a_pin() -> bool {
    let world = World::new(1, true);
    world.set(b"key", b"value");
    let until = world.hash.log.close_page();
    world.hash.log.freeze(until);
    let begin = || world.hash.log.bounds().begin();
    let passed = thread::scope(|scope| {
        scope.spawn(|| world.compactor().compact(until).unwrap());
        while begin() < until {
            let pin = world.hash.domain.pin();
            let before = begin() < until;
            // Compaction waits for those who are pinned before it as well.
            (0..20).take_while(|_| begin() < until).for_each(|_| thread::yield_now());
            if before && begin() == until {
                for _ in 0..50 {
                    assert!(world.hash.table.find(hash_of(b"key"), &pin).is_some(), "its entry went under a pin");
                    thread::sleep(Duration::from_micros(100));
                }
                return true;
            }
        }
        false
    });
    assert!(world.hash.table.find(hash_of(b"key"), &world.hash.domain.pin()).is_none());
    assert_eq!(world.value(b"key"), Some(b"value".to_vec()));
    passed
}

/// Who has seen the BEGIN of before goes by what an entry has (trap 8).
#[test]
fn trap_08_an_entry_is_freed_when_nobody_is_pinned_who_saw_the_old_begin() {
    assert!((0..200).any(|_| entry_outlasts_a_pin()), "nobody was pinned when BEGIN rose");
}

/// Stretches of deltas are punched when their fold is synced and their readers are gone, not before.
#[test]
fn trap_05_a_stretch_is_punched_when_nobody_reads_it_and_the_fold_is_synced() {
    let mut world = filled();
    for _ in 0..3 {
        world.fold_all().unwrap();
        (0..500u32).for_each(|key| world.set(&key.to_be_bytes(), &[7; 100]));
        world.compact().unwrap();
    }
    world.fold_all().unwrap();
    world.goals.largest_base = u64::MAX;
    (0..4_000u32).for_each(|key| world.set(&key.to_be_bytes(), &[9; 40]));
    world.compact().unwrap();
    let partition = world.hash.cold.partition(0, &world.hash.domain.pin());
    let (hashes, delta) = (partition.stretch().hashes(), partition.runs().next().unwrap());
    let mut frame = world.frame();
    let mut is_there = || delta.read(delta.blocks_of(&hashes).start, &mut frame).is_ok();
    let punch = || world.hash.cold.punch(|record| world.journal.is_synced(record)).unwrap();
    let punched = || {
        let used = world.disk.space_used();
        punch();
        used - world.disk.space_used()
    };
    assert!(world.compactor().fold_any().unwrap());
    assert_eq!(world.hash.cold.runs().deltas().len(), 1, "other partitions need it");
    world.journal.sync();
    assert!(punched() == 0 && is_there(), "it has a reader");
    drop(partition);
    assert!(punched() > 0 && !is_there());
    assert!(world.compactor().fold_any().unwrap());
    assert_eq!(punched(), 0, "the record is not synced");
    world.journal.sync();
    assert!(punched() > 0);
    world.check_runs();
    (0..4_000u32).for_each(|key| assert_eq!(world.value(&key.to_be_bytes()), Some(vec![9; 40])));
}
