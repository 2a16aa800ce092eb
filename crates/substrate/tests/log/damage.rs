//! Torn tails, flipped bits, refusals.

use std::io::ErrorKind;

use ecotone_substrate::{
    Error, Seq,
    limits::SECTOR,
    storage::FileId,
    wal::{Durability, Location, Record, Replay, SegmentHeader},
};
use ecotone_testkit::sim::{Crash, SimStorage};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::fixture::*;

/// Bytes of a segment before the log's first byte.
const HEADER: u64 = 4096;

/// A log of five short records, its file, and the end of each record.
fn short_log() -> (SimStorage, FileId, Vec<Seen>, Vec<Seq>) {
    let (fixture, wal) = fresh();
    let body = |i: u8| vec![i; 3 + usize::from(i)];
    let (seen, ends) = (1..6).map(|i| (put(&wal, &body(i), Durability::Sync).unwrap(), wal.tail())).unzip();
    let used = fixture.disk.files().into_iter().find(|(_, bytes)| bytes[4096..].iter().any(|&byte| byte != 0));
    (fixture.disk.crash(Crash::KeepAll), used.unwrap().0, seen, ends)
}

fn recover(disk: &SimStorage, replay: Replay) -> Result<Vec<Seen>, Error> {
    Fixture::on(disk).recover(OPTIONS, replay).map(|(_, seen)| seen)
}

/// The end of the fourth record: the mark before the fifth says that it was synced, and nothing says it of the fifth.
fn known_synced(ends: &[Seq]) -> Seq {
    ends[3]
}

#[test]
fn a_tail_torn_at_any_byte_ends_the_log_before_the_record() {
    let (disk, file, seen, ends) = short_log();
    for cut in 1..ends[4] {
        let torn = disk.crash(Crash::KeepAll);
        let offset = HEADER + cut - 1;
        torn.patch(file, offset, &vec![0; usize::try_from(ends[4] - cut).unwrap()]);
        let whole = ends.iter().filter(|&&end| end <= cut).count();
        assert_eq!(recover(&torn, FRESH).unwrap(), seen[..whole], "cut at {cut}");
    }
}

#[test]
fn any_flipped_bit_in_what_was_synced_is_an_error_but_in_the_last_group() {
    let (disk, file, seen, ends) = short_log();
    for position in 1..ends[4] {
        for bit in 0..8 {
            let hurt = disk.crash(Crash::KeepAll);
            hurt.flip_bit(file, HEADER + position - 1, bit);
            let place = format!("bit {bit} of position {position}");
            match recover(&hurt, FRESH) {
                Ok(found) => {
                    assert!(position >= known_synced(&ends) && found == seen[..4], "{place}: {} records", found.len())
                }
                Err(error) => {
                    assert!(position < known_synced(&ends) && error.is_corruption(), "{place}: {error}");
                    assert!(error.to_string().contains(&file.to_string()), "{place}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_mark_costs_nothing_until_there_was_a_sync() {
    let (_, wal) = fresh();
    let length = |body: &[u8], durability| {
        let before = wal.tail();
        put(&wal, body, durability).unwrap();
        wal.tail() - before
    };
    let bare = length(b"body", Durability::Buffered);
    assert_eq!(length(b"body", Durability::Buffered), bare);
    assert_eq!(length(b"body", Durability::Sync), bare, "its own sync comes after it");
    assert_eq!(length(b"body", Durability::Buffered), bare + 17, "nine bytes of frame, eight of position");
    assert_eq!(length(b"body", Durability::Buffered), bare, "once a sync");
}

#[test]
fn damage_of_several_records_is_told_by_any_mark_behind_it() {
    let (disk, file, _, ends) = short_log();
    let hurt = disk.crash(Crash::KeepAll);
    hurt.patch(file, HEADER + ends[0] - 1, &vec![0xaa; usize::try_from(ends[2] - ends[0]).unwrap()]);
    let error = recover(&hurt, FRESH).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains(&format!("below {}", known_synced(&ends))), "{error}");
}

#[test]
fn a_tail_that_was_never_synced_may_be_torn_anywhere() {
    let (fixture, wal) = fresh();
    let kept: Vec<Seen> = (0..3_u8).map(|i| put(&wal, &[i; 50], Durability::Sync).unwrap()).collect();
    let from = wal.tail();
    let loose: Vec<Seen> = (3..9_u8).map(|i| put(&wal, &[i; 50], Durability::Buffered).unwrap()).collect();
    let file =
        fixture.disk.files().into_iter().find(|(_, bytes)| bytes[4096..].iter().any(|&byte| byte != 0)).unwrap().0;
    for position in from..wal.tail() {
        let torn = fixture.disk.crash(Crash::KeepAll);
        torn.flip_bit(file, HEADER + position - 1, 0);
        let whole = loose.iter().take_while(|record| end(record) <= position).count();
        assert_eq!(recover(&torn, FRESH).unwrap(), [&kept[..], &loose[..whole]].concat(), "position {position}");
    }
}

#[test]
fn damage_below_a_position_that_the_manifest_knows_is_an_error() {
    let (disk, file, seen, ends) = short_log();
    disk.flip_bit(file, HEADER + ends[3] + 5, 0);
    let error = recover(&disk.crash(Crash::KeepAll), Replay { synced: ends[4], ..FRESH }).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains(&file.to_string()), "{error}");
    assert_eq!(recover(&disk, Replay { synced: ends[3], ..FRESH }).unwrap(), seen[..4]);
}

#[test]
fn a_later_segment_tells_that_the_middle_was_synced() {
    let (fixture, wal) = fresh();
    (0..20_u8).for_each(|i| _ = put(&wal, &[i; 10_000], Durability::Sync).unwrap());
    let disk = fixture.disk.crash(Crash::DropAll);
    for file in disk.files().into_keys() {
        let hurt = disk.crash(Crash::DropAll);
        hurt.flip_bit(file, HEADER + 100, 3);
        let last = disk.files()[&file][4096..].iter().filter(|&&byte| byte != 0).count() < 20_000;
        match recover(&hurt, FRESH) {
            Ok(seen) => assert!(last && seen.len() >= 18, "{file}: {}", seen.len()),
            Err(error) => assert!(error.is_corruption(), "{error}"),
        }
    }
}

#[test]
fn every_bit_of_a_header_is_covered() {
    let (disk, file, _, ends) = short_log();
    let replay = Replay { synced: ends[4], ..FRESH };
    for offset in 0..SECTOR as u64 {
        let hurt = disk.crash(Crash::KeepAll);
        hurt.flip_bit(file, offset, u32::try_from(offset % 8).unwrap());
        let error = recover(&hurt, replay).unwrap_err();
        assert!(error.is_corruption(), "byte {offset}: {error}");
    }
}

#[test]
fn a_missing_replay_position_is_an_error() {
    let (disk, ..) = short_log();
    for from in [0, 1 << 30] {
        let error = recover(&disk, Replay { from, ..FRESH }).unwrap_err();
        assert!(error.to_string().contains("replay position"), "{error}");
    }
    let error = recover(&SimStorage::new(1), FRESH).unwrap_err();
    assert!(error.is_corruption(), "no segment at all: {error}");
    // Within the segment and behind the end of the log.
    assert!(recover(&disk, Replay { from: 5_000, ..FRESH }).unwrap_err().is_corruption());
}

#[test]
fn a_segment_of_another_database_or_length_is_an_error() {
    let (disk, file, ..) = short_log();
    for replay in [FRESH, Replay { segment: Some(1), ..FRESH }] {
        let other = Fixture::on(&disk).open(DATABASE + 1, OPTIONS).unwrap();
        let error = other.recover(replay, &mut |_, _| Ok(())).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains("another database"), "{error}");
        let cut = disk.crash(Crash::KeepAll);
        cut.truncate(file, OPTIONS.segment_bytes - 1);
        let error = recover(&cut, replay).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains("length"), "{error}");
    }
}

#[test]
fn what_a_newer_version_wrote_is_refused() {
    let (disk, file, ..) = short_log();
    let mut sector: [u8; SECTOR] = disk.files()[&file][..SECTOR].try_into().unwrap();
    sector[8] += 1;
    let sum = ecotone_sys::checksum::crc32c(0, &sector[..SECTOR - 4]);
    sector[SECTOR - 4..].copy_from_slice(&sum.to_le_bytes());
    disk.patch(file, 0, &sector);
    let error = Fixture::on(&disk).open(DATABASE, OPTIONS).unwrap_err();
    assert!(matches!(error, Error::NewerFormat { found: 4, known: 3, .. }), "{error}");
    let at = Location { file, offset: 4096 };
    assert!(matches!(Record::decode(4, b"", at), Err(Error::NewerFormat { found: 4, .. })));
    let Record::Batch(mut batch) = Record::decode(1, &[1, 3, 0, 0], at).unwrap() else { panic!("a batch") };
    assert!(matches!(batch.next(), Some(Err(Error::NewerFormat { found: 3, .. }))));
    assert!(batch.next().is_none());
}

#[test]
fn a_half_made_segment_is_removed() {
    let (disk, _, seen, _) = short_log();
    disk.put(FileId::Log(90), &[0; 5000]);
    disk.put(FileId::Log(91), &[]);
    assert_eq!(recover(&disk, FRESH).unwrap(), seen);
    assert!(disk.files().keys().all(|file| ![FileId::Log(90), FileId::Log(91)].contains(file)));
}

#[test]
fn the_last_file_number_is_no_panic() {
    let (disk, ..) = short_log();
    disk.put(FileId::Log(u32::MAX), &[]);
    assert!(recover(&disk, FRESH).unwrap_err().is_corruption());
}

#[test]
fn malformed_bodies_are_errors_and_no_panics() {
    let at = Location { file: FileId::Log(1), offset: 4096 };
    let bad: [&[u8]; 7] = [
        &[],
        &[1],
        &[2, 2, 0, 1, b'k'],
        &[1, 2, 0, 1, b'k', 7],
        &[1, 1, 0, 1, b'k', 9, b'v'],
        &[1, 2, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, b'k'],
        &[1, 2, 0, 0x81, 0x10],
    ];
    for body in bad {
        let decoded = Record::decode(1, body, at).and_then(|record| match record {
            Record::Batch(batch) => batch.collect::<Result<Vec<_>, _>>(),
            _ => panic!("not a batch"),
        });
        assert!(decoded.unwrap_err().is_corruption(), "{body:?}");
    }
    assert!(Record::decode(2, &[0x80], at).unwrap_err().is_corruption());
    [7, 9]
        .into_iter()
        .for_each(|length| assert!(Record::decode(3, &[0; 9][..length], at).unwrap_err().is_corruption()));
    let mut random = SmallRng::seed_from_u64(5);
    for _ in 0..20_000 {
        let body: Vec<u8> = (0..random.random_range(0..60)).map(|_| random.random_range(0..5)).collect();
        if let Ok(Record::Batch(batch)) = Record::decode(1, &body, at) {
            assert!(batch.count() <= body.len());
        }
    }
}

#[test]
fn absurd_headers_are_refused() {
    let header =
        SegmentHeader { database: DATABASE, start: 1, first_record: 1, incarnation: 1, synced: 1, bytes: 64 << 10 };
    let decode = |header: SegmentHeader| SegmentHeader::decode(&header.encode(), FileId::Log(1));
    assert_eq!(decode(header).unwrap(), Some(header));
    let absurd = [
        SegmentHeader { start: u64::MAX, first_record: u64::MAX, ..header },
        SegmentHeader { first_record: 0, ..header },
        SegmentHeader { incarnation: u64::MAX, ..header },
        SegmentHeader { bytes: 4096, ..header },
    ];
    absurd.into_iter().for_each(|header| assert!(decode(header).unwrap_err().is_corruption()));
    assert_eq!(SegmentHeader::decode(&[0; SECTOR], FileId::Log(1)).unwrap(), None);
}

/// Fails the first I/O from now on that `wanted` names.
fn fail_next(fixture: &Fixture, wanted: &str, ahead: u64) {
    let index = fixture.disk.io_index() + ahead;
    println!("{wanted} at {index}");
    fixture.disk.fail_at(index, ErrorKind::Other);
}

#[test]
fn a_failed_write_or_sync_stops_the_log_for_good() {
    for (what, ahead) in [("write", 0), ("sync", 1)] {
        let (fixture, wal) = fresh();
        let kept = put(&wal, b"kept", Durability::Sync).unwrap();
        let waiting = append(&wal, b"waiting").unwrap();
        fail_next(&fixture, what, ahead);
        let error = put(&wal, b"lost", Durability::Sync).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        let io = fixture.disk.io_index();
        for result in
            [wal.commit(waiting.end, Durability::Sync), wal.sync_through(waiting.seq), append(&wal, b"x").map(|_| ())]
        {
            assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
        }
        wal.commit(kept.0, Durability::Sync).unwrap();
        assert_eq!(fixture.disk.io_index(), io, "nothing is retried");
        assert_eq!(recover(&fixture.disk.crash(Crash::DropAll), FRESH).unwrap(), [kept]);
    }
}
