//! The index grows, and is swept, under the operations of the engine.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use ecotone_engine::contract::{Engine, Get, Recover};
use ecotone_substrate::limits::MIN_BUDGET;
use ecotone_testkit::{engine::stat, sim::SimStorage};

use super::{
    removal::{files_of, reopened},
    *,
};
use crate::{blob, compact::CompactionLimits, install::Files, keyspace::HashKeyspace, log::FRAME};

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Two threads fill the engine while the background grows the index. The test prints the time of the longest operation.
/// On a busy machine that is how long a thread was preempted: an operation itself splits one bucket at most
/// (hash-protocol.md, invariant 34).
#[test]
fn an_engine_that_fills_has_an_index_that_fits() {
    const RECORDS: u64 = 40_000;
    let (hash, done) = (engine(10, 1024), AtomicBool::new(false));
    let longest = thread::scope(|scope| {
        let writers = [0, 1].map(|writer| {
            let hash = &hash;
            scope.spawn(move || {
                (0..RECORDS)
                    .map(|number| timed(|| set_and_see(hash, 2 * number + writer)))
                    .max()
                    .expect("there are some")
            })
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                hash.reservations.grow_index(&hash.chains);
                thread::yield_now();
            }
        });
        let ends = writers.map(|writer| writer.join());
        done.store(true, Ordering::Relaxed);
        ends.map(|end| end.unwrap()).into_iter().max()
    });
    println!("the longest of {} operations beside growth: {longest:?}", 2 * RECORDS);
    hash.reservations.grow_index(&hash.chains);
    assert!(!hash.chains.index.is_crowded());
    assert!(hash.chains.index.buckets() >= 2 * RECORDS / 5, "{} buckets", hash.chains.index.buckets());
    (0..2 * RECORDS).for_each(|number| assert_eq!(hash.value(&key(number)).as_deref(), Some(&key(number)[..])));
}

fn timed(work: impl FnOnce()) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "it measures the machine")]
    let start = Instant::now();
    work();
    start.elapsed()
}

fn set_and_see(hash: &Hash, number: u64) {
    hash.set(&key(number), &key(number));
    assert_eq!(hash.value(&key(number)).as_deref(), Some(&key(number)[..]));
}

#[test]
fn what_was_truncated_leaves_no_entries() {
    let hash = engine(10, 64);
    (0..4_000).for_each(|number| hash.set(&key(number), b"old"));
    let end = hash.chains.log.close_page();
    hash.chains.log.raise_read_only(end);
    (4_000..5_000).for_each(|number| hash.set(&key(number), b"young"));
    let before = hash.chains.index.entries();
    assert!((4_500..5_500).contains(&before), "{before} entries by a sample");
    hash.chains.log.truncate(end, drop);
    hash.chains.clear_entries(end);
    let after = hash.chains.index.entries();
    assert!((800..1_200).contains(&after), "{after} entries by a sample");
    (0..4_000).for_each(|number| assert_eq!(hash.value(&key(number)), None));
    (4_000..5_000).for_each(|number| assert_eq!(hash.value(&key(number)), Some(b"young".to_vec())));
}

/// More keys than an index of the initial size has overflow buckets for.
#[test]
fn a_hot_log_that_needs_a_large_index_can_be_opened() {
    const RECORDS: u64 = 500_000;
    let environment = SimStorage::new(1).environment(1, 64 << 20);
    let (files, limits) =
        (Arc::new(files_of(environment.clone(), false, HashOptions::default())), CompactionLimits::within(64 << 20));
    let frames = environment.memory.budget() / FRAME as usize;
    let keyspace = HashKeyspace::create(files.clone(), Sizes { bucket_bits: 10, frames, copies: 0 }, limits).unwrap();
    for number in 0..RECORDS {
        keyspace.try_apply(Operation { key: &key(number), value: Some(&[]) }).unwrap();
        while environment.scheduler.run_one() {}
    }
    keyspace.flush(0).unwrap();
    let keyspace = reopened(keyspace, &files, limits);
    assert!(stat(&keyspace.stats(), "hot_log_bytes") > 8 << 20);
    for number in (0..RECORDS).step_by(97) {
        assert!(keyspace.get(&key(number)).unwrap().is_some(), "{number} is lost");
    }
}

/// The same, but the index of all keys would be larger than the memory of the next session.
#[test]
#[ignore = "long"]
fn a_hot_log_whose_index_has_no_room_in_the_next_budget_can_be_opened() {
    const RECORDS: u64 = 2_600_000;
    const BUDGET: usize = 256 << 20;
    let environment = SimStorage::new(1).environment(1, BUDGET);
    let (files, limits) =
        (files_of(environment.clone(), false, HashOptions::default()), CompactionLimits::within(BUDGET as u64));
    let files = Arc::new(files);
    let frames = environment.memory.budget() / FRAME as usize;
    let keyspace = HashKeyspace::create(files.clone(), Sizes { bucket_bits: 10, frames, copies: 0 }, limits).unwrap();
    for number in 0..RECORDS {
        keyspace.try_apply(Operation { key: &key(number), value: Some(&number.to_le_bytes()) }).unwrap();
        while environment.scheduler.run_one() {}
    }
    keyspace.flush(0).unwrap();
    assert!(stat(&keyspace.stats(), "hot_log_bytes") > 60 << 20);
    let checkpoint = keyspace.checkpoint().unwrap();
    drop(keyspace);
    let mut context = files.context().clone();
    context.shared.memory = Memory::new(MIN_BUDGET);
    let limits = CompactionLimits::within(MIN_BUDGET as u64);
    let (options, manifest) = blob::decode(&checkpoint.blob).unwrap();
    let keyspace = HashKeyspace::open(Arc::new(Files::new(context, options, manifest)), None, limits);
    keyspace.structure_recovered().unwrap();
    for number in (0..RECORDS).step_by(97) {
        let value = keyspace.get(&key(number)).unwrap().unwrap_or_else(|| panic!("{number} is lost"));
        assert_eq!(value, number.to_le_bytes());
    }
    assert!(stat(&keyspace.stats(), "compactions") > 0);
}
