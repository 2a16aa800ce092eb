//! Writers while compaction is behind.

use ecotone_engine::contract::{Engine, Get};
use ecotone_substrate::storage::{FileKind, Storage};
use ecotone_testkit::{engine::stat, sim::SimStorage};

use super::{
    removal::{files, files_of, reopened},
    *,
};
use crate::{compact::CompactionLimits, keyspace::HashKeyspace, log::FRAME};

/// Writers wait for the part of the hot log on disk, so that part is compacted, however much of the log may be in
/// memory.
#[test]
fn a_log_that_is_on_disk_for_want_of_memory_is_compacted() {
    let (files, limits) =
        (Arc::new(files(&SimStorage::new(1))), CompactionLimits { most_hot: 1 << 30, ..CompactionLimits::TINY });
    let sizes = Sizes { bucket_bits: 6, frames: 4, copies: 0 };
    let keyspace = HashKeyspace::create(files.clone(), sizes, limits).unwrap();
    for number in 0..12_000_u64 {
        keyspace.try_apply(Operation { key: &number.to_le_bytes(), value: Some(&[1; 900]) }).unwrap();
    }
    assert!(files.manifest().tables().count() > 0, "nothing was compacted");
}

/// The part of an earlier session's log on disk is compacted before any writer is throttled for it, although memory has
/// space for much more.
#[test]
fn what_a_large_budget_left_on_disk_slows_nobody_down() {
    const WRITTEN: u64 = 3_800;
    let environment = SimStorage::new(1).environment(1, 64 << 20);
    let files = Arc::new(files_of(environment.clone(), false, HashOptions::default()));
    let limits = CompactionLimits { most_hot: 1 << 30, ..CompactionLimits::TINY };
    let sizes = Sizes { bucket_bits: 10, frames: 256, copies: 0 };
    let keyspace = HashKeyspace::create(files.clone(), sizes, limits).unwrap();
    let put = |keyspace: &HashKeyspace, number: u64| {
        keyspace.try_apply(Operation { key: &number.to_le_bytes(), value: Some(&[1; 900]) }).unwrap();
        while environment.scheduler.run_one() {}
    };
    (0..WRITTEN).for_each(|number| put(&keyspace, number));
    keyspace.flush(0).unwrap();
    let keyspace = reopened(keyspace, &files, limits);
    let on_disk = |keyspace: &HashKeyspace| {
        let stats = keyspace.stats();
        (stat(&stats, "hot_log_bytes") - stat(&stats, "hot_log_memory_bytes")) as f64 / limits.least_behind as f64
    };
    assert!((0.8..1.0).contains(&on_disk(&keyspace)), "{} of what slows down and stops who writes", on_disk(&keyspace));
    // More than a frame, so that background work is requested.
    (WRITTEN..WRITTEN + 200).for_each(|number| put(&keyspace, number));
    assert!(on_disk(&keyspace) < 0.8, "{} is left on disk", on_disk(&keyspace));
    (0..WRITTEN + 200)
        .for_each(|number| assert!(keyspace.get(&number.to_le_bytes()).unwrap().is_some(), "{number} is lost"));
}

/// Some records are updated again and again, beside others that are written once. Returns how many were kept in the hot
/// log, and how many reads of runs it takes to read the former.
fn used_beside_others(logged: bool) -> (u64, u64) {
    const USED: u64 = 200;
    let disk = SimStorage::new(1);
    let environment = disk.environment(1, 32 << 20);
    let files = Arc::new(files_of(environment.clone(), logged, HashOptions::default()));
    let sizes = Sizes { bucket_bits: 10, frames: 64, copies: 0 };
    let keyspace =
        HashKeyspace::create(files, sizes, CompactionLimits { most_hot: 32 * FRAME, ..CompactionLimits::TINY })
            .unwrap();
    let put = |key: u64, round: u64| {
        keyspace.try_apply(Operation { key: &key.to_le_bytes(), value: Some(&[round as u8; 100]) }).unwrap();
        while environment.scheduler.run_one() {}
    };
    for round in 0..60 {
        (0..USED).for_each(|key| put(key, round));
        (0..1000).for_each(|once| put(USED + round * 1000 + once, round));
    }
    let check = |key: u64, round: u64| {
        assert_eq!(keyspace.get(&key.to_le_bytes()).unwrap(), Some(vec![round as u8; 100]), "{key}");
    };
    let reads = || disk.counters_of(FileKind::Table).reads;
    let before = reads();
    (0..USED).for_each(|key| check(key, 59));
    let read = reads() - before;
    (0..60_000).for_each(|once| check(USED + once, once / 1000));
    (stat(&keyspace.stats(), "records_moved_to_tail"), read)
}

/// Records in the hot log of a logged keyspace hold up the database's log, so all are compacted in the order in which
/// they came.
#[test]
fn what_is_updated_in_place_stays_in_the_hot_log() {
    let ((kept, read), (kept_logged, _)) = (used_beside_others(false), used_beside_others(true));
    assert!(kept > 0 && kept_logged == 0, "{kept} and {kept_logged} were kept");
    assert_eq!(read, 0, "reads of records that are written again and again");
}
