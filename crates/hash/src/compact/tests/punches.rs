//! Punched blocks of deltas are not read any more (trap 5): not by merges, not for adjacent partitions with records in
//! the same blocks, not by a reader with an older list.

use super::*;

const KEYS: u32 = 3_000;

fn value(key: u32) -> Vec<u8> {
    vec![key as u8; 40]
}

/// Several partitions with bases, and three deltas that have records of all of them.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new(1, true);
    for round in 0..4u8 {
        (0..500u32).for_each(|key| fixture.set(&key.to_be_bytes(), &[round; 100]));
        fixture.compact().unwrap();
        fixture.merge_all_bases().unwrap();
    }
    fixture.limits.largest_base = u64::MAX;
    for round in 0..3 {
        (0..KEYS).filter(|key| key % 3 == round).for_each(|key| fixture.set(&key.to_be_bytes(), &value(key)));
        fixture.compact().unwrap();
    }
    let runs = fixture.hash.cold.runs();
    assert!(runs.partitions().count() >= 4 && runs.deltas().len() == 3);
    fixture
}

/// Punches all blocks that may be. Returns whether there were any.
fn punched(fixture: &Fixture) -> bool {
    let used = fixture.disk.space_used();
    fixture.hash.cold.punch(|record| fixture.journal.is_synced(record)).unwrap();
    fixture.disk.space_used() < used
}

#[track_caller]
fn check_all(fixture: &Fixture) {
    fixture.check_runs();
    (0..KEYS).for_each(|key| assert_eq!(fixture.value(&key.to_be_bytes()), Some(value(key)), "{key}"));
}

#[test]
fn trap_05_blocks_with_records_of_a_neighbour_stay_until_that_is_merged() {
    let fixture = fixture();
    let mut times = 0;
    while fixture.compactor().merge_any_base().unwrap() {
        times += u32::from(punched(&fixture));
        check_all(&fixture);
    }
    assert!(times >= 3, "something was punched {times} times");
}

#[test]
fn trap_05_a_merge_leaves_out_what_is_in_a_base_and_may_be_punched() {
    let fixture = fixture();
    assert!(fixture.compactor().merge_any_base().unwrap() && punched(&fixture));
    fixture.compactor().merge().unwrap();
    assert_eq!(fixture.hash.cold.runs().deltas().len(), 1);
    check_all(&fixture);
    fixture.merge_all_bases().unwrap();
    check_all(&fixture);
}

#[test]
fn trap_05_a_hash_range_stays_for_who_has_the_list_of_before_a_delta_came() {
    let fixture = fixture();
    let partition = fixture.hash.cold.partition(0, &fixture.hash.chains.domain.pin());
    let (hashes, delta) = (partition.hash_range().hashes(), partition.runs().next().unwrap());
    fixture.set(b"another", b"1");
    fixture.compact().unwrap();
    assert!(fixture.compactor().merge_any_base().unwrap());
    let mut frame = fixture.frame();
    let mut is_there = || delta.read(delta.blocks_of(&hashes).start, &mut frame).is_ok();
    assert!(!punched(&fixture) && is_there(), "it has a reader");
    drop(partition);
    assert!(punched(&fixture) && !is_there());
    check_all(&fixture);
}
