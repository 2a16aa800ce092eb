//! Traps that a crash springs. Each story is cut off at many of its I/Os, in several ways, and the content of the next
//! session is checked.

use std::ops::Bound;

use ecotone::{Hint, internal::substrate::storage::FileId};
use ecotone_testkit::{
    model::{Ending, Level},
    sim::{Crash, Phase},
};

use super::{Engine, Fixture, KEYSPACE, value};
use crate::{adaptive, hash, lsm, tree};

type Story = dyn Fn(&mut Fixture) -> ecotone::Result<()>;

/// Ends `story` at `points` of its I/Os of these phases, by process death and by power failure.
fn end_everywhere(fixture: &Fixture, phases: &[Phase], points: usize, story: &Story) {
    let ios = ios(fixture, phases, story);
    assert!(ios.len() >= points, "the story has {} such I/Os", ios.len());
    (0..points).for_each(|point| end_at(fixture, ios[point * ios.len() / points], story));
}

/// The I/Os of these phases.
fn ios(fixture: &Fixture, phases: &[Phase], story: &Story) -> Vec<u64> {
    let mut rehearsal = fixture.copied(Crash::KeepAll);
    let first = rehearsal.disk.labels().len();
    story(&mut rehearsal).unwrap();
    let labels = rehearsal.disk.labels();
    (first..labels.len()).filter(|index| phases.contains(&labels[*index].phase)).map(|index| index as u64).collect()
}

fn end_at(fixture: &Fixture, index: u64, story: &Story) {
    let mut session = fixture.copied(Crash::KeepAll);
    session.disk.crash_at(index);
    let _ = story(&mut session);
    assert!(session.disk.is_off(), "a story is always the same");
    for how in [Crash::KeepAll, Crash::DropAll, Crash::Random(index), Crash::Random(!index)] {
        let next = session.copied(how);
        let ending = if matches!(how, Crash::KeepAll) { Ending::ProcessDeath } else { Ending::PowerLoss };
        next.check(ending, &format!("after {how:?} at I/O {index}"));
        // The I/Os of its close do not matter.
        next.disk.power_off();
    }
}

/// Fills the log until reclaim starts, which flushes old writes and stores a checkpoint, and goes on. `level` says
/// which writes are synced.
fn fill_log(fixture: &mut Fixture, version: u8, level: impl Fn(u32) -> Level) -> ecotone::Result<()> {
    for number in 0..1_900 {
        // In the order of the keys, so that pages that became dirty late stay dirty.
        fixture.write(number * 800 / 1_900, Some(value(number, version, 1_400)), level(number))?;
        if number % 100 == 99 {
            while fixture.store.background() {}
        }
    }
    Ok(())
}

/// The phases that write data files.
const TREE: &[Phase] = &[Phase::DoubleWrite, Phase::Pages];
const HASH: &[Phase] = &[Phase::Hot, Phase::Table];
const LSM: &[Phase] = &[Phase::Table];
const ADAPTIVE: &[Phase] = &[Phase::Table, Phase::DoubleWrite, Phase::Pages];

fn torn_pages(engine: Engine, phases: &[Phase], points: usize) {
    let fixture = Fixture::loaded(engine, (0..40).map(|_| 900));
    end_everywhere(&fixture, phases, points, &|fixture| {
        for number in 0..40 {
            fixture.write(number, Some(value(number, 1, 900)), Level::Buffered)?;
        }
        fixture.store.flush()
    });
}

/// Pages are overwritten in place.
#[test]
fn trap_06_torn_pages() {
    torn_pages(tree, TREE, 20);
}

/// Pages are written beside the current ones and then replace them.
#[test]
fn trap_06_torn_pages_of_a_hot_log() {
    torn_pages(hash, HASH, 3);
}

/// A table is written and then named.
#[test]
fn trap_06_torn_tables() {
    torn_pages(lsm, LSM, 5);
}

/// Tables are written, and pages beside them that then replace the tables.
#[test]
fn trap_06_torn_pages_below_tables() {
    torn_pages(adaptive, ADAPTIVE, 5);
}

/// Pages below tables are overwritten in place, since a flush has few records for them.
#[test]
fn trap_06_torn_pages_that_a_flush_writes() {
    let fixture = Fixture::loaded(adaptive, (0..40).map(|_| 900));
    for phase in [Phase::DoubleWrite, Phase::Pages] {
        end_everywhere(&fixture, &[phase], 8, &|fixture| {
            fixture.store.hint(KEYSPACE, (Bound::Unbounded, Bound::Unbounded), Hint::ReadMostly)?;
            while fixture.store.background() {}
            for round in 1..13 {
                for number in [round, 20 + round] {
                    fixture.write(number, Some(value(number, round as u8, 900)), Level::Buffered)?;
                }
                fixture.store.flush()?;
            }
            Ok(())
        });
    }
}

fn checkpoint_against_truncation(engine: Engine, points: usize) {
    let fixture = Fixture::loaded(engine, (0..800).map(|_| 1_400));
    let often = |number: u32| if number.is_multiple_of(50) { Level::Sync } else { Level::Buffered };
    let story = move |fixture: &mut Fixture| fill_log(fixture, 1, often).and_then(|()| fill_log(fixture, 2, often));
    end_everywhere(&fixture, &[Phase::Manifest, Phase::Directory], points, &story);
    end_everywhere(&fixture, &[Phase::Log], points, &story);
}

/// A checkpoint makes the older part of the log unneeded, and its segments are overwritten.
#[test]
fn trap_14_checkpoint_against_truncation() {
    checkpoint_against_truncation(tree, 6);
}

#[test]
fn trap_14_checkpoint_against_truncation_under_a_hot_log() {
    checkpoint_against_truncation(hash, 6);
}

#[test]
#[ignore = "long"]
fn trap_14_checkpoint_against_truncation_under_memtables() {
    checkpoint_against_truncation(lsm, 4);
}

#[test]
#[ignore = "long"]
fn trap_14_checkpoint_against_truncation_over_pages() {
    checkpoint_against_truncation(adaptive, 3);
}

fn table_number(file: FileId) -> Option<u32> {
    if let FileId::Table { number, .. } = file { Some(number) } else { None }
}

/// Writes much, deletes some, flushes, runs the background jobs, and writes again.
fn rounds(fixture: &mut Fixture, count: u8) -> ecotone::Result<()> {
    for version in 1..=count {
        for number in 0..160 {
            let value = (number % 9 > 0).then(|| value(number, version, 900));
            fixture.write(number, value, if number % 30 == 0 { Level::Sync } else { Level::Buffered })?;
        }
        while fixture.store.background() {}
        fixture.store.flush()?;
    }
    Ok(())
}

/// Flushes and compactions beside checkpoints, ended at every I/O. Each memtable is in the log or in a named table, and
/// no table that a checkpoint or the log still needs is removed.
#[test]
#[ignore = "long"]
fn trap_11_flushes_and_compactions_beside_checkpoints() {
    let fixture = Fixture::loaded(lsm, (0..100).map(|_| 900));
    let story: &Story = &|fixture| rounds(fixture, 3);
    let mut rehearsal = fixture.copied(Crash::KeepAll);
    story(&mut rehearsal).unwrap();
    let numbers: Vec<_> = rehearsal.disk.files().into_keys().filter_map(table_number).collect();
    let made = numbers.iter().max().map_or(0, |last| last + 1) as usize;
    assert!(numbers.len() + 5 < made, "compactions left {} of {made} tables", numbers.len());
    let ios = ios(&fixture, &[Phase::Table, Phase::Manifest, Phase::Directory], story);
    ios.into_iter().for_each(|index| end_at(&fixture, index, story));
}

/// Clears of ranges and conversions to pages beside checkpoints, ended at every I/O. A record is in the log, in a
/// visible table, or in a named page. Nothing that a checkpoint or the log still needs is removed or overwritten (trap
/// 5).
#[test]
#[ignore = "long"]
fn trap_11_absorptions_beside_checkpoints() {
    let fixture = Fixture::loaded(adaptive, (0..100).map(|_| 900));
    let story: &Story = &|fixture| rounds(fixture, 3);
    let of_pages = ios(&fixture, &[Phase::DoubleWrite, Phase::Pages], story).len();
    assert!(of_pages > 20, "{of_pages} I/Os of pages");
    let phases = [Phase::DoubleWrite, Phase::Pages, Phase::Table, Phase::Manifest, Phase::Directory];
    let ios = ios(&fixture, &phases, story);
    ios.into_iter().for_each(|index| end_at(&fixture, index, story));
}

/// Compactions and merges of the hash engine beside checkpoints, ended at every I/O. No file that a checkpoint or the
/// log still needs is removed.
#[test]
#[ignore = "long"]
fn trap_14_no_file_of_a_needed_checkpoint_goes_by_compactions_and_base_merges() {
    let fixture = Fixture::loaded(hash, (0..100).map(|_| 900));
    let story: &Story = &|fixture| rounds(fixture, 4);
    let of_runs = ios(&fixture, &[Phase::Table], story).len();
    assert!(of_runs > 20, "{of_runs} I/Os of runs");
    let ios = ios(&fixture, &[Phase::Hot, Phase::Table, Phase::Manifest, Phase::Directory], story);
    ios.into_iter().for_each(|index| end_at(&fixture, index, story));
}

fn pages_ahead_of_the_log(engine: Engine, phases: &[Phase], points: usize) {
    let fixture = Fixture::loaded(engine, (0..800).map(|_| 1_400));
    end_everywhere(&fixture, phases, points, &|fixture| fill_log(fixture, 1, |_| Level::Buffered));
}

/// The log is never synced before pages are written. Still, a prefix survives.
#[test]
fn trap_15_pages_ahead_of_the_log() {
    pages_ahead_of_the_log(tree, TREE, 10);
}

#[test]
fn trap_15_pages_of_a_hot_log_ahead_of_the_log() {
    pages_ahead_of_the_log(hash, HASH, 5);
}

#[test]
#[ignore = "long"]
fn trap_15_tables_ahead_of_the_log() {
    pages_ahead_of_the_log(lsm, LSM, 5);
}

#[test]
#[ignore = "long"]
fn trap_15_pages_below_tables_ahead_of_the_log() {
    pages_ahead_of_the_log(adaptive, ADAPTIVE, 5);
}

fn replay_over_newer_files(engine: Engine, phases: &[Phase], points: usize) {
    let fixture = Fixture::loaded(engine, (0..800).map(|_| 1_400));
    end_everywhere(&fixture, phases, points, &|fixture| {
        for number in 0..20 {
            fixture.write(number, Some(value(number, 1, 500)), Level::Sync)?;
        }
        for number in 0..20 {
            fixture.write(number, None, Level::Buffered)?;
        }
        for number in 0..1_900 {
            fixture.write(20 + number * 700 / 1_900, Some(value(number, 2, 1_400)), Level::Buffered)?;
            if number % 100 == 99 {
                while fixture.store.background() {}
            }
        }
        Ok(())
    });
}

/// Puts are synced, their deletes are not, and the pages know of both.
#[test]
fn trap_16_replay_over_newer_files() {
    replay_over_newer_files(tree, TREE, 10);
}

#[test]
fn trap_16_replay_over_a_newer_hot_log() {
    replay_over_newer_files(hash, HASH, 4);
}

#[test]
fn trap_16_replay_over_newer_tables() {
    replay_over_newer_files(lsm, LSM, 4);
}

#[test]
fn trap_16_replay_over_newer_pages_below_tables() {
    replay_over_newer_files(adaptive, ADAPTIVE, 6);
}
