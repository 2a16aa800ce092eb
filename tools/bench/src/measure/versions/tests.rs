use std::{
    collections::HashMap,
    sync::{Mutex, atomic::AtomicBool},
};

use super::*;
use crate::measure::permutation::mix;

fn table(run: u32) -> Versions {
    Versions::new(run, 8, 32).unwrap()
}

/// Identities that share a slot.
fn same_slot(number: u64) -> u64 {
    number * SLOTS as u64 + 1
}

/// Writes the record alone and returns its version.
fn write(versions: &Versions, identity: u64) -> u64 {
    let ticket = versions.begin(identity);
    let version = ticket.version;
    versions.end(ticket);
    version
}

#[test]
fn a_lone_write_raises_the_bound_and_overlapping_ones_do_not() {
    let versions = table(3);
    let first = versions.begin(9);
    let written = first.version;
    assert_eq!((versions.acknowledged(9), written), (0, base_version(3) + 1));
    versions.end(first);
    assert_eq!(versions.acknowledged(9), written);
    let (second, third) = (versions.begin(9), versions.begin(9));
    versions.end(third);
    assert_eq!(versions.acknowledged(9), written);
    versions.end(second);
    assert_eq!(versions.acknowledged(9), written);
    let newest = write(&versions, 9);
    assert_eq!(versions.acknowledged(9), newest);
}

#[test]
fn forgotten_records_lose_their_bound_and_versions_still_rise() {
    let versions = table(0);
    let mut last = 0;
    for round in 0..3 {
        for number in 0..10 {
            let version = write(&versions, same_slot(number));
            assert!(version > last, "round {round}");
            last = version;
        }
    }
    assert!((0..9).all(|number| versions.acknowledged(same_slot(number)) == 0));
    assert_eq!(versions.acknowledged(same_slot(9)), last);
}

#[test]
fn a_slot_with_a_writer_keeps_its_record_and_raises_no_bound() {
    let versions = table(0);
    let known = write(&versions, same_slot(1));
    let (writer, stranger) = (versions.begin(same_slot(1)), versions.begin(same_slot(2)));
    versions.end(writer);
    assert_eq!((versions.acknowledged(same_slot(1)), versions.acknowledged(same_slot(2))), (known, 0));
    // The overlapping write is in flight and may be applied after this one.
    let overlapping = write(&versions, same_slot(2));
    versions.end(stranger);
    assert_eq!(versions.acknowledged(same_slot(2)), 0);
    assert!(write(&versions, same_slot(2)) > overlapping);
}

#[test]
fn a_bound_far_behind_is_forgotten_and_comes_back() {
    let versions = table(0);
    let known = write(&versions, 5);
    let holder = versions.begin(5);
    for round in 1..=FAR_BEHIND {
        assert_eq!(versions.acknowledged(5), if round < FAR_BEHIND { known } else { 0 }, "round {round}");
        write(&versions, 5);
    }
    versions.end(holder);
    let newest = write(&versions, 5);
    assert_eq!(versions.acknowledged(5), newest);
}

#[test]
fn more_writes_in_flight_than_a_slot_counts_are_refused() {
    assert!(Versions::new(0, 1024, 31).is_ok());
    assert!(Versions::new(0, 1024, 32).unwrap_err().to_string().contains("1024 threads have batches of 32"));
}

/// Threads write and read a few records of a few slots, over a map as the store. `late` delays the effect of a write
/// until after its end, like a store that loses acknowledged writes for a while. Returns whether a read found an older
/// version than allowed.
fn caught(late: bool) -> bool {
    let (versions, store, caught) = (table(0), Mutex::new(HashMap::new()), AtomicBool::new(false));
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let (versions, store, caught) = (&versions, &store, &caught);
            scope.spawn(move || {
                for step in 0..30_000 {
                    let draw = mix(step * 4 + thread);
                    let identity = same_slot(draw % 3) + draw / 8 % 2;
                    if draw & 64 == 0 {
                        let ticket = versions.begin(identity);
                        let version = ticket.version;
                        if late {
                            versions.end(ticket);
                            thread::yield_now();
                            store.lock().unwrap().insert(identity, version);
                        } else {
                            store.lock().unwrap().insert(identity, version);
                            versions.end(ticket);
                        }
                    } else {
                        let bound = versions.acknowledged(identity);
                        let found = store.lock().unwrap().get(&identity).copied().unwrap_or(0);
                        caught.fetch_or(found < bound, Relaxed);
                    }
                }
            });
        }
    });
    caught.into_inner()
}

#[test]
fn bounds_are_never_too_high_and_a_late_store_is_caught() {
    assert!(!caught(false));
    assert!(caught(true));
}
