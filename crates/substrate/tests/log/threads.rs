//! Several threads on one log.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use ecotone_substrate::wal::{Durability, RecordKind, ReservationKind, Wal, WalOptions};
use ecotone_testkit::sim::{Crash, SimStorage};
use parking_lot::Mutex;

use crate::fixture::*;

const LARGE: WalOptions =
    WalOptions { first_bytes: 256 << 10, segment_bytes: 256 << 10, limit_bytes: 64 << 20, longest_bytes: 64 << 20 };

fn stat(wal: &Wal, name: &str) -> u64 {
    wal.stats().into_iter().find(|(key, _)| *key == name).unwrap().1
}

#[test]
fn one_sync_serves_many_and_no_acknowledgement_is_lost() {
    let fixture = Fixture::threaded(&SimStorage::new(2));
    let wal = fixture.create(LARGE).unwrap();
    let acknowledged = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (wal, acknowledged) = (&wal, &acknowledged);
            scope.spawn(move || {
                for i in 0..500_u32 {
                    let body = [&[thread][..], &i.to_le_bytes(), &vec![thread; (i % 300) as usize]].concat();
                    let (seq, _, body) =
                        put(wal, &body, if i % 5 == 0 { Durability::Buffered } else { Durability::Sync }).unwrap();
                    if i % 5 != 0 {
                        acknowledged.lock().insert(seq, body);
                    }
                }
            });
        }
    });
    let seen: BTreeMap<_, _> = Fixture::on(&fixture.disk.crash(Crash::DropAll))
        .recover(LARGE, FRESH)
        .unwrap()
        .1
        .into_iter()
        .map(|(seq, _, body)| (seq, body))
        .collect();
    for (seq, body) in &*acknowledged.lock() {
        assert_eq!(seen.get(seq), Some(body));
    }
    for thread in 0..4_u8 {
        let of_thread: Vec<_> = seen
            .values()
            .filter(|body| body[0] == thread)
            .map(|body| u32::from_le_bytes(body[1..5].try_into().unwrap()))
            .collect();
        assert!(of_thread.is_sorted(), "a thread's records are in its order");
    }
    assert_eq!(stat(&wal, "records"), 2000);
}

#[test]
fn waiters_behind_a_sync_are_served_together() {
    let fixture = Fixture::threaded(&SimStorage::new(2));
    let wal = fixture.create(LARGE).unwrap();
    let file = fixture.disk.files().into_keys().find(|id| fixture.disk.files()[id][..8] != [0; 8]).unwrap();
    let before = stat(&wal, "syncs");
    fixture.disk.hold(file, 4096);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| put(&wal, b"first", Durability::Sync));
        fixture.disk.wait_blocked(file, 4096);
        let others: Vec<_> = (0..8_u8)
            .map(|i| {
                let wal = &wal;
                scope.spawn(move || put(wal, &[i], Durability::Sync))
            })
            .collect();
        while stat(&wal, "records") < 9 {
            std::thread::yield_now();
        }
        fixture.disk.release(file, 4096);
        first.join().unwrap().unwrap();
        others.into_iter().for_each(|other| _ = other.join().unwrap().unwrap());
    });
    let syncs = stat(&wal, "syncs") - before;
    assert!(syncs <= 2, "{syncs} syncs for nine commits");
}

#[test]
fn nothing_below_the_applied_position_is_unapplied() {
    let fixture = Fixture::threaded(&SimStorage::new(2));
    let wal = fixture.create(LARGE).unwrap();
    let unapplied = Mutex::new(BTreeMap::new());
    let (done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u8)
            .map(|thread| {
                let (wal, unapplied, looks) = (&wal, &unapplied, &looks);
                scope.spawn(move || {
                    // On until somebody has looked, which may take a while on a busy machine.
                    for _ in (0..20_000).take_while(|round| *round < 1000 || looks.load(Ordering::SeqCst) <= 10) {
                        let reservation = wal.reserve(ReservationKind::Write, 20).unwrap();
                        let in_flight = wal.announce();
                        let placed = wal.append(reservation, RecordKind::Structure, &[thread; 20], |seq| {
                            _ = unapplied.lock().insert(seq, thread)
                        });
                        std::thread::yield_now();
                        unapplied.lock().remove(&placed.seq);
                        drop(in_flight);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let applied = wal.applied();
                // Whoever is below was there before the look, and must have been announced.
                let oldest = unapplied.lock().keys().next().copied();
                assert!(oldest.is_none_or(|oldest| oldest >= applied), "{oldest:?} is below {applied}");
                looks.fetch_add(1, Ordering::SeqCst);
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::SeqCst);
    });
    assert!(looks.load(Ordering::SeqCst) > 10);
    assert_eq!(wal.applied(), wal.tail());
}

#[test]
fn an_announced_operation_holds_the_applied_position() {
    let (_, wal) = fresh();
    let in_flight = wal.announce();
    let before = wal.tail();
    append(&wal, b"other").unwrap();
    let later = wal.announce();
    append(&wal, b"more").unwrap();
    assert_eq!(wal.applied(), before);
    drop(in_flight);
    assert!(wal.applied() > before && wal.applied() < wal.tail());
    drop(later);
    assert_eq!(wal.applied(), wal.tail());
}

#[test]
fn more_operations_than_slots_are_in_flight_one_after_the_other() {
    let (_, wal) = fresh();
    std::thread::scope(|scope| {
        for _ in 0..200 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let in_flight = wal.announce();
                    std::thread::yield_now();
                    drop(in_flight);
                }
            });
        }
    });
    assert_eq!(wal.applied(), wal.tail());
}
