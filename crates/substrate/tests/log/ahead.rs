//! Segments that are made before a writer needs them.

use ecotone_substrate::{
    storage::{FileId, Storage},
    wal::{Durability, Wal},
};
use ecotone_testkit::{
    sim::{Crash, SimStorage},
    thread_watch::ThreadWatch,
};

use crate::fixture::*;

/// Six of them fill a segment.
const BODY: [u8; 10_000] = [1; 10_000];
/// The first and the one that is held back are there from the beginning.
const THIRD: FileId = FileId::Log(3);

fn put_some(wal: &Wal, count: u32) {
    (0..count).for_each(|_| _ = put(wal, &BODY, Durability::Buffered).unwrap());
}

fn files(fixture: &Fixture) -> usize {
    fixture.disk.list().unwrap().len()
}

#[test]
fn a_segment_is_made_when_less_than_half_of_one_is_left() {
    let (fixture, wal) = fresh();
    put_some(&wal, 3);
    assert_eq!((fixture.scheduler.debt(), files(&fixture)), (0, 2));
    put_some(&wal, 1);
    assert_eq!((fixture.scheduler.debt(), files(&fixture)), (1, 2));
    assert!(fixture.scheduler.run_one());
    assert_eq!((fixture.scheduler.debt(), files(&fixture)), (0, 3));
    put_some(&wal, 5);
    assert_eq!((fixture.scheduler.debt(), files(&fixture)), (0, 3), "there is room for most of another");
    put_some(&wal, 1);
    assert_eq!(fixture.scheduler.debt(), 1);
}

#[test]
fn writers_go_on_while_a_segment_is_made_and_who_needs_it_makes_no_other() {
    let fixture = Fixture::threaded(&SimStorage::new(2));
    let wal = fixture.create(OPTIONS).unwrap();
    fixture.disk.hold(THIRD, 0);
    put_some(&wal, 4);
    fixture.disk.wait_blocked(THIRD, 0);
    put_some(&wal, 1);
    let watch = ThreadWatch::default();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            watch.begin();
            put_some(&wal, 2);
        });
        watch.wait_asleep();
        assert!(!writer.is_finished(), "it is not room yet");
        fixture.disk.release(THIRD, 0);
        writer.join().unwrap();
    });
    assert_eq!(files(&fixture), 3);
}

#[test]
fn a_full_disk_is_told_to_the_writer_who_needs_the_segment_and_not_asked_again_before() {
    let (fixture, wal) = fresh();
    fixture.disk.space_limit(fixture.disk.space_used());
    put_some(&wal, 4);
    assert!(fixture.scheduler.run_one());
    assert_eq!(files(&fixture), 2, "what was made of it is gone");
    put_some(&wal, 1);
    assert!(fixture.scheduler.debt() == 0 && fixture.health.check().is_ok());
    let full = (0..10).find_map(|_| put(&wal, &BODY, Durability::Buffered).err()).expect("there is no room");
    assert!(full.is_no_space() && fixture.health.check().is_ok(), "{full}");
    fixture.disk.space_limit(u64::MAX);
    put_some(&wal, 5);
    assert_eq!(
        (fixture.scheduler.debt(), files(&fixture)),
        (1, 3),
        "the writer has made one, and another is asked for"
    );
    assert!(fixture.scheduler.run_one());
    assert_eq!(files(&fixture), 4);
}

/// A segment counts as space only when its name is durable (compaction-pace.md, invariant 19). So the power may fail at
/// any I/O of the job that makes it, and of the writes that go into it.
#[test]
fn no_synced_record_is_lost_with_a_segment_that_was_made_ahead() {
    let mut most = 0;
    for index in 0.. {
        let (fixture, wal) = fresh();
        let disk = &fixture.disk;
        disk.crash_at(disk.io_index() + index);
        let mut synced = Vec::new();
        for number in 0..24 {
            let Ok(record) = put(&wal, &[number; 10_000], Durability::Sync) else { break };
            synced.push(record);
            while fixture.scheduler.run_one() {}
        }
        most = most.max(disk.files().len());
        let is_over = !disk.is_off();
        let (_, seen) = Fixture::on(&disk.crash(Crash::DropAll)).recover(OPTIONS, FRESH).unwrap();
        assert!(seen.starts_with(&synced) && seen.len() <= synced.len() + 1, "power failed at I/O {index}");
        if is_over {
            return assert!(synced.len() == 24 && most >= 5, "{} records in {most} segments", synced.len());
        }
    }
}
