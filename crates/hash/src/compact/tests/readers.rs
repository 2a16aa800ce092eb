//! Readers beside merges into the base: the files that a reader has reached stay as long as it holds them (traps 5 and
//! 7).

use std::thread;

use ecotone_testkit::sim::{Phase, SteppedThread};

use super::*;
use crate::cold::{Lookup, Step};

fn filled() -> Fixture {
    let fixture = Fixture::new(1, false);
    for round in 0..4u32 {
        (0..400u32).for_each(|key| fixture.set(&(key * 7 + round).to_be_bytes(), &[round as u8; 100]));
        fixture.compact().unwrap();
    }
    fixture
}

/// A reader has chosen its block and has not read it when the partition is merged, its old base is removed, and the
/// partition's blocks of the deltas could be punched.
#[test]
fn no_false_absence_on_a_block_read_that_a_base_merge_passes() {
    let fixture = filled();
    let key = 7u32.to_be_bytes();
    let hash = hash_of(&key);
    let partition = fixture.hash.cold.partition(hash, &fixture.hash.chains.domain.pin());
    let mut step = Lookup::begin(partition, hash).unwrap();
    fixture.merge_all_bases().unwrap();
    fixture.journal.sync();
    fixture.compactor().merge_base_if_due().unwrap();
    let (mut frame, mut value) = (fixture.frame(), Vec::new());
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
    assert_eq!(fixture.value(&key), Some(vec![0; 100]));
}

/// A search pauses before or after the read of its block; meanwhile its record goes into another base, and the file
/// that it reads is removed.
#[test]
fn trap_07_a_search_that_base_merges_pass_goes_on() {
    for stops in 1..=2 {
        let fixture = filled();
        fixture.merge_all_bases().unwrap();
        fixture.journal.sync();
        let (key, before) = (7u32.to_be_bytes(), fixture.disk.files());
        thread::scope(|scope| {
            let mut search = SteppedThread::new(scope, &[Phase::Table], || fixture.value(&key));
            assert!((0..stops).all(|_| search.step().is_none()), "it stands still at its read");
            (0..2_000u32).for_each(|other| fixture.set(&(100_000 + other).to_be_bytes(), &[1; 100]));
            fixture.compact().unwrap();
            fixture.merge_all_bases().unwrap();
            fixture.journal.sync();
            let there = fixture.disk.files();
            assert!(
                !before.is_empty() && before.keys().all(|file| !there.contains_key(file)),
                "all bases were replaced"
            );
            assert_eq!((0..10).find_map(|_| search.step()), Some(Some(vec![0; 100])));
        });
    }
}

/// A thread that has seen the old BEGIN follows the entry that it has read (trap 8). Compaction frees entries below
/// CLEARABLE alone; M6 has the orders of the threads.
#[test]
fn trap_08_entries_may_be_freed_when_nobody_is_pinned_who_saw_the_old_begin() {
    let fixture = Fixture::new(1, true);
    fixture.set(b"key", b"value");
    let until = fixture.hash.chains.log.close_page();
    fixture.hash.chains.log.freeze(until);
    let (bounds, domain) = (fixture.hash.chains.log.bounds(), &fixture.hash.chains.domain);
    let pin = domain.pin();
    assert!(bounds.begin() < until);
    drop(fixture.hash.chains.log.truncate(until, drop));
    // Runs everything that waits for no pin.
    domain.bump(|| ());
    assert!(bounds.begin() == until && bounds.clearable() < until, "a pin may follow the entry");
    drop(pin);
    domain.drain();
    assert_eq!(bounds.clearable(), until);
    assert!(fixture.hash.chains.index.find(hash_of(b"key"), &domain.pin()).is_some());
    fixture.hash.chains.clear_entries(until);
    assert!(fixture.hash.chains.index.find(hash_of(b"key"), &domain.pin()).is_none());
}

/// Blocks of deltas are punched when their merge is synced and their readers are gone, not before.
#[test]
fn trap_05_a_hash_range_is_punched_when_nobody_reads_it_and_the_base_merge_is_synced() {
    let mut fixture = filled();
    for _ in 0..3 {
        fixture.merge_all_bases().unwrap();
        (0..500u32).for_each(|key| fixture.set(&key.to_be_bytes(), &[7; 100]));
        fixture.compact().unwrap();
    }
    fixture.merge_all_bases().unwrap();
    fixture.limits.largest_base = u64::MAX;
    (0..4_000u32).for_each(|key| fixture.set(&key.to_be_bytes(), &[9; 40]));
    fixture.compact().unwrap();
    let partition = fixture.hash.cold.partition(0, &fixture.hash.chains.domain.pin());
    let (hashes, delta) = (partition.hash_range().hashes(), partition.runs().next().unwrap());
    let mut frame = fixture.frame();
    let mut is_there = || delta.read(delta.blocks_of(&hashes).start, &mut frame).is_ok();
    let punch = || fixture.hash.cold.punch(|record| fixture.journal.is_synced(record)).unwrap();
    let punched = || {
        let used = fixture.disk.space_used();
        punch();
        used - fixture.disk.space_used()
    };
    assert!(fixture.compactor().merge_any_base().unwrap());
    assert_eq!(fixture.hash.cold.runs().deltas().len(), 1, "other partitions need it");
    fixture.journal.sync();
    assert!(punched() == 0 && is_there(), "it has a reader");
    drop(partition);
    assert!(punched() > 0 && !is_there());
    assert!(fixture.compactor().merge_any_base().unwrap());
    assert_eq!(punched(), 0, "the record is not synced");
    fixture.journal.sync();
    assert!(punched() > 0);
    fixture.check_runs();
    (0..4_000u32).for_each(|key| assert_eq!(fixture.value(&key.to_be_bytes()), Some(vec![9; 40])));
}
