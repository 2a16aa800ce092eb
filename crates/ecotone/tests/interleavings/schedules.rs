//! Every crew in many schedules.

use std::{sync::PoisonError, time::Instant};

use ecotone_testkit::suite::crew::Role::{Batcher, Evicter, Flusher, Merger, Updater};

use super::{
    CHECKPOINTS, CRASHED_DROPS, Crew, DROPS, Engine, GAPS, NEW_PAGES, READS, REORGANISATION, SCANS, SWITCH,
    adaptive_crews::{
        CRASHED_HINTS, CRASHED_SHAPES, HINTS, MODES, SCANNED_BOUNDS, SHAPES, restless, restless_unlogged,
    },
    hash_crews::{
        COMPACTION, COPIES, CRASHED_MERGES, EVICTION, GROWTH, MERGES, POINTS, UPDATES, WALKS, logged, unlogged,
    },
    image,
    lsm_crews::{CHANGES, FLUSHES, GETS, RANGES, with_log, without_log},
    store::Simulated,
    tree, wrong,
};

/// Schedules of each crew, unless it is said otherwise.
const SCHEDULES: u64 = 60;

/// What the background of the tree does, and what is done to its segments.
const WRITTEN: [&str; 1] = ["write_outs"];
const PLACED_ANEW: [&str; 2] = ["write_outs", "reorganisations"];

/// What the background of the hash engine does.
const KEPT: [&str; 2] = ["compactions", "base_merges"];
const COPIED: [&str; 2] = ["compactions", "read_cache_evictions"];
const GROWN: [&str; 2] = ["compactions", "index_doublings"];

/// What the background of the lsm engine does.
const MERGED: [&str; 2] = ["flushes", "compactions"];

/// What there is of pages in the end, and what went into some past the tables.
const COVERED: [&str; 2] = ["flushes", "paged_ranges"];
const DIVERTED: [&str; 2] = ["paged_ranges", "records_flushed_to_pages"];

/// What is done since somebody said how a range is used.
const ADAPTED: [&str; 2] = ["ranges_to_pages", "ranges_to_tables"];

/// Writes that read.
const TREE_UPDATES: Crew = Crew {
    threads: &[(Updater, 6), (Updater, 6), (Merger, 4), (Merger, 4), (Batcher, 4), (Flusher, 2), (Evicter, 2)],
    registers: 4,
    crash: false,
};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |number| number.parse().expect("a number"))
}

/// No schedule goes wrong, and all of `goings_on` happens that engines count: in the mean at least once in two
/// schedules, since what threads write and read is drawn.
pub(super) fn right(engine: Engine, crew: &'static Crew, goings_on: &[&str]) {
    let _without_bugs = SWITCH.read().unwrap_or_else(PoisonError::into_inner);
    let (first, schedules) = (number("ECOTONE_SEED", 1), number("ECOTONE_SCHEDULES", SCHEDULES));
    let begun = Instant::now();
    let (wrong, counters) = wrong(engine, &image(engine, crew.registers), crew, first..first + schedules);
    assert_eq!(wrong, None);
    println!("{schedules} schedules in {:.1?}: {counters:?}", begun.elapsed());
    let missing = goings_on.iter().find(|what| 2 * counters[**what] < schedules);
    assert!(schedules < SCHEDULES || missing.is_none(), "{missing:?} in {schedules} schedules: {counters:?}");
}

#[test]
fn reads_against_write_out_and_eviction() {
    right(tree, &READS, &WRITTEN);
}

#[test]
fn scans_against_write_out_and_reorganisation() {
    right(tree, &SCANS, &PLACED_ANEW);
}

#[test]
fn reorganisation_against_writes() {
    right(tree, &REORGANISATION, &PLACED_ANEW);
}

#[test]
fn new_pages_against_write_out_and_scans() {
    right(tree, &NEW_PAGES, &PLACED_ANEW);
}

#[test]
fn updates_and_batches_against_each_other() {
    right(tree, &TREE_UPDATES, &WRITTEN);
}

#[test]
fn checkpoints_against_writes_and_a_crash() {
    right(tree, &CHECKPOINTS, &WRITTEN);
}

/// What scans of ordered keyspaces find out.
const LEARNED: [&str; 2] = ["gaps_learned", "deletes_passed"];

fn tree_unlogged(workers: usize) -> Simulated {
    tree(workers).unlogged()
}

#[test]
fn scans_that_jump_against_records_that_come() {
    right(tree, &GAPS, &LEARNED);
    right(tree_unlogged, &GAPS, &LEARNED);
    right(with_log, &GAPS, &LEARNED);
    right(without_log, &GAPS, &LEARNED);
    right(restless, &GAPS, &LEARNED);
}

/// On every engine.
fn right_on_all(crew: &'static Crew) {
    right(tree, crew, &WRITTEN);
    right(with_log, crew, &["flushes"]);
    right(restless, crew, &["flushes"]);
    right(logged, crew, &[]);
}

#[test]
fn keyspaces_that_are_dropped() {
    right_on_all(&DROPS);
}

#[test]
fn keyspaces_that_are_dropped_and_a_crash() {
    right_on_all(&CRASHED_DROPS);
}

#[test]
fn points_of_a_hash_keyspace() {
    right(logged, &POINTS, &KEPT);
    right(unlogged, &POINTS, &KEPT);
}

#[test]
fn updates_of_a_hash_keyspace() {
    right(logged, &UPDATES, &KEPT);
    right(unlogged, &UPDATES, &KEPT);
}

#[test]
fn merges_of_a_hash_keyspace() {
    right(logged, &MERGES, &KEPT);
    right(unlogged, &MERGES, &KEPT);
    right(logged, &CRASHED_MERGES, &KEPT);
}

#[test]
fn copies_of_a_hash_keyspace() {
    right(unlogged, &COPIES, &COPIED);
}

#[test]
fn eviction_of_copies_of_a_hash_keyspace() {
    right(logged, &EVICTION, &COPIED);
    right(unlogged, &EVICTION, &COPIED);
}

#[test]
fn compactions_of_a_hash_keyspace() {
    right(logged, &COMPACTION, &KEPT);
    right(unlogged, &COMPACTION, &KEPT);
}

#[test]
fn growth_of_a_hash_keyspace() {
    right(unlogged, &GROWTH, &GROWN);
}

#[test]
fn walks_of_a_hash_keyspace() {
    right(logged, &WALKS, &KEPT);
    right(unlogged, &WALKS, &KEPT);
}

#[test]
fn checkpoints_of_a_hash_keyspace_and_a_crash() {
    right(logged, &CHECKPOINTS, &KEPT);
}

#[test]
fn gets_from_an_lsm_keyspace() {
    right(with_log, &GETS, &MERGED);
    right(without_log, &GETS, &MERGED);
}

#[test]
fn ranges_of_an_lsm_keyspace() {
    right(with_log, &RANGES, &MERGED);
}

#[test]
fn changes_of_an_lsm_keyspace() {
    right(with_log, &CHANGES, &MERGED);
    right(without_log, &CHANGES, &MERGED);
}

#[test]
fn flushes_of_an_lsm_keyspace_and_a_crash() {
    right(with_log, &FLUSHES, &MERGED);
}

#[test]
fn gets_from_an_adaptive_keyspace() {
    right(restless, &SHAPES, &COVERED);
    right(restless_unlogged, &SHAPES, &COVERED);
}

#[test]
fn ranges_of_an_adaptive_keyspace() {
    right(restless, &SCANNED_BOUNDS, &COVERED);
}

#[test]
fn both_ways_into_an_adaptive_keyspace() {
    right(restless, &MODES, &DIVERTED);
    right(restless_unlogged, &MODES, &DIVERTED);
}

#[test]
fn shapes_of_an_adaptive_keyspace_and_a_crash() {
    right(restless, &CRASHED_SHAPES, &COVERED);
}

#[test]
fn hints_to_an_adaptive_keyspace() {
    right(restless, &HINTS, &ADAPTED);
    right(restless_unlogged, &HINTS, &ADAPTED);
    right(restless, &CRASHED_HINTS, &ADAPTED);
}
