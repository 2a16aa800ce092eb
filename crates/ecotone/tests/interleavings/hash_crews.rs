//! Crews on the hash engine, with and without a log. Its memory is so small in such a build that every schedule lets frames out, evicts copies, compacts, folds
//! and grows the index.

use std::sync::Arc;

use ecotone::internal::engines::{engine::Family, hash::HashFamily};
use ecotone_testkit::suite::{
    Kind,
    crew::{
        Crew,
        Role::{Batcher, Flusher, Reader, Scanner, Updater, Writer},
    },
};

use super::{CHECKPOINTS, schedules::right, store::Simulated};

/// Gets, puts and deletes of keys that have entries together.
const POINTS: Crew =
    Crew { threads: &[(Reader, 8), (Reader, 8), (Writer, 8), (Writer, 8), (Flusher, 3)], registers: 12, crash: false };
/// Writes that read beside writes that do not.
const UPDATES: Crew =
    Crew { threads: &[(Updater, 8), (Updater, 8), (Writer, 6), (Batcher, 4), (Flusher, 3)], registers: 4, crash: false };
/// Reads of more than there may be copies of, beside writes of the same chains.
const COPIES: Crew =
    Crew { threads: &[(Reader, 16), (Reader, 16), (Updater, 4), (Writer, 4), (Flusher, 3)], registers: 24, crash: false };
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
    Simulated::new(Kind::Hashed, || Arc::new(HashFamily::tiny()) as Arc<dyn Family>).workers(workers)
}

fn unlogged(workers: usize) -> Simulated {
    logged(workers).unlogged()
}

#[test]
fn points_of_a_hash_keyspace() {
    right(logged, &POINTS);
    right(unlogged, &POINTS);
}

#[test]
fn updates_of_a_hash_keyspace() {
    right(logged, &UPDATES);
    right(unlogged, &UPDATES);
}

#[test]
fn copies_of_a_hash_keyspace() {
    right(unlogged, &COPIES);
}

#[test]
fn compactions_of_a_hash_keyspace() {
    right(logged, &COMPACTION);
    right(unlogged, &COMPACTION);
}

#[test]
fn growth_of_a_hash_keyspace() {
    right(unlogged, &GROWTH);
}

#[test]
fn walks_of_a_hash_keyspace() {
    right(logged, &WALKS);
    right(unlogged, &WALKS);
}

#[test]
fn checkpoints_of_a_hash_keyspace_and_a_crash() {
    right(logged, &CHECKPOINTS);
}
