//! What a repair finds of a log that recovery refuses: everything whole that was synced, and nothing that an opening
//! had given up.

use std::sync::Arc;

use ecotone_substrate::{
    Seq,
    memory::Memory,
    storage::{FileId, Storage},
    wal::{Durability, LogSalvage, MissingLogRange, Replay},
};
use ecotone_testkit::sim::{Crash, SimStorage};

use crate::fixture::*;

/// The records that are found, and the gaps.
fn find(disk: &SimStorage, replay: Option<Replay>) -> (Vec<Seen>, Vec<MissingLogRange>) {
    let before = disk.files();
    let remains = LogSalvage::find(disk, &Memory::new(16 << 20), None).unwrap();
    let mut seen = Vec::new();
    let gaps = remains.read(replay, &mut |seq, record| see(seq, record, &mut seen)).unwrap();
    assert!(disk.files() == before, "nothing was written");
    (seen, gaps)
}

/// Two lives of synced records that fill several segments, the first one torn at its end.
fn two_lives() -> (SimStorage, Vec<Seen>, Seq) {
    let (fixture, wal) = fresh();
    let mut seen: Vec<Seen> = (0..20_u8).map(|i| put(&wal, &[i; 10_000], Durability::Sync).unwrap()).collect();
    let torn = put(&wal, &[99; 300], Durability::Buffered).unwrap();
    let (behind, _) = (put(&wal, &[98; 300], Durability::Buffered).unwrap(), drop(wal));
    let disk = fixture.disk.crash(Crash::KeepAll);
    let (file, at) = place(&disk, torn.0);
    disk.flip_bit(file, at + 40, 1);
    assert!(behind.0 > torn.0);
    let fixture = Fixture::on(&disk);
    let (wal, _) = fixture.recover(OPTIONS, FRESH).unwrap();
    seen.extend((20..30_u8).map(|i| put(&wal, &[i; 5_000], Durability::Sync).unwrap()));
    let end = wal.tail();
    (disk.crash(Crash::KeepAll), seen, end)
}

#[test]
fn an_undamaged_log_ends_where_recovery_ends_it() {
    let (disk, seen, _) = two_lives();
    assert_eq!(Fixture::on(&disk.crash(Crash::KeepAll)).recover(OPTIONS, FRESH).unwrap().1, seen);
    for replay in [Some(FRESH), None] {
        assert!(find(&disk, replay) == (seen.clone(), vec![]), "{replay:?}");
    }
    let from = Replay { from: seen[12].0, ..FRESH };
    assert!(find(&disk, Some(from)) == (seen[12..].to_vec(), vec![]));
}

#[test]
fn each_damaged_record_is_the_only_one_that_is_lost() {
    let (disk, seen, end) = two_lives();
    let replay = Replay { synced: end, incarnation: 2, ..FRESH };
    for (i, record) in seen.iter().enumerate() {
        for byte in [0, 5, 8, 2_000] {
            let hurt = disk.crash(Crash::KeepAll);
            let (file, at) = place(&hurt, record.0);
            let bytes = &hurt.files()[&file];
            if at + byte >= bytes.len() as u64 {
                continue;
            }
            hurt.flip_bit(file, at + byte, 3);
            let (found, gaps) = find(&hurt, Some(replay));
            let expected: Vec<&Seen> = seen.iter().filter(|other| *other != record).collect();
            assert!(found.iter().eq(expected), "record {i}, byte {byte}: {} records", found.len());
            assert!(
                gaps.len() == 1 && gaps[0].from == record.0 && gaps[0].file == Some(file),
                "record {i}, byte {byte}: {gaps:?}"
            );
        }
    }
}

#[test]
fn a_lost_segment_is_a_gap_and_what_comes_behind_is_found() {
    let (disk, seen, end) = two_lives();
    let segments: Vec<FileId> =
        disk.files().into_iter().filter(|(_, bytes)| bytes.starts_with(b"ECOTLOG")).map(|(file, _)| file).collect();
    let mut lost = 0;
    for file in segments {
        let hurt = disk.crash(Crash::KeepAll);
        hurt.remove(file).unwrap();
        let (found, gaps) = find(&hurt, Some(Replay { synced: end, incarnation: 2, ..FRESH }));
        let kept: Vec<Seen> = seen.iter().filter(|record| found.contains(record)).cloned().collect();
        assert!(found == kept, "{file}: records in order, and no others");
        assert!(
            (1..=2).contains(&gaps.len()) && found.len() + 9 >= seen.len() - 5,
            "{file}: {} of {}, {gaps:?}",
            found.len(),
            seen.len()
        );
        lost += usize::from(found.len() < seen.len());
    }
    assert!(lost > 2);
}

#[test]
fn without_a_replay_position_no_log_from_before_a_break_is_used() {
    let (fixture, wal) = fresh();
    let first: Vec<Seen> = (0..40_u8).map(|i| put(&wal, &[i; 10_000], Durability::Sync).unwrap()).collect();
    // Segments of the beginning are let go of, and one of them is used again.
    wal.truncate(first[30].0);
    let later: Vec<Seen> = (0..12_u8).map(|i| put(&wal, &[i; 10_000], Durability::Sync).unwrap()).collect();
    let (found, gaps) = find(&fixture.disk.crash(Crash::KeepAll), None);
    let all = [first, later].concat();
    assert!(all.ends_with(&found) && found.len() >= 22 && found.len() < all.len(), "{} of {}", found.len(), all.len());
    assert_eq!(gaps, []);
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let (disk, ..) = two_lives();
    let memory: Arc<Memory> = Memory::new(16 << 20);
    for seed in 0..200_u64 {
        let hurt = disk.crash(Crash::KeepAll);
        for (i, (file, bytes)) in hurt.files().into_iter().enumerate() {
            let at = (seed * 7919 + i as u64 * 104_729) % bytes.len() as u64;
            hurt.flip_bit(file, if seed % 2 == 0 { at % 80 } else { at }, (seed % 8) as u32);
        }
        for replay in [None, Some(FRESH), Some(Replay { from: seed * 1000, synced: seed * 2000, ..FRESH })] {
            if let Ok(remains) = LogSalvage::find(&hurt, &memory, None) {
                remains.read(replay, &mut |_, _| Ok(())).unwrap();
            }
        }
    }
}
