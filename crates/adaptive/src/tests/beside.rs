//! Conversions with flushes, compactions, checkpoints and drops beside them.

use std::thread;

use ecotone_engine::contract::{Engine, Get, Maintained};
use ecotone_lsm::RangeCompactionStep;
use ecotone_substrate::{Error, Seq};
use ecotone_testkit::{
    sim::{Phase, SteppedThread},
    thread_watch::ThreadWatch,
};

use super::fixture::{Fixture, Model, key};
use crate::{AdaptiveOptions, blob::Blob};

const KEYS: u32 = 1200;

fn put(fixture: &mut Fixture, model: &mut Model, numbers: impl Iterator<Item = u32>, value: &[u8]) {
    for number in numbers {
        fixture.put(model, number, Some(value));
    }
    // Only the lsm is flushed, because I/O on pages may be held.
    fixture.keyspace.lsm.flush(Seq::MAX).unwrap();
}

/// Runs that were flushed meanwhile are newer than the inputs of the job. They are left for the next job.
#[test]
fn a_compaction_ends_though_something_is_flushed_in_each_absorption() {
    let [alone, beside] = [false, true].map(|is_flushing| {
        let (mut fixture, mut model) = (Fixture::new(1, AdaptiveOptions::default()), Model::new());
        put(&mut fixture, &mut model, 0..KEYS, &[0; 100]);
        fixture.keyspace.convert_to_pages(&key(400), &key(800)).unwrap();
        for round in 1..=6 {
            put(&mut fixture, &mut model, (0..KEYS).step_by(4), &[round; 100]);
        }
        let (before, lsm) = (fixture.stat("compactions"), fixture.keyspace.lsm.lsm().clone());
        let mut turns = 0;
        while fixture.stat("compactions") == before {
            turns += 1;
            thread::scope(|scope| {
                let mut job = SteppedThread::new(scope, &[Phase::Pages], || lsm.run_compaction());
                for stop in 1.. {
                    if let Some(compacted) = job.step() {
                        return assert!(compacted.unwrap());
                    }
                    if is_flushing && stop == 3 && turns < 8 {
                        put(&mut fixture, &mut model, (0..KEYS).step_by(60), &[100 + turns; 50]);
                    }
                }
            });
        }
        fixture.expect(&model);
        while fixture.environment.scheduler.run_one() {}
        fixture.expect(&model);
        fixture.reopen();
        fixture.expect(&model);
        turns
    });
    // Flushed records make the steps a little smaller.
    assert!(alone > 1 && beside <= alone + 2 && beside < 8, "{beside} turns instead of {alone}");
}

/// The limit on bytes is for the merge, not for the conversion before it.
#[test]
fn what_is_converted_before_a_merge_is_none_of_its_bytes() {
    let (mut fixture, mut model) = (Fixture::new(6, AdaptiveOptions::default()), Model::new());
    put(&mut fixture, &mut model, 0..2 * KEYS, &[0; 100]);
    fixture.keyspace.convert_to_pages(b"a", &key(KEYS)).unwrap();
    // Enough records that a conversion to pages costs less than rewriting them twice.
    for round in 1..=2 {
        put(&mut fixture, &mut model, (0..2 * KEYS).step_by(6), &[round; 300]);
    }
    let (lsm, mut ways) = (fixture.keyspace.lsm.lsm().clone(), 0);
    let counts =
        || (fixture.stat("compactions"), lsm.compact_range_step((&key(0), &key(2 * KEYS)), u64::MAX, || ()).unwrap());
    while let (compactions, Some(RangeCompactionStep { read, before })) = counts() {
        let is_made = fixture.stat("compactions") > compactions;
        assert!((read > 0) == is_made && (before > 0 || is_made), "{read} {before}");
        ways += u32::from(!is_made);
    }
    assert!(ways > 0, "nothing was converted before");
    fixture.expect(&model);
}

/// A writer that has to compact before a flush does not convert a whole paged range first.
#[test]
fn a_turn_converts_one_piece_of_what_a_compaction_would_bring_below_a_floor() {
    let (mut fixture, mut model) = (Fixture::new(2, AdaptiveOptions::default()), Model::new());
    put(&mut fixture, &mut model, 0..2 * KEYS, &[0; 100]);
    fixture.keyspace.convert_to_pages(b"a", b"z").unwrap();
    assert_eq!((fixture.stat("paged_ranges"), fixture.stat("tables")), (1, 0));
    // Enough records that a conversion to pages costs less than rewriting them twice.
    for round in 1..=8 {
        put(&mut fixture, &mut model, (0..2 * KEYS).step_by(6), &[round; 100]);
    }
    let (lsm, tables) = (fixture.keyspace.lsm.lsm().clone(), fixture.stat("tables"));
    assert!(lsm.run_compaction().unwrap());
    assert!(fixture.stat("paged_ranges") > 1, "a piece of them");
    // A table is removed by the step that converts its last key.
    let more = (0..).take_while(|_| fixture.stat("tables") == tables && lsm.run_compaction().unwrap()).count();
    assert!(
        more <= 2 && fixture.stat("paged_ranges") > 1 && (1..tables).contains(&fixture.stat("tables")),
        "{more} pieces more"
    );
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
    while fixture.keyspace.lsm.lsm().run_compaction().unwrap() {}
    fixture.expect(&model);
    fixture.keyspace.convert_to_pages(b"a", b"z").unwrap();
    assert_eq!((fixture.stat("paged_ranges"), fixture.stat("tables")), (1, 0));
    fixture.expect(&model);
}

/// `superseded_from` is taken from the version at the start of the conversion, so newer runs stay visible. Readers
/// never wait for the job, wherever it stands.
#[test]
fn what_is_flushed_while_its_range_is_converted_counts() {
    for is_paged in [false, true] {
        let (mut fixture, mut model) = (Fixture::new(4, AdaptiveOptions::default()), Model::new());
        put(&mut fixture, &mut model, 0..KEYS, &[0; 100]);
        if is_paged {
            fixture.keyspace.convert_to_pages(b"a", b"z").unwrap();
            put(&mut fixture, &mut model, (0..KEYS).step_by(2), &[1; 100]);
        }
        let keyspace = fixture.keyspace.clone();
        thread::scope(|scope| {
            let mut job = SteppedThread::new(scope, &[Phase::Pages], || keyspace.convert_to_pages(b"a", b"z"));
            let mut stops = 0;
            while job.step().is_none_or(|ended| {
                ended.unwrap();
                false
            }) {
                stops += 1;
                fixture.expect_reads(&model);
                if stops == 3 {
                    put(&mut fixture, &mut model, (0..KEYS).step_by(3), &[2; 100]);
                }
            }
            assert!(stops > 3);
        });
        fixture.expect(&model);
        fixture.reopen();
        fixture.expect(&model);
    }
}

/// Otherwise, replay would apply an edit twice, or miss one.
#[test]
fn a_root_has_all_edits_below_its_position_and_none_above() {
    for _ in 0..10 {
        let fixture = Fixture::new(5, AdaptiveOptions::default());
        let [at_edit, at_checkpoint] = [(); 2].map(|()| ThreadWatch::default());
        let (before, checkpoint) = thread::scope(|scope| {
            let mut job = SteppedThread::new(scope, &[Phase::Pages], || {
                at_edit.begin();
                fixture.keyspace.convert_to_pages(b"a", b"z").unwrap();
            });
            assert!(job.step().is_none());
            let state = fixture.keyspace.lsm.hold_structure();
            let carved = fixture.tail();
            // The job runs on.
            drop(job);
            while fixture.tail() == carved {
                thread::yield_now();
            }
            // Waits until the job is at the edit, and then until the checkpoint is at its beginning.
            at_edit.wait_asleep();
            let before = fixture.tail();
            let checkpoint = scope.spawn(|| {
                at_checkpoint.begin();
                fixture.keyspace.checkpoint()
            });
            at_checkpoint.wait_asleep();
            drop(state);
            (before, checkpoint.join().unwrap().unwrap())
        });
        let is_paged = Blob::decode(&checkpoint.blob).unwrap().paged_ranges.visibility_at(b"b").has_pages;
        assert_eq!(
            is_paged,
            checkpoint.structure_position > before,
            "the root of {} has what came at {before}",
            checkpoint.structure_position
        );
    }
}

/// The conversion ends wherever it stands, and no file of the keyspace comes back.
#[test]
fn an_absorption_ends_when_its_keyspace_is_dropped() {
    for stop in 1.. {
        let (mut fixture, mut model) = (Fixture::new(6, AdaptiveOptions::default()), Model::new());
        put(&mut fixture, &mut model, 0..KEYS, &[0; 100]);
        fixture.keyspace.convert_to_pages(&key(400), &key(800)).unwrap();
        put(&mut fixture, &mut model, (0..KEYS).step_by(2), &[1; 100]);
        let (keyspace, storage) = (fixture.keyspace.clone(), fixture.environment.storage.clone());
        let files =
            || storage.list().unwrap().into_iter().filter(|file| file.keyspace() == Some(3)).collect::<Vec<_>>();
        let was_over = thread::scope(|scope| {
            let mut job = SteppedThread::new(scope, &[Phase::Pages], || keyspace.convert_to_pages(b"a", b"z"));
            if let Some(ended) = (0..stop).find_map(|_| job.step()) {
                ended.unwrap();
                return true;
            }
            keyspace.mark_dropped();
            files().into_iter().for_each(|file| storage.remove(file).unwrap());
            let ended = job.finish();
            assert!(matches!(ended, Err(Error::Closed { .. })), "at stop {stop}: {ended:?}");
            false
        });
        if was_over {
            assert!(stop > 10, "it has {stop} I/Os on pages");
            return fixture.expect(&model);
        }
        while fixture.environment.scheduler.run_one() {}
        fixture.environment.health.check().unwrap();
        assert_eq!(files(), []);
    }
}

/// The read statistics choose the type of index for tables. Reads of converted tables count, like reads of other
/// removed tables.
#[test]
fn what_was_read_of_tables_that_are_converted_is_not_forgotten() {
    let (mut fixture, mut model) = (Fixture::new(2, AdaptiveOptions::default()), Model::new());
    put(&mut fixture, &mut model, 0..KEYS, &[0; 100]);
    (0..KEYS).for_each(|number| assert!(fixture.keyspace.get(&key(number)).unwrap().is_some()));
    let read = fixture.keyspace.lsm.lsm().reads();
    assert!(read >= u64::from(KEYS), "{read} blocks were read");
    fixture.keyspace.convert_to_pages(b"a", b"z").unwrap();
    assert_eq!(fixture.stat("tables"), 0);
    assert!(fixture.keyspace.lsm.lsm().reads() >= read);
}

/// Log reclaim asks all keyspaces at a time for flushes.
#[test]
fn the_background_begins_with_a_flush_when_it_is_asked_to() {
    let mut fixture = Fixture::new(3, AdaptiveOptions::default());
    fixture.write(b"key", Some(b"value"));
    fixture.keyspace.begin_flush(Seq::MAX);
    while fixture.environment.scheduler.run_one() {}
    assert_eq!((fixture.stat("runs"), fixture.keyspace.first_unflushed()), (1, None));
}
