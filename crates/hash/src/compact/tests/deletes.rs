//! Tombstones and the cold tier (trap 9).

use ecotone_testkit::sim::Crash;

use super::*;
use crate::cold::Cursor;

/// Whether any run has a record of the key, tombstones included.
fn is_in_a_run(fixture: &Fixture, key: &[u8]) -> bool {
    let runs = fixture.hash.cold.runs();
    let mut all = runs
        .partitions()
        .flat_map(|partition| partition.runs().map(|run| (run, partition.hash_range().hashes())).collect::<Vec<_>>());
    all.any(|(run, hashes)| {
        let window = fixture.environment.memory.lease_essential(Component::Frames, Size::Slab).unwrap();
        let (mut cursor, mut found) = (Cursor::new(run, hashes, window), false);
        while cursor.advance(&hash_of).unwrap() {
            found |= cursor.key() == key;
        }
        found
    })
}

#[test]
fn trap_09_a_tombstone_passes_compaction_and_merge_and_ends_in_a_base_merge() {
    let fixture = Fixture::new(1, true);
    fixture.set(b"key", b"value");
    fixture.set(b"other", b"stays");
    fixture.compact().unwrap();
    fixture.merge_all_bases().unwrap();
    assert_eq!(fixture.value(b"key"), Some(b"value".to_vec()));
    fixture.remove(b"key");
    fixture.compact().unwrap();
    assert_eq!(fixture.value(b"key"), None, "the delta hides what the base has");
    fixture.set(b"another", b"1");
    fixture.compact().unwrap();
    fixture.compactor().merge().unwrap();
    assert_eq!(fixture.hash.cold.runs().deltas().len(), 1);
    assert!(fixture.value(b"key").is_none() && is_in_a_run(&fixture, b"key"));
    fixture.merge_all_bases().unwrap();
    assert!(fixture.value(b"key").is_none() && !is_in_a_run(&fixture, b"key"));
    assert_eq!(fixture.value(b"other"), Some(b"stays".to_vec()));
}

/// A delete in place leaves a tombstone if the cold tier may have the key, whichever operation wrote the deleted
/// record.
#[test]
fn trap_09_a_delete_in_place_over_a_cold_copy_hides_it_for_ever() {
    let fixture = Fixture::new(1, true);
    fixture.set(b"key", b"old");
    fixture.compact().unwrap();
    fixture.set(b"key", b"new");
    fixture.remove(b"key");
    assert_eq!(fixture.value(b"key"), None);
    fixture.compact().unwrap();
    assert_eq!(fixture.value(b"key"), None);
    fixture.merge_all_bases().unwrap();
    assert!(fixture.value(b"key").is_none() && !is_in_a_run(&fixture, b"key"));
    fixture.remove(b"never there");
    fixture.compact().unwrap();
    fixture.merge_all_bases().unwrap();
    assert!(fixture.value(b"never there").is_none() && fixture.hash.cold.runs().base_bytes() == 0);
}

/// A promised record stays until a newer one is durable, although a newer one is in memory (hash-protocol.md, invariant
/// 35).
#[test]
fn trap_15_what_was_promised_is_not_left_behind_for_what_was_not() {
    Fixture::both(1).iter().for_each(keeps_what_was_promised);
}

fn keeps_what_was_promised(fixture: &Fixture) {
    fixture.set(b"key", b"promised");
    fixture.set(b"other", b"promised");
    let floor = fixture.hash.chains.log.close_page();
    fixture.hash.chains.log.freeze(floor);
    *fixture.journal.floor.lock().unwrap() = floor;
    // This record is newer and leaves the log in the same compaction; a still newer one stays in memory.
    fixture.set(b"key", b"between");
    let between = fixture.hash.chains.log.close_page();
    fixture.hash.chains.log.freeze(between);
    fixture.set(b"key", b"in memory alone");
    while fixture.compactor().compact(between).unwrap() < between {}
    assert_eq!(fixture.value(b"key"), Some(b"in memory alone".to_vec()));
    let (mut frame, mut value) = (fixture.frame(), Vec::new());
    let (hash, runs) = (hash_of(b"key"), fixture.hash.cold.runs());
    assert!(runs.partition(hash).find(hash, b"key", &mut frame, &mut value).unwrap());
    assert_eq!(value, b"promised", "after a crash it is there as it was promised, or newer");
}

/// The log is synced after liveness is decided and the live records are durable in a run, and before any record says
/// that the rest is gone. So any record for which another was dropped is in the log (hash-protocol.md, invariant 35).
#[test]
fn trap_15_the_log_is_synced_between_the_last_judgement_and_the_record() {
    let fixture = Fixture::new(1, true);
    fixture.set(b"key", b"old");
    fixture.set(b"other", b"lives");
    let until = fixture.hash.chains.log.close_page();
    fixture.hash.chains.log.freeze(until);
    fixture.set(b"key", b"new");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (disk, noted) = (fixture.disk.clone(), seen.clone());
    let note = move |records| noted.lock().unwrap().push((disk.crash(Crash::DropAll).files().len(), records));
    *fixture.journal.on_settle.lock().unwrap() = Some(Box::new(note));
    assert_eq!(fixture.compactor().compact(until).unwrap(), until);
    assert_eq!(*seen.lock().unwrap(), [(1, 1)], "durable runs, and records, when the log is synced");
    assert_eq!((fixture.journal.records().len(), fixture.hash.chains.log.bounds().begin()), (2, until));
}
