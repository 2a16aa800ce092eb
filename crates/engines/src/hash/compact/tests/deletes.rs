//! Deletes on their way through the cold tier (trap 9).

use ecotone_testkit::sim::Crash;

use super::*;
use crate::hash::cold::Cursor;

/// Whether any run has a record of the key, tombstones included.
fn is_in_a_run(world: &World, key: &[u8]) -> bool {
    let runs = world.hash.cold.runs();
    let mut all = runs
        .partitions()
        .flat_map(|partition| partition.runs().map(|run| (run, partition.stretch().hashes())).collect::<Vec<_>>());
    all.any(|(run, hashes)| {
        let window = world.environment.memory.lease_essential(Component::Frames, Size::Slab).unwrap();
        let (mut cursor, mut found) = (Cursor::new(run, hashes, window), false);
        while cursor.advance(&hash_of).unwrap() {
            found |= cursor.key() == key;
        }
        found
    })
}

#[test]
fn trap_09_a_tombstone_passes_compaction_and_merge_and_ends_in_a_fold() {
    let world = World::new(1, true);
    world.set(b"key", b"value");
    world.set(b"other", b"stays");
    world.compact().unwrap();
    world.fold_all().unwrap();
    assert_eq!(world.value(b"key"), Some(b"value".to_vec()));
    world.remove(b"key");
    world.compact().unwrap();
    assert_eq!(world.value(b"key"), None, "the delta hides what the base has");
    world.set(b"another", b"1");
    world.compact().unwrap();
    world.compactor().merge().unwrap();
    assert_eq!(world.hash.cold.runs().deltas().len(), 1);
    assert!(world.value(b"key").is_none() && is_in_a_run(&world, b"key"));
    world.fold_all().unwrap();
    assert!(world.value(b"key").is_none() && !is_in_a_run(&world, b"key"));
    assert_eq!(world.value(b"other"), Some(b"stays".to_vec()));
}

/// A delete in place leaves a tombstone where a cold copy may be, whoever has written the record that is deleted.
#[test]
fn trap_09_a_delete_in_place_over_a_cold_copy_hides_it_for_ever() {
    let world = World::new(1, true);
    world.set(b"key", b"old");
    world.compact().unwrap();
    world.set(b"key", b"new");
    world.remove(b"key");
    assert_eq!(world.value(b"key"), None);
    world.compact().unwrap();
    assert_eq!(world.value(b"key"), None);
    world.fold_all().unwrap();
    assert!(world.value(b"key").is_none() && !is_in_a_run(&world, b"key"));
    world.remove(b"never there");
    world.compact().unwrap();
    world.fold_all().unwrap();
    assert!(world.value(b"never there").is_none() && world.hash.cold.runs().base_bytes() == 0);
}

/// Without a newer one that is durable, what was promised stays, although a newer one is in memory (decision 10,
/// invariant 35).
#[test]
fn trap_15_what_was_promised_is_not_left_behind_for_what_was_not() {
    World::both(1).iter().for_each(keeps_what_was_promised);
}

fn keeps_what_was_promised(world: &World) {
    world.set(b"key", b"promised");
    world.set(b"other", b"promised");
    let floor = world.hash.log.close_page();
    world.hash.log.freeze(floor);
    *world.journal.floor.lock().unwrap() = floor;
    // It is newer and goes with it, and for it there is a newer one that stays in memory.
    world.set(b"key", b"between");
    let between = world.hash.log.close_page();
    world.hash.log.freeze(between);
    world.set(b"key", b"in memory alone");
    while world.compactor().compact(between).unwrap() < between {}
    assert_eq!(world.value(b"key"), Some(b"in memory alone".to_vec()));
    let (mut frame, mut value) = (world.frame(), Vec::new());
    let (hash, runs) = (hash_of(b"key"), world.hash.cold.runs());
    assert!(runs.partition(hash).find(hash, b"key", &mut frame, &mut value).unwrap());
    assert_eq!(value, b"promised", "after a crash it is there as it was promised, or newer");
}

/// The log is synced when every record was judged and what lives is durable in a run, and before anything says that the
/// rest is gone: then whatever a record was left behind for is in the log (decision 10, invariant 35).
#[test]
fn trap_15_the_log_is_synced_between_the_last_judgement_and_the_record() {
    let world = World::new(1, true);
    world.set(b"key", b"old");
    world.set(b"other", b"lives");
    let until = world.hash.log.close_page();
    world.hash.log.freeze(until);
    world.set(b"key", b"new");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (disk, noted) = (world.disk.clone(), seen.clone());
    let note = move |records| noted.lock().unwrap().push((disk.crash(Crash::DropAll).files().len(), records));
    *world.journal.on_settle.lock().unwrap() = Some(Box::new(note));
    assert_eq!(world.compactor().compact(until).unwrap(), until);
    assert_eq!(*seen.lock().unwrap(), [(1, 1)], "durable runs, and records, when the log is synced");
    assert_eq!((world.journal.records().len(), world.hash.log.bounds().begin()), (2, until));
}
