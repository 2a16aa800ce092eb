//! Crews on the hash engine, with and without a log. Its memory is so small in such a build that every schedule lets frames out, evicts copies, compacts, folds
//! and grows the index.

use std::sync::Arc;

use ecotone::internal::engines::{engine::Family, hash::HashFamily};
use ecotone_testkit::suite::{
    Kind,
    crew::{
        Crew,
        Role::{Batcher, Evicter, Flusher, Reader, Scanner, Updater, Writer},
    },
};

use super::{CHECKPOINTS, schedules::right, store::Simulated};

/// Gets, puts and deletes of keys that have entries together.
const POINTS: Crew =
    Crew { threads: &[(Reader, 8), (Reader, 8), (Writer, 8), (Writer, 8), (Flusher, 3)], registers: 12, crash: false };
/// Writes that read beside writes that do not.
const UPDATES: Crew =
    Crew { threads: &[(Updater, 8), (Updater, 8), (Writer, 6), (Batcher, 4), (Flusher, 3)], registers: 4, crash: false };
/// Reads of more than there may be copies of, beside writes of the same chains, and another cache that wants the memory.
const COPIES: Crew = Crew {
    threads: &[(Reader, 16), (Reader, 16), (Updater, 4), (Writer, 4), (Flusher, 3), (Evicter, 3)],
    registers: 24,
    crash: false,
};
/// Copies that come and go beside updates of a few keys, which are in the log, in runs and copied in turn.
const EVICTION: Crew =
    Crew { threads: &[(Reader, 8), (Reader, 8), (Updater, 8), (Flusher, 3), (Evicter, 6)], registers: 4, crash: false };
/// Two who have pages frozen and written, and so compacted, beside all that others do.
const COMPACTION: Crew =
    Crew { threads: &[(Flusher, 4), (Flusher, 4), (Writer, 8), (Updater, 6), (Reader, 8)], registers: 6, crash: false };
/// Many keys, for which the index grows from one bucket.
const GROWTH: Crew =
    Crew { threads: &[(Writer, 16), (Writer, 16), (Updater, 8), (Reader, 8), (Flusher, 2)], registers: 64, crash: false };
/// Walks beside writes that append, and truncations.
const WALKS: Crew =
    Crew { threads: &[(Scanner, 5), (Scanner, 5), (Writer, 8), (Updater, 4), (Flusher, 3)], registers: 8, crash: false };

fn logged(workers: usize) -> Simulated {
    Simulated::new(Kind::Hashed, || Arc::new(HashFamily::busy()) as Arc<dyn Family>).workers(workers)
}

fn unlogged(workers: usize) -> Simulated {
    logged(workers).unlogged()
}

/// What the background does in every schedule, more or less.
const KEPT: [&str; 2] = ["compactions", "folds"];
const COPIED: [&str; 2] = ["compactions", "read_cache_evictions"];
const GROWN: [&str; 2] = ["compactions", "index_doublings"];

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
