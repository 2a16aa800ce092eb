//! Every crew of the tree in many schedules.

use ecotone_testkit::suite::crew::Role::{Batcher, Evicter, Flusher, Updater};

use super::{CHECKPOINTS, Crew, Engine, READS, REORGANISATION, SCANS, tree, wrong};

/// Schedules of each crew, unless it is said otherwise.
const SCHEDULES: u64 = 60;

/// Writes that read, over two keyspaces.
const UPDATES: Crew =
    Crew { threads: &[(Updater, 6), (Updater, 6), (Batcher, 4), (Flusher, 2), (Evicter, 2)], registers: 4, crash: false };

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |number| number.parse().expect("a number"))
}

/// No schedule goes wrong, and in many of them all of `goings_on` happens that engines count.
pub(super) fn right(engine: Engine, crew: &'static Crew, goings_on: &[&str]) {
    let (first, schedules) = (number("ECOTONE_SEED", 1), number("ECOTONE_SCHEDULES", SCHEDULES));
    let (wrong, counters) = wrong(engine, crew, first..first + schedules);
    assert_eq!(wrong, None);
    let missing = goings_on.iter().find(|what| counters[**what] < schedules);
    assert!(schedules < SCHEDULES || missing.is_none(), "{missing:?} in {schedules} schedules: {counters:?}");
}

#[test]
fn reads_against_write_out_and_eviction() {
    right(tree, &READS, &[]);
}

#[test]
fn scans_against_write_out_and_reorganisation() {
    right(tree, &SCANS, &[]);
}

#[test]
fn reorganisation_against_writes() {
    right(tree, &REORGANISATION, &[]);
}

#[test]
fn updates_and_batches_against_each_other() {
    right(tree, &UPDATES, &[]);
}

#[test]
fn checkpoints_against_writes_and_a_crash() {
    right(tree, &CHECKPOINTS, &[]);
}
