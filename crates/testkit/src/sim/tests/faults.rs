//! Ordered faults: crashes and errors by index, full disks, decay, misuse.

use std::{collections::BTreeSet, io::ErrorKind};

use ecotone_substrate::{
    Error,
    storage::{Access, Counters, Storage},
};
use ecotone_sys::chunk::{Arena, CHUNK_BYTES, Size};

use super::{LOG, PAGES, bytes_of, disk_with};
use crate::sim::{Crash, Io, Phase, SimStorage};

/// First bytes of the two sectors after `work` on a two-sector file, for many seeds.
fn sectors_after(work: impl Fn(&SimStorage)) -> BTreeSet<(u8, u8)> {
    let run = |seed| {
        let disk = SimStorage::new(seed);
        disk.put(PAGES, &[1; 1024]);
        work(&disk);
        let bytes = bytes_of(&disk);
        (bytes[0], bytes[512])
    };
    (0..200).map(run).collect()
}

#[test]
fn a_crash_tears_its_write_and_ends_all_io() {
    let seen = sectors_after(|disk| {
        let file = disk.open(PAGES, Access::Cached).unwrap();
        file.write(&[2; 1024], 0).unwrap();
        disk.crash_at(0);
        let error = file.write(&[3; 1024], 0).unwrap_err();
        assert!(error.to_string().contains("the machine is off"), "{error}");
        assert!(disk.is_off() && disk.io_index() == 2);
        assert!(file.read(&mut [0], 0).is_err() && file.sync().is_err() && file.len().is_err());
        assert!(disk.list().is_err() && disk.open(PAGES, Access::Cached).is_err() && disk.sync_dir().is_err());
        assert_eq!(disk.io_index(), 2, "a machine without power does no I/O");
    });
    assert_eq!(seen, BTreeSet::from([(2, 2), (2, 3), (3, 2), (3, 3)]));
}

#[test]
fn a_crash_in_a_sync_may_come_before_or_after_it() {
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let disk = SimStorage::new(seed);
        disk.crash_at(2);
        let file = disk.create(PAGES, Access::Cached).unwrap();
        file.write(&[2; 512], 0).unwrap();
        file.sync().unwrap_err();
        let names = disk.crash(Crash::DropAll).files().len();
        let cut = disk.crash(Crash::KeepAll);
        cut.sync_dir().unwrap();
        seen.insert((names, bytes_of(&cut.crash(Crash::DropAll)).len()));
    }
    assert_eq!(seen, BTreeSet::from([(0, 0), (0, 512)]));
}

#[test]
fn a_torn_growth_leaves_no_bytes_behind_the_end() {
    for seed in 0..100 {
        let disk = SimStorage::new(seed);
        disk.put(PAGES, &[1; 512]);
        let file = disk.open(PAGES, Access::Cached).unwrap();
        disk.fail_at(0, ErrorKind::Other);
        file.write(&[2; 1024], 0).unwrap_err();
        let length = bytes_of(&disk).len();
        file.set_len(2048).unwrap();
        file.sync().unwrap();
        assert!(bytes_of(&disk)[length..].iter().all(|byte| *byte == 0), "seed {seed}");
    }
}

#[test]
fn a_failed_write_leaves_old_or_new_sectors_and_the_machine_runs() {
    let seen = sectors_after(|disk| {
        let file = disk.open(PAGES, Access::Cached).unwrap();
        disk.fail_at(0, ErrorKind::Other);
        assert!(matches!(file.write(&[2; 1024], 0), Err(Error::Io { action: "write", .. })));
        file.read(&mut [0; 1024], 0).unwrap();
    });
    assert_eq!(seen, BTreeSet::from([(1, 1), (1, 2), (2, 1), (2, 2)]));
}

#[test]
fn a_failed_sync_loses_the_bytes_and_the_retry_succeeds() {
    let (disk, file) = disk_with(&[1; 512]);
    file.write(&[2; 1024], 0).unwrap();
    disk.fail_at(1, ErrorKind::Other);
    assert!(file.sync().is_err());
    file.sync().unwrap();
    let left = bytes_of(&disk.crash(Crash::DropAll));
    assert_eq!(left, [[1; 512], [0; 512]].concat(), "the length is there, the bytes are not");
}

#[test]
fn a_failed_read_fails_once() {
    let (disk, file) = disk_with(&[1; 512]);
    disk.fail_at(0, ErrorKind::Other);
    let mut byte = [0];
    assert!(matches!(file.read(&mut byte, 0), Err(Error::Io { action: "read", .. })));
    file.read(&mut byte, 0).unwrap();
    assert_eq!(byte, [1]);
}

#[test]
fn failed_names_have_no_effect() {
    let (disk, _) = disk_with(b"x");
    (0..3).for_each(|index| disk.fail_at(index, ErrorKind::PermissionDenied));
    assert!(disk.create(LOG, Access::Cached).is_err() && disk.remove(PAGES).is_err() && disk.sync_dir().is_err());
    assert_eq!(disk.list().unwrap(), [PAGES]);
}

#[test]
fn a_full_disk_refuses_preallocation_and_fails_growing_writes() {
    let (disk, file) = disk_with(&[1; 4096]);
    disk.space_limit(3 * 4096);
    file.preallocate(0, 2 * 4096).unwrap();
    let error = file.preallocate(0, 4 * 4096).unwrap_err();
    assert!(matches!(error, Error::NoSpace { wanted: 8192, .. }), "{error}");
    file.write(&[2; 4096], 4096).unwrap();
    assert!(matches!(file.write(&[2; 8192], 8192), Err(Error::Io { .. })));
    assert_eq!(file.len().unwrap(), 8192);
    assert!(
        disk.crash(Crash::KeepAll)
            .open(PAGES, Access::Cached)
            .unwrap()
            .preallocate(0, 1 << 20)
            .unwrap_err()
            .is_no_space()
    );
    disk.space_limit(1 << 20);
    file.preallocate(0, 4 * 4096).unwrap();
    assert_eq!(disk.space_used(), 4 * 4096);
    file.set_len(100).unwrap();
    assert_eq!(disk.space_used(), 4096);
    disk.remove(PAGES).unwrap();
    assert_eq!(disk.space_used(), 0);
}

#[test]
fn a_full_disk_fails_writes_to_holes_and_refuses_to_fill_them() {
    let (disk, file) = disk_with(&[1; 4 * 4096]);
    assert!(file.punch(0, 2 * 4096).unwrap());
    disk.space_limit(3 * 4096);
    assert!(matches!(file.preallocate(0, 2 * 4096), Err(Error::NoSpace { wanted: 8192, .. })));
    file.preallocate(4096, 4096).unwrap();
    file.write(&[2; 4096], 4096).unwrap();
    assert!(matches!(file.write(&[2; 4096], 0), Err(Error::Io { .. })));
    file.set_len(4096).unwrap();
    assert_eq!(disk.space_used(), 0);
}

#[test]
fn a_preallocation_can_be_told_to_find_no_space() {
    let (disk, file) = disk_with(b"");
    disk.fail_at(0, ErrorKind::StorageFull);
    assert!(file.preallocate(0, 100).unwrap_err().is_no_space());
    assert_eq!(file.len().unwrap(), 0);
}

#[test]
fn decay_hits_synced_and_unsynced_bytes() {
    let (disk, file) = disk_with(&[1; 1024]);
    file.write(&[2; 512], 512).unwrap();
    disk.flip_bit(PAGES, 600, 7);
    disk.patch(PAGES, 510, b"abcd");
    let now = bytes_of(&disk);
    assert_eq!((now[600], &now[509..515]), (0x82, &b"\x01abcd\x02"[..]));
    let old = bytes_of(&disk.crash(Crash::DropAll));
    assert_eq!((old[600], &old[509..515]), (0x81, &b"\x01abcd\x01"[..]));
    disk.truncate(PAGES, 511);
    let error = file.read(&mut [0; 2], 510).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("the file ends early"), "{error}");
    assert_eq!(bytes_of(&disk.crash(Crash::DropAll)).len(), 511);
}

#[test]
fn a_misplaced_write_reports_success_and_lands_elsewhere() {
    let mut places = BTreeSet::new();
    for seed in 0..100 {
        let disk = SimStorage::new(seed);
        disk.put(PAGES, &[1; 5 * 4096]);
        disk.misplace(0);
        disk.open(PAGES, Access::Cached).unwrap().write(&[2; 4096], 4096).unwrap();
        places.insert((0..5).filter(|page| bytes_of(&disk)[page * 4096] == 2).collect::<Vec<_>>());
    }
    assert_eq!(places, BTreeSet::from([vec![0], vec![2], vec![3], vec![4]]));
}

#[test]
fn every_io_has_an_index_and_a_label() {
    let disk = SimStorage::new(1);
    let log = disk.create(LOG, Access::Cached).unwrap();
    log.preallocate(0, 4096).unwrap();
    log.punch(0, 4096).unwrap();
    disk.sync_dir().unwrap();
    log.write(&[0; 10], 0).unwrap();
    log.sync().unwrap();
    log.set_len(10).unwrap();
    log.read(&mut [0; 10], 0).unwrap();
    disk.remove(LOG).unwrap();
    let ios: Vec<Io> = disk.labels().iter().map(|label| label.io).collect();
    let expected =
        [Io::Create, Io::Preallocate, Io::Punch, Io::SyncDir, Io::Write, Io::Sync, Io::SetLen, Io::Read, Io::Remove];
    assert_eq!((ios.as_slice(), disk.io_index()), (&expected[..], 9));
    assert_eq!(disk.phases().into_iter().collect::<Vec<_>>(), [(Phase::Log, 6), (Phase::Directory, 3)]);
    let counters = Counters { reads: 1, writes: 1, read_bytes: 10, write_bytes: 10, syncs: 2 };
    assert_eq!(disk.counters(), counters);
}

#[test]
#[should_panic(expected = "not aligned")]
fn direct_io_must_be_aligned() {
    let (disk, _) = disk_with(&[1; 8192]);
    let _ = disk.open(PAGES, Access::Direct).unwrap().write(&[0; 500], 0);
}

/// Every other disk transfers sectors; the next machine finds the same disk.
#[test]
fn a_disk_has_units_that_stay() {
    for (seed, unit) in [(6, 4096), (7, 512)] {
        let disk = SimStorage::new(seed);
        disk.put(PAGES, &[5; 8192]);
        for disk in [disk.crash(Crash::KeepAll).crash(Crash::Random(6)), disk.crash(Crash::DropAll), disk] {
            let file = disk.open(PAGES, Access::Direct).unwrap();
            assert_eq!(file.unit(), unit);
            let mut block = Arena::new(CHUNK_BYTES).lease(Size::Frame, 0).unwrap();
            block.fill(0);
            file.read(&mut block[..unit], 8192 - unit as u64).unwrap();
            assert!(block[..unit].iter().all(|byte| *byte == 5));
        }
    }
}

#[test]
fn an_open_file_outlives_its_name() {
    let (disk, file) = disk_with(b"still here");
    disk.remove(PAGES).unwrap();
    disk.sync_dir().unwrap();
    let mut bytes = [0; 10];
    file.read(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"still here");
}
