//! What is appended is recovered.

use std::sync::Arc;

use ecotone_substrate::{
    disk::Disk,
    environment::Environment,
    limits::{MAX_LOG_RECORD, PAGE},
    storage::{FileId, Storage},
    wal::{
        BatchEncoder, Durability, FRAME_BYTES, LoggedOperation, MIN_OPERATION_BYTES, Record, RecordKind, Replay,
        ReservationKind, Wal, WalOptions,
    },
};
use ecotone_testkit::sim::{Crash, SimStorage};

use crate::fixture::*;

#[test]
fn records_of_all_lengths_survive_repeated_opens() {
    let (fixture, wal) = fresh();
    let mut disk = fixture.disk.clone();
    let mut wal = wal;
    let mut expected = Vec::new();
    for life in 0..5_u8 {
        for length in [0, 1, 100, 4096, 70_000, 3, 200_000] {
            expected.push(put(&wal, &vec![life; length], Durability::Buffered).unwrap());
        }
        let (tail, incarnation) = (wal.tail(), wal.incarnation());
        disk = disk.crash(Crash::KeepAll);
        let (next, seen) = Fixture::on(&disk)
            .recover(WalOptions { limit_bytes: 4 << 20, longest_bytes: 4 << 20, ..OPTIONS }, FRESH)
            .unwrap();
        assert_eq!(seen, expected);
        assert_eq!((next.tail(), next.written(), next.synced()), (tail, tail, tail), "what was recovered is durable");
        assert!(next.incarnation() > incarnation);
        wal = next;
    }
}

#[test]
fn the_longest_record_is_taken_and_a_longer_one_is_not() {
    let (fixture, _) = fresh();
    let options = WalOptions { limit_bytes: 4 << 20, longest_bytes: 4 << 20, ..OPTIONS };
    let (wal, _) = fixture.recover(options, FRESH).unwrap();
    let longest = vec![1; MAX_LOG_RECORD - 1];
    let expected =
        [put(&wal, b"before", Durability::Buffered).unwrap(), put(&wal, &longest, Durability::Sync).unwrap()];
    let error = wal.reserve(ReservationKind::Structure, MAX_LOG_RECORD + 1).unwrap_err();
    assert!(error.to_string().contains("log record"), "{error}");
    let (_, seen) = Fixture::on(&fixture.disk.crash(Crash::DropAll)).recover(options, FRESH).unwrap();
    assert_eq!(seen, expected);
}

#[test]
fn batches_come_back_in_order_with_room_for_replay() {
    let (fixture, wal) = fresh();
    let operations: [LoggedOperation<'_>; 4] =
        [(1, b"a", Some(b"1")), (300, b"b", None), (1, b"a", Some(b"")), (u32::MAX, &[0; 1024], Some(&[9; 876]))];
    let mut body = Vec::new();
    let mut encoder = BatchEncoder::new(&mut body, operations.len());
    operations.iter().for_each(|&(keyspace, key, value)| encoder.push(keyspace, key, value));
    assert!(body.len() + FRAME_BYTES > 3 * MIN_OPERATION_BYTES + 1900);
    let placed = wal.append(wal.reserve(ReservationKind::Write, body.len()).unwrap(), RecordKind::Batch, &body, |_| ());
    wal.commit(placed.end, Durability::Sync).unwrap();
    let (_, seen) = Fixture::on(&fixture.disk.crash(Crash::DropAll)).recover(OPTIONS, FRESH).unwrap();
    let shown = |(keyspace, key, value): LoggedOperation<'_>| {
        (placed.seq, keyspace, [key, b"=", value.unwrap_or(b"(none)")].concat())
    };
    assert_eq!(seen, operations.map(shown));
}

#[test]
fn small_operations_are_padded_so_that_sequences_and_memory_suffice() {
    let mut body = Vec::new();
    let mut encoder = BatchEncoder::new(&mut body, 100);
    (0..100_u8).for_each(|key| encoder.push(0, &[key], None));
    assert_eq!(body.len() + FRAME_BYTES, 100 * MIN_OPERATION_BYTES);
}

#[test]
fn buffered_survives_the_process_and_sync_survives_power_loss() {
    let (fixture, wal) = fresh();
    let synced = put(&wal, b"synced", Durability::Sync).unwrap();
    let buffered = put(&wal, b"buffered", Durability::Buffered).unwrap();
    append(&wal, b"not committed").unwrap();
    let recovered = |how| Fixture::on(&fixture.disk.crash(how)).recover(OPTIONS, FRESH).unwrap().1;
    assert_eq!(recovered(Crash::KeepAll), [synced.clone(), buffered]);
    assert_eq!(recovered(Crash::DropAll), [synced]);
}

#[test]
fn a_real_disk_serves_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::on(&SimStorage::new(1));
    let open = || -> Arc<dyn Storage> { Arc::new(Disk::open(directory.path(), true).unwrap()) };
    let storage = open();
    let environment =
        |storage: &Arc<dyn Storage>| Environment { storage: storage.clone(), ..fixture.environment(DATABASE) };
    let wal = Wal::create(environment(&storage), OPTIONS).unwrap();
    let expected: Vec<Seen> = (0..30_u8).map(|i| put(&wal, &vec![i; 9_000], Durability::Sync).unwrap()).collect();
    drop((wal, storage));
    let storage = open();
    let wal = Wal::open(environment(&storage), OPTIONS).unwrap();
    let mut seen = Vec::new();
    wal.recover(FRESH, &mut |seq, record| {
        match record {
            Record::Structure { keyspace, body } => seen.push((seq, keyspace, body.to_vec())),
            Record::Synced(_) => {}
            Record::Batch(_) => panic!("nobody wrote a batch"),
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, expected);
}

#[test]
fn sync_through_covers_the_whole_record_that_a_sequence_lies_in() {
    let (fixture, wal) = fresh();
    let first = append(&wal, &[1; 100]).unwrap();
    let second = append(&wal, &[2; 100]).unwrap();
    wal.sync_through(first.seq + 5).unwrap();
    assert!(wal.synced() >= first.end);
    wal.sync_through(second.end - 1).unwrap();
    assert_eq!(wal.synced(), second.end);
    let syncs = fixture.disk.io_index();
    wal.sync_through(second.seq).unwrap();
    assert_eq!(fixture.disk.io_index(), syncs, "what is synced costs nothing");
}

#[test]
fn replay_begins_in_the_record_that_holds_the_position() {
    let (fixture, wal) = fresh();
    let all: Vec<Seen> = (0..40_u8).map(|i| put(&wal, &vec![i; 9_000], Durability::Sync).unwrap()).collect();
    drop(wal);
    for (i, record) in all.iter().enumerate() {
        for from in [record.0, record.0 + 1, end(record) - 1] {
            let replay = Replay { from, ..FRESH };
            let (_, seen) = Fixture::on(&fixture.disk.crash(Crash::DropAll)).recover(OPTIONS, replay).unwrap();
            assert_eq!(seen, all[i..], "from {from}");
        }
    }
}

#[test]
fn truncation_keeps_the_beginning_of_the_record_that_holds_the_position() {
    let (fixture, wal) = fresh();
    let all: Vec<Seen> = (0..6_u8).map(|i| put(&wal, &vec![i; 150_000], Durability::Sync).unwrap()).collect();
    // Inside the fifth record, which begins two segments before.
    let from = end(&all[4]) - 1;
    wal.truncate(from);
    (0..4_u8).for_each(|i| _ = put(&wal, &[i; 150_000], Durability::Sync).unwrap());
    let (_, seen) =
        Fixture::on(&fixture.disk.crash(Crash::DropAll)).recover(OPTIONS, Replay { from, ..FRESH }).unwrap();
    assert_eq!(seen[..2], all[4..]);
    assert_eq!(seen.len(), 6);
}

/// Writes ten times what the log may hold, of which each record is let go at once.
fn use_segments_again(wal: &Wal) {
    for _ in 0..200 {
        let (seq, ..) = put(wal, &[1; 50_000], Durability::Sync).unwrap();
        wal.truncate(seq);
    }
}

#[test]
fn segments_are_used_again() {
    let (fixture, wal) = fresh();
    use_segments_again(&wal);
    let files = fixture.disk.list().unwrap().len();
    assert!(files <= 4, "{files} segments for a log of one record");
}

#[test]
fn a_page_of_a_segment_used_again_has_nothing_of_earlier_lives_behind_the_end() {
    let (fixture, wal) = fresh();
    use_segments_again(&wal);
    for length in (0..200).map(|i| 37 * i) {
        let end = end(&put(&wal, &vec![1; length], Durability::Buffered).unwrap());
        let (file, at) = place(&fixture.disk, end - 1);
        let (_, bytes) = fixture.disk.files().into_iter().find(|(id, _)| *id == file).unwrap();
        let behind = &bytes[at as usize + 1..(at as usize + 1).next_multiple_of(PAGE)];
        assert!(behind.iter().all(|&byte| byte == 0), "{} bytes behind a record of {length}", behind.len());
    }
}

#[test]
fn a_burst_above_the_limit_leaves_no_segments_behind() {
    let (fixture, wal) = fresh();
    let body = [1; 100_000];
    for _ in 0..40 {
        let reservation = wal.reserve(ReservationKind::Structure, body.len()).unwrap();
        wal.append(reservation, RecordKind::Structure, &body, |_| ());
    }
    wal.sync_through(wal.tail() - 1).unwrap();
    assert!(fixture.disk.list().unwrap().len() > 60);
    wal.truncate(wal.tail());
    let most = usize::try_from(OPTIONS.limit_bytes / OPTIONS.segment_bytes).unwrap() + 5;
    assert!(fixture.disk.list().unwrap().len() <= most);
    put(&wal, b"goes on", Durability::Sync).unwrap();
}

#[test]
fn another_segment_length_replaces_the_old_one() {
    let (fixture, wal) = fresh();
    let first = put(&wal, &[1; 100_000], Durability::Sync).unwrap();
    let larger = WalOptions { first_bytes: 256 << 10, segment_bytes: 256 << 10, ..OPTIONS };
    let (wal, seen) = Fixture::on(&fixture.disk).recover(larger, FRESH).unwrap();
    assert_eq!(seen, [first]);
    let second = put(&wal, &[2; 300_000], Durability::Sync).unwrap();
    wal.truncate(second.0);
    let (_, seen) = Fixture::on(&fixture.disk).recover(larger, Replay { from: second.0, ..FRESH }).unwrap();
    assert_eq!(seen, [second]);
    let lengths = fixture
        .disk
        .files()
        .into_iter()
        .filter(|(id, _)| matches!(id, FileId::Log(_)))
        .map(|(_, bytes)| bytes.len() as u64);
    assert!(lengths.into_iter().all(|length| length == larger.segment_bytes));
}
