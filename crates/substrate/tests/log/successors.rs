//! Segments name their successors: a file that is lost, emptied or damaged is an error that names it, if the log needs
//! it.

use ecotone_substrate::{
    Error, Seq,
    storage::{FileId, Storage},
    wal::{Durability, Replay, SegmentHeader, Successor},
};
use ecotone_testkit::sim::{Crash, SimStorage};

use crate::fixture::*;

/// What a manifest of the first session knows.
const NAMED: Replay = Replay { segment: Some(1), ..FRESH };

/// Ways to lose a file.
const LOSSES: [&str; 6] = ["removed", "emptied", "zeroed", "without its header", "cut", "flipped"];

fn lose(disk: &SimStorage, file: FileId, how: &str) {
    let length = disk.files()[&file].len();
    match how {
        "removed" => disk.remove(file).unwrap(),
        "emptied" => disk.truncate(file, 0),
        "zeroed" => disk.put(file, &vec![0; length]),
        "without its header" => disk.patch(file, 0, &[0; 1024]),
        "cut" => disk.truncate(file, 9_000),
        _ => disk.flip_bit(file, 30, 1),
    }
}

fn recover(disk: &SimStorage, replay: Replay) -> Result<Vec<Seen>, Error> {
    Fixture::on(disk).recover(OPTIONS, replay).map(|(_, seen)| seen)
}

/// Loses each file of a log in each way. Gives the files without which it is not whole.
fn lose_each(disk: &SimStorage, replay: Replay, whole: &[Seen]) -> Vec<FileId> {
    assert_eq!(recover(&disk.crash(Crash::KeepAll), replay).unwrap(), whole);
    let mut needed = Vec::new();
    for file in disk.files().into_keys() {
        for how in LOSSES {
            let hurt = disk.crash(Crash::KeepAll);
            lose(&hurt, file, how);
            match recover(&hurt, replay) {
                Ok(seen) => assert_eq!(seen, whole, "{file} {how}: less than there was"),
                Err(error) => {
                    assert!(
                        error.is_corruption() && error.to_string().contains(&file.to_string()),
                        "{file} {how}: {error}"
                    );
                    needed.push(file);
                }
            }
        }
    }
    needed.dedup();
    needed
}

/// As many records as fill some segments, each synced.
fn fill(count: u8) -> (Fixture, std::sync::Arc<ecotone_substrate::wal::Wal>, Vec<Seen>) {
    let (fixture, wal) = fresh();
    let seen = (0..count).map(|i| put(&wal, &[i; 10_000], Durability::Sync).unwrap()).collect();
    (fixture, wal, seen)
}

#[test]
fn every_segment_of_a_session_is_missed() {
    for count in [1, 5, 8, 20] {
        let (fixture, wal, seen) = fill(count);
        let segments = wal.used().div_ceil(OPTIONS.segment_bytes - HEADER) as usize;
        let needed = lose_each(&fixture.disk.crash(Crash::DropAll), NAMED, &seen);
        assert_eq!(needed.len(), segments, "{needed:?} of {count} records");
    }
}

#[test]
fn a_segment_that_begins_where_the_one_before_is_full_is_missed() {
    let (fixture, wal) = fresh();
    // The first record ends with its segment, and is synced before anything follows.
    let frame = 9 + 1;
    let first = put(&wal, &vec![1; (OPTIONS.segment_bytes - HEADER) as usize - frame], Durability::Sync).unwrap();
    assert_eq!(end(&first), OPTIONS.segment_bytes - HEADER + 1);
    let second = put(&wal, &[2; 100], Durability::Sync).unwrap();
    let needed = lose_each(&fixture.disk.crash(Crash::DropAll), NAMED, &[first, second]);
    assert_eq!(needed.len(), 2);
}

#[test]
fn the_first_segment_of_each_session_is_missed() {
    let (fixture, wal, mut seen) = fill(3);
    let mut disk = fixture.disk.crash(Crash::DropAll);
    drop(wal);
    for session in 0..4_u8 {
        let (wal, _) = Fixture::on(&disk).recover(OPTIONS, NAMED).unwrap();
        // Of one session nothing is left but its segment, which the next one takes the place of.
        if session != 1 {
            seen.push(put(&wal, &[session; 30_000], Durability::Sync).unwrap());
        }
        disk = disk.crash(Crash::DropAll);
        let needed = lose_each(&disk, NAMED, &seen);
        assert!(needed.len() >= 2, "session {session}: {needed:?}");
    }
}

#[test]
fn what_a_manifest_lets_go_of_is_not_missed() {
    let (fixture, wal, seen) = fill(40);
    let from = seen[33].0;
    wal.truncate(from);
    let replay = Replay { from, synced: wal.synced(), incarnation: 1, segment: wal.segment_at(from), clean: false };
    let disk = fixture.disk.crash(Crash::DropAll);
    let needed = lose_each(&disk, replay, &seen[33..]);
    assert!(needed.len() <= 2 && disk.files().len() > 4, "{needed:?} of {}", disk.files().len());
}

#[test]
fn a_segment_of_another_database_is_passed_over_and_left_alone_unless_it_is_needed() {
    let (fixture, _wal, seen) = fill(8);
    let disk = fixture.disk.crash(Crash::DropAll);
    let header = SegmentHeader {
        database: 9,
        start: 1,
        first_record: 1,
        incarnation: 1,
        synced: 1,
        bytes: OPTIONS.segment_bytes,
    };
    let mut foreign = vec![0; OPTIONS.segment_bytes as usize];
    foreign[..512].copy_from_slice(&header.encode());
    disk.put(FileId::Log(70), &foreign);
    assert_eq!(recover(&disk, NAMED).unwrap(), seen);
    assert!(disk.files()[&FileId::Log(70)] == foreign, "it is not ours");
    disk.put(FileId::Log(1), &foreign);
    let error = recover(&disk, NAMED).unwrap_err();
    assert!(error.to_string().contains("log.1") && error.to_string().contains("another database"), "{error}");
}

#[test]
fn a_damaged_name_matters_where_the_log_ends_and_nowhere_else() {
    let (fixture, _wal, seen) = fill(8);
    let disk = fixture.disk.crash(Crash::DropAll);
    let mut refused = 0;
    for (file, bytes) in disk.files().into_iter().filter(|(_, bytes)| bytes.starts_with(b"ECOTLOG")) {
        let is_last = bytes[512..1024].iter().all(|&byte| byte == 0);
        for offset in 512..1024 {
            let hurt = disk.crash(Crash::KeepAll);
            hurt.flip_bit(file, offset, (offset % 8) as u32);
            match recover(&hurt, NAMED) {
                Ok(found) => assert!(!is_last && found == seen, "{file}, byte {offset}"),
                Err(error) => {
                    assert!(is_last && error.to_string().contains(&file.to_string()), "{file}, byte {offset}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert_eq!(refused, 512);
}

#[test]
fn a_sector_of_an_earlier_use_says_nothing() {
    let header = SegmentHeader {
        database: DATABASE,
        start: 60_000,
        first_record: 60_500,
        incarnation: 3,
        synced: 1,
        bytes: 64 << 10,
    };
    let successor = Successor { file: 4, start: header.start + 9_000, incarnation: 4 };
    let sector = successor.encode(&header);
    let decode = |header: &SegmentHeader| Successor::decode(&sector, header, FileId::Log(1));
    assert_eq!(decode(&header).unwrap(), Some(successor));
    for other in [SegmentHeader { start: 1, ..header }, SegmentHeader { incarnation: 2, ..header }] {
        assert_eq!(decode(&other).unwrap(), None);
    }
    assert!(decode(&SegmentHeader { database: 1, ..header }).unwrap_err().is_corruption());
    let absurd: [(Seq, u64); 3] = [(header.start - 1, 4), (header.start + (64 << 10), 4), (header.start, 2)];
    for (start, incarnation) in absurd {
        let sector = Successor { start, incarnation, ..successor }.encode(&header);
        assert!(Successor::decode(&sector, &header, FileId::Log(1)).unwrap_err().is_corruption());
    }
}

/// Crashes at each I/O of writes over several segments, of a recovery and of writes in the next session: whatever is
/// left is recovered, and what was synced is there.
#[test]
fn no_crash_leaves_a_name_without_its_segment() {
    let write = |wal: &ecotone_substrate::wal::Wal, from: u8| {
        let mut synced = 0;
        for i in from..from + 9 {
            let durability = if i % 3 == 0 { Durability::Sync } else { Durability::Buffered };
            if put(wal, &[i; 20_000], durability).is_err() {
                break;
            }
            synced = wal.synced();
        }
        synced
    };
    for io in 0.. {
        let (fixture, wal) = fresh();
        fixture.disk.crash_at(fixture.disk.io_index() + io);
        let synced = write(&wal, 0);
        for seed in 0..6 {
            let disk = fixture.disk.crash(if seed == 0 { Crash::DropAll } else { Crash::Random(seed + io) });
            disk.crash_at(io % 37);
            let (mut next, mut promised) = (disk.clone(), synced);
            if let Ok((wal, seen)) = Fixture::on(&disk).recover(OPTIONS, NAMED) {
                assert!(seen.last().map_or(1, end) >= synced, "I/O {io}, seed {seed}");
                promised = write(&wal, 50).max(wal.tail().min(synced));
            }
            next = next.crash(if seed == 0 { Crash::DropAll } else { Crash::Random(seed * 7 + io) });
            let (wal, _) = Fixture::on(&next)
                .recover(OPTIONS, NAMED)
                .unwrap_or_else(|error| panic!("I/O {io}, seed {seed}: {error}"));
            assert!(wal.tail() >= promised, "I/O {io}, seed {seed}");
        }
        if !fixture.disk.is_off() {
            assert!(io > 20, "{io} I/Os");
            return;
        }
    }
}
