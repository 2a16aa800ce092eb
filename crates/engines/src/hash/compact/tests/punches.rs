//! What is punched out of deltas is read by nobody any more (trap 5): not by merges, not for neighbours whose records
//! are in the same blocks, not by who has an older list.

use super::*;

const KEYS: u32 = 3_000;

fn value(key: u32) -> Vec<u8> {
    vec![key as u8; 40]
}

/// Several partitions with bases, and three deltas that have records of all of them.
fn world() -> World {
    let mut world = World::new(1, true);
    for round in 0..4u8 {
        (0..500u32).for_each(|key| world.set(&key.to_be_bytes(), &[round; 100]));
        world.compact().unwrap();
        world.fold_all().unwrap();
    }
    world.goals.largest_base = u64::MAX;
    for round in 0..3 {
        (0..KEYS).filter(|key| key % 3 == round).for_each(|key| world.set(&key.to_be_bytes(), &value(key)));
        world.compact().unwrap();
    }
    let runs = world.hash.cold.runs();
    assert!(runs.partitions().count() >= 4 && runs.deltas().len() == 3);
    world
}

/// Gives back what may be. Whether that was something.
fn punched(world: &World) -> bool {
    let used = world.disk.space_used();
    world.hash.cold.punch(|record| world.journal.is_synced(record)).unwrap();
    world.disk.space_used() < used
}

#[track_caller]
fn check_all(world: &World) {
    world.check_runs();
    (0..KEYS).for_each(|key| assert_eq!(world.value(&key.to_be_bytes()), Some(value(key)), "{key}"));
}

#[test]
fn trap_05_blocks_with_records_of_a_neighbour_stay_until_that_is_folded() {
    let world = world();
    let mut times = 0;
    while world.compactor().fold_any().unwrap() {
        times += u32::from(punched(&world));
        check_all(&world);
    }
    assert!(times >= 3, "something was punched {times} times");
}

#[test]
fn trap_05_a_merge_leaves_out_what_is_folded_and_may_be_punched() {
    let world = world();
    assert!(world.compactor().fold_any().unwrap() && punched(&world));
    world.compactor().merge().unwrap();
    assert_eq!(world.hash.cold.runs().deltas().len(), 1);
    check_all(&world);
    world.fold_all().unwrap();
    check_all(&world);
}

#[test]
fn trap_05_a_stretch_stays_for_who_has_the_list_of_before_a_delta_came() {
    let world = world();
    let partition = world.hash.cold.partition(0, &world.hash.domain.pin());
    let (hashes, delta) = (partition.stretch().hashes(), partition.runs().next().unwrap());
    world.set(b"another", b"1");
    world.compact().unwrap();
    assert!(world.compactor().fold_any().unwrap());
    let mut frame = world.frame();
    let mut is_there = || delta.read(delta.blocks_of(&hashes).start, &mut frame).is_ok();
    assert!(!punched(&world) && is_there(), "it has a reader");
    drop(partition);
    assert!(punched(&world) && !is_there());
    check_all(&world);
}
