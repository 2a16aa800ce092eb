//! Reservations: back-pressure, the full disk, the segment that is held back.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ecotone_substrate::{
    Error,
    scheduler::Priority,
    storage::Storage,
    wal::{Durability, RecordKind, Replay, ReservationKind, Wal, WalOptions},
};
use ecotone_testkit::{
    sim::{Crash, SimStorage},
    thread_watch::ThreadWatch,
};
use parking_lot::Mutex;

use crate::fixture::*;

const BODY: [u8; 10_000] = [1; 10_000];

fn fill(wal: &Wal, room: ReservationKind) -> Result<(), Error> {
    loop {
        let reservation = wal.reserve(room, BODY.len())?;
        let placed = wal.append(reservation, RecordKind::Structure, &BODY, |_| ());
        wal.commit(placed.end, Durability::Buffered)?;
    }
}

/// Has `job` run in the background whenever the log calls for relief.
fn on_call(fixture: &Fixture, wal: &Arc<Wal>, job: impl Fn(&Wal) + Send + Sync + 'static) -> Arc<AtomicUsize> {
    let (calls, job) = (Arc::new(AtomicUsize::new(0)), Arc::new(job));
    let (scheduler, counted, log) = (Arc::downgrade(&fixture.scheduler), calls.clone(), Arc::downgrade(wal));
    wal.on_half_full(Box::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let (job, log) = (job.clone(), log.clone());
        if let Some(scheduler) = scheduler.upgrade() {
            scheduler.spawn(Priority::Checkpoint, "relief", move || _ = log.upgrade().map(|wal| job(&wal)));
        }
    }));
    calls
}

#[test]
fn a_writer_waits_for_truncation_and_goes_on() {
    let (fixture, wal) = fresh();
    let most = Arc::new(AtomicUsize::new(0));
    let calls = on_call(&fixture, &wal, |wal| wal.truncate(wal.tail()));
    for _ in 0..1000 {
        put(&wal, &BODY, Durability::Buffered).unwrap();
        most.fetch_max(usize::try_from(wal.used()).unwrap(), Ordering::SeqCst);
    }
    assert!(most.load(Ordering::SeqCst) as u64 <= OPTIONS.limit_bytes);
    assert!((9..30).contains(&calls.load(Ordering::SeqCst)), "{calls:?} calls for ten fillings");
}

#[test]
fn half_full_calls_once_and_again_after_relief() {
    let (fixture, wal) = fresh();
    let calls = on_call(&fixture, &wal, |_| ());
    let fill_to = |bytes| {
        while wal.used() < bytes {
            put(&wal, &BODY, Durability::Buffered).unwrap();
        }
    };
    fill_to(OPTIONS.limit_bytes / 2 - 20_000);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    fill_to(OPTIONS.limit_bytes - 20_000);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    wal.truncate(wal.tail());
    fill_to(OPTIONS.limit_bytes - 20_000);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[test]
fn relief_that_did_not_make_enough_is_called_for_before_the_log_is_full() {
    let (fixture, wal) = fresh();
    // While the first relief works, writers fill the log to nearly its limit.
    let calls = on_call(&fixture, &wal, |wal| wal.truncate(wal.tail() - OPTIONS.limit_bytes / 4));
    while wal.used() < OPTIONS.limit_bytes - 20_000 {
        put(&wal, &BODY, Durability::Buffered).unwrap();
    }
    wal.truncate(wal.tail() - OPTIONS.limit_bytes / 4 * 3);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    while fixture.scheduler.run_one() {}
    assert_eq!((calls.load(Ordering::SeqCst), wal.used()), (2, OPTIONS.limit_bytes / 4), "the second made enough");
}

#[test]
fn writers_to_a_nearly_full_log_are_slowed_down_and_others_are_not() {
    let fixture = Fixture::threaded(&SimStorage::new(3));
    let wal = fixture.create(OPTIONS).unwrap();
    let delays = || wal.stats().into_iter().find(|(name, _)| *name == "delays").unwrap().1;
    while wal.used() < OPTIONS.limit_bytes / 4 * 3 {
        put(&wal, &BODY, Durability::Buffered).unwrap();
    }
    assert_eq!(delays(), 0);
    drop(wal.reserve(ReservationKind::Structure, BODY.len()).unwrap());
    while wal.used() < OPTIONS.limit_bytes - 20_000 {
        put(&wal, &BODY, Durability::Buffered).unwrap();
    }
    let before = delays();
    assert!(before > 0);
    (0..100).for_each(|_| drop(wal.reserve(ReservationKind::Structure, BODY.len()).unwrap()));
    assert_eq!(delays(), before, "whoever makes room is not delayed");
}

#[test]
fn nobody_waits_for_relief_that_has_failed() {
    let fixture = Fixture::threaded(&SimStorage::new(3));
    let wal = fixture.create(OPTIONS).unwrap();
    let delays = || wal.stats().into_iter().find(|(name, _)| *name == "delays").unwrap().1;
    let fill = || {
        while wal.used() < OPTIONS.limit_bytes - 20_000 {
            put(&wal, &BODY, Durability::Buffered).unwrap();
        }
    };
    wal.reclaim_failed(Error::NoSpace { file: "manifest.9".into(), wanted: 1 });
    fill();
    assert_eq!(delays(), 0);
    wal.truncate(wal.tail());
    fill();
    assert!(delays() > 0, "relief has come");
}

#[test]
fn a_log_of_few_records_may_be_long() {
    let (fixture, options) = (Fixture::on(&SimStorage::new(1)), WalOptions { longest_bytes: 4 << 20, ..OPTIONS });
    let wal = fixture.create(options).unwrap();
    let calls = on_call(&fixture, &wal, |_| ());
    let write = |i: u64| {
        put(&wal, &BODY[..1_000], Durability::Buffered).unwrap();
        wal.count_distinct(wal.tail(), i.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1_000);
    };
    (0..1_900).for_each(|i| write(i % 100));
    assert!(wal.used() > OPTIONS.limit_bytes && wal.weight() <= wal.used() && calls.load(Ordering::SeqCst) == 0);
    (0..700).for_each(write);
    assert_eq!(calls.load(Ordering::SeqCst), 1, "different records count");
    wal.truncate(wal.tail() - 100_000);
    assert!(wal.weight() < 200_000, "what is gone does not");
}

#[test]
fn a_log_that_opens_more_than_half_full_calls_at_once() {
    let (fixture, wal) = fresh();
    (0..80).for_each(|_| _ = put(&wal, &BODY, Durability::Buffered).unwrap());
    let fixture = Fixture::on(&fixture.disk.crash(Crash::KeepAll));
    let (wal, _) = fixture.recover(OPTIONS, FRESH).unwrap();
    assert_eq!(on_call(&fixture, &wal, |_| ()).load(Ordering::SeqCst), 1);
}

#[test]
fn failed_relief_ends_the_wait_with_its_cause_and_later_relief_helps() {
    let (fixture, wal) = fresh();
    let full = Arc::new(Mutex::new(true));
    let disk_is_full = full.clone();
    on_call(&fixture, &wal, move |wal| match *disk_is_full.lock() {
        true => wal.reclaim_failed(Error::NoSpace { file: "manifest.9".into(), wanted: 1 }),
        false => wal.truncate(wal.tail()),
    });
    let error = fill(&wal, ReservationKind::Write).unwrap_err();
    assert!(error.to_string().contains("manifest.9"), "{error}");
    let used = wal.used();
    let error = fill(&wal, ReservationKind::Delete).unwrap_err();
    assert!(error.is_no_space() && wal.used() > used + OPTIONS.segment_bytes / 2, "deletes go on for a segment");
    let reservation = wal.reserve(ReservationKind::Structure, BODY.len()).expect("structure never waits");
    drop(reservation);
    *full.lock() = false;
    put(&wal, &BODY, Durability::Sync).unwrap();
}

#[test]
fn poison_ends_the_wait() {
    let (fixture, wal) = fresh();
    let health = fixture.health.clone();
    on_call(&fixture, &wal, move |wal| {
        if wal.used() > OPTIONS.limit_bytes * 3 / 4 {
            health.poison(Error::Invalid("on purpose".into()));
        }
    });
    assert!(matches!(fill(&wal, ReservationKind::Write), Err(Error::Poisoned { .. })));
}

#[test]
fn a_full_disk_is_told_before_anything_is_promised_and_passes() {
    let (fixture, wal) = fresh();
    let disk = &fixture.disk;
    disk.space_limit(disk.space_used() + 5 * OPTIONS.segment_bytes / 2);
    let files = |disk: &SimStorage| disk.list().unwrap().len();
    let error = fill(&wal, ReservationKind::Write).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    assert_eq!(files(disk), 4, "the half-made segment is gone");
    let tail = wal.tail();
    assert!(fill(&wal, ReservationKind::Delete).unwrap_err().is_no_space());
    assert!(wal.tail() - tail > OPTIONS.segment_bytes / 2, "a segment was held back for deletes");
    assert!(wal.reserve(ReservationKind::Structure, BODY.len()).unwrap_err().is_no_space());
    let reader = Fixture::on(&disk.crash(Crash::KeepAll));
    reader.disk.space_limit(u64::MAX);
    assert_eq!(reader.recover(OPTIONS, FRESH).unwrap().0.tail(), wal.tail());
    wal.truncate(tail);
    put(&wal, &BODY, Durability::Sync).expect("recycled segments need no space");
    assert!(fill(&wal, ReservationKind::Write).unwrap_err().is_no_space());
    disk.space_limit(u64::MAX);
    put(&wal, &BODY, Durability::Sync).expect("with space, work resumes");
    assert!(fixture.health.check().is_ok());
}

#[test]
fn an_open_needs_no_space_while_a_segment_is_spare() {
    let (fixture, wal) = fresh();
    let kept = put(&wal, &BODY, Durability::Sync).unwrap();
    let disk = fixture.disk.crash(Crash::DropAll);
    disk.space_limit(disk.space_used());
    let (wal, seen) = Fixture::on(&disk).recover(OPTIONS, FRESH).unwrap();
    assert_eq!(seen, [kept]);
    assert!(put(&wal, b"no", Durability::Sync).unwrap_err().is_no_space());
    let replay = Replay { from: wal.tail(), ..FRESH };
    wal.truncate(replay.from);
    put(&wal, b"yes", Durability::Sync).expect("the old segment is spare now");
}

#[test]
fn a_reservation_that_is_dropped_gives_its_room_back() {
    let (_, wal) = fresh();
    for _ in 0..1000 {
        drop(wal.reserve(ReservationKind::Write, 900_000).unwrap());
    }
    let options = WalOptions { ..wal.options() };
    assert_eq!((wal.used(), options), (0, OPTIONS));
}

#[test]
fn a_reservation_that_finds_the_buffer_promised_waits_for_its_use() {
    let disk = SimStorage::new(3);
    let fixture = Fixture::threaded(&disk);
    let wal = fixture.create(WalOptions { limit_bytes: 8 << 20, longest_bytes: 8 << 20, ..OPTIONS }).unwrap();
    let body = vec![1; 900_000];
    let first = wal.reserve(ReservationKind::Write, body.len()).unwrap();
    let watch = ThreadWatch::default();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            watch.begin();
            let reservation = wal.reserve(ReservationKind::Write, body.len()).unwrap();
            wal.append(reservation, RecordKind::Structure, &body, |_| ())
        });
        watch.wait_asleep();
        assert!(!second.is_finished(), "there is no room for both in the buffer");
        let placed = wal.append(first, RecordKind::Structure, &body, |_| ());
        assert_eq!(second.join().unwrap().seq, placed.end);
    });
    wal.commit(wal.tail(), Durability::Sync).unwrap();
}

#[test]
#[should_panic(expected = "longer than its reservation")]
fn a_body_longer_than_reserved_is_a_bug() {
    let (_, wal) = fresh();
    let reservation = wal.reserve(ReservationKind::Write, 3).unwrap();
    wal.append(reservation, RecordKind::Structure, b"four", |_| ());
}

#[test]
fn spare_segments_go_but_for_the_next_and_what_is_promised() {
    let (fixture, wal) = fresh();
    let files = || fixture.disk.list().unwrap().len();
    while wal.used() < OPTIONS.limit_bytes - 20_000 {
        put(&wal, &BODY, Durability::Sync).unwrap();
    }
    wal.truncate(wal.tail());
    let full = files();
    let promised = wal.reserve(ReservationKind::Write, 900_000).unwrap();
    wal.shrink();
    let with_promise = files();
    let placed = wal.append(promised, RecordKind::Batch, &[5; 900_000], |_| ());
    wal.commit(placed.end, Durability::Sync).unwrap();
    wal.truncate(wal.tail());
    wal.shrink();
    assert!(
        files() <= 3 && files() < with_promise && with_promise <= full,
        "{full}, {with_promise}, {} files",
        files()
    );
    let from = wal.tail();
    let all: Vec<Seen> = (0..20_u8).map(|i| put(&wal, &vec![i; 40_000], Durability::Sync).unwrap()).collect();
    wal.shrink();
    let (_, seen) =
        Fixture::on(&fixture.disk.crash(Crash::DropAll)).recover(OPTIONS, Replay { from, ..FRESH }).unwrap();
    assert_eq!(seen, all);
}
