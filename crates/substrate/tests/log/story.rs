//! Many lives of one log: random appends, commits and truncations, and a crash at the end of each, sometimes in the
//! middle of an I/O, also during recovery. What is recovered is always a prefix of what was appended that includes
//! everything acknowledged.

use std::{io::ErrorKind, sync::Arc};

use ecotone_substrate::{
    Seq,
    wal::{Durability, FRAME_BYTES, Replay, Wal, WalOptions},
};
use ecotone_testkit::sim::{Crash, SimStorage};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::fixture::*;

/// What is known of the log besides its bytes.
struct Story {
    random: SmallRng,
    /// Every record that may still be there, in order.
    records: Vec<Seen>,
    /// Records before these positions were acknowledged.
    written: Seq,
    synced: Seq,
    manifest: Replay,
    recoveries: usize,
    /// A write or sync failed in this life, so that only what is synced is sure.
    failed: bool,
}

impl Story {
    /// Lives once on `disk`, until the crash.
    fn live(&mut self, wal: &Arc<Wal>) {
        for _ in 0..self.random.random_range(0..12) {
            if self.step(wal).is_none() {
                self.failed = true;
                return;
            }
        }
    }

    fn step(&mut self, wal: &Arc<Wal>) -> Option<()> {
        match self.random.random_range(0..10) {
            0..5 => {
                let body = vec![self.random.random(); self.length()];
                let placed = append(wal, &body).ok()?;
                self.records.push((placed.seq, 7, body));
            }
            5..7 => {
                wal.commit(wal.tail(), Durability::Buffered).ok()?;
                self.written = wal.tail();
            }
            7..9 => {
                wal.commit(wal.tail(), Durability::Sync).ok()?;
                (self.written, self.synced) = (wal.tail(), wal.tail());
            }
            _ => self.checkpoint(wal),
        }
        Some(())
    }

    /// Often the same, also with a mark before it, so that a record of a former life fits behind one of this life.
    fn length(&mut self) -> usize {
        const MARK: usize = FRAME_BYTES + 8;
        match self.random.random_range(0..8) {
            0 => self.random.random_range(0..90_000),
            1 => self.random.random_range(0..700),
            2 | 3 => 600 - MARK,
            _ => 600,
        }
    }

    /// The manifest lets go of a part of what is synced, then the log does.
    fn checkpoint(&mut self, wal: &Arc<Wal>) {
        let from = self.random.random_range(self.manifest.from..=self.synced.max(self.manifest.from));
        self.manifest = Replay {
            from,
            synced: self.synced,
            incarnation: wal.incarnation(),
            segment: wal.segment_at(from),
            clean: false,
        };
        wal.truncate(from);
        self.records.retain(|record| end(record) > from);
    }

    /// Checks what recovery found and goes on from there.
    fn judge(&mut self, seen: Vec<Seen>, wal: &Arc<Wal>, survived: Seq) {
        assert_eq!(seen, self.records[..seen.len()], "not a prefix");
        let acknowledged = self.records.iter().filter(|record| record.0 < survived).count();
        assert!(seen.len() >= acknowledged, "{} of {acknowledged} acknowledged records", seen.len());
        self.records = seen;
        self.recoveries += 1;
        (self.written, self.synced) = (wal.synced(), wal.synced());
    }

    fn crash(&mut self, disk: &SimStorage) -> (SimStorage, Seq) {
        match self.random.random_range(0..4) {
            0 if !disk.is_off() && !self.failed => (disk.crash(Crash::KeepAll), self.written),
            1 => (disk.crash(Crash::DropAll), self.synced),
            _ => (disk.crash(Crash::Random(self.random.random())), self.synced),
        }
    }
}

/// Tells one story; gives the number of times that recovery went through.
pub(crate) fn story(seed: u64, lives: usize) -> usize {
    let options =
        WalOptions { first_bytes: 64 << 10, segment_bytes: 64 << 10, limit_bytes: 8 << 20, longest_bytes: 8 << 20 };
    let disk = SimStorage::new(seed);
    let wal = Fixture::on(&disk).create(options).unwrap();
    let random = SmallRng::seed_from_u64(seed);
    let mut story = Story {
        random,
        records: Vec::new(),
        written: 1,
        synced: 1,
        manifest: Replay { segment: Some(1), ..FRESH },
        recoveries: 0,
        failed: false,
    };
    let (mut disk, mut wal) = (disk, Some(wal));
    for _ in 0..lives {
        let soon = disk.io_index() + story.random.random_range(0..30);
        match story.random.random_range(0..10) {
            0..4 => disk.crash_at(soon),
            4..6 => disk.fail_at(soon, ErrorKind::Other),
            _ => {}
        }
        story.failed = false;
        if let Some(wal) = &wal {
            story.live(wal);
        }
        let (next, survived) = story.crash(&disk);
        disk = next;
        if story.random.random_bool(0.25) {
            disk.crash_at(disk.io_index() + story.random.random_range(0..25));
        }
        wal = match Fixture::on(&disk).recover(options, story.manifest) {
            Ok((recovered, seen)) => {
                story.judge(seen, &recovered, survived);
                Some(recovered)
            }
            Err(error) if disk.is_off() => {
                assert!(!error.is_corruption(), "{error}");
                None
            }
            Err(error) => panic!("recovery failed: {error}"),
        };
    }
    story.recoveries
}

/// A record of a former life stands where the log of this one ends, which fits by its position: a crash that tears the
/// last page keeps what was in its other sectors. It does not count.
pub(crate) fn former_life() {
    let (fixture, wal) = fresh();
    let first = put(&wal, &[1; 600], Durability::Sync).unwrap();
    let image = fixture.disk.crash(Crash::KeepAll);
    let former = Fixture::on(&image.crash(Crash::KeepAll));
    let (wal, _) = former.recover(OPTIONS, FRESH).unwrap();
    put(&wal, &[2; 600], Durability::Buffered).unwrap();
    let stale = put(&wal, &[3; 600], Durability::Sync).unwrap();
    let (file, at) = place(&former.disk, stale.0);
    let left = former.disk.files()[&file][at as usize..][..(end(&stale) - stale.0) as usize].to_vec();

    let between = Fixture::on(&image);
    drop(between.recover(OPTIONS, FRESH).unwrap());
    let fixture = Fixture::on(&between.disk.crash(Crash::KeepAll));
    let (wal, _) = fixture.recover(OPTIONS, FRESH).unwrap();
    let second = put(&wal, &[4; 600], Durability::Sync).unwrap();
    assert_eq!(end(&second), stale.0);
    let disk = fixture.disk.crash(Crash::KeepAll);
    let (file, at) = place(&disk, end(&second) - 1);
    let mut torn = disk.files()[&file].clone();
    torn[at as usize + 1..][..left.len()].copy_from_slice(&left);
    disk.put(file, &torn);
    assert_eq!(Fixture::on(&disk).recover(OPTIONS, FRESH).unwrap().1, [first, second]);
}
