//! The content that each kind of crash leaves.

use std::collections::BTreeSet;

use ecotone_substrate::storage::{Access, FileId, Storage};

use super::{PAGES, bytes_of, disk_with};
use crate::sim::{Crash, SimStorage};

/// The outcomes of many random crashes, each as the first byte of every 512.
fn outcomes(disk: &SimStorage) -> BTreeSet<Vec<u8>> {
    let sectors = |seed| bytes_of(&disk.crash(Crash::Random(seed))).chunks(512).map(|sector| sector[0]).collect();
    (0..2000).map(sectors).collect()
}

#[test]
fn unsynced_bytes_live_with_the_kernel_and_die_with_the_power() {
    let (disk, file) = disk_with(&[1; 8192]);
    file.write(&[2; 4096], 4096).unwrap();
    let mut seen = [0; 4096];
    file.read(&mut seen, 4096).unwrap();
    assert_eq!(seen, [2; 4096], "a read sees what was written");
    assert_eq!(bytes_of(&disk.crash(Crash::KeepAll)), [[1; 4096], [2; 4096]].concat());
    assert_eq!(bytes_of(&disk.crash(Crash::DropAll)), [1; 8192]);
    file.sync().unwrap();
    for how in [Crash::KeepAll, Crash::DropAll, Crash::Random(1), Crash::Random(2)] {
        assert_eq!(bytes_of(&disk.crash(how)), [[1; 4096], [2; 4096]].concat());
    }
}

#[test]
fn what_outlives_the_process_is_not_synced_by_that() {
    let (disk, file) = disk_with(&[1; 4096]);
    file.write(&[2; 4096], 0).unwrap();
    let next = disk.crash(Crash::KeepAll);
    assert_eq!(bytes_of(&next.crash(Crash::DropAll)), [1; 4096]);
    next.open(PAGES, Access::Cached).unwrap().sync().unwrap();
    assert_eq!(bytes_of(&next.crash(Crash::DropAll)), [2; 4096]);
    assert_eq!(bytes_of(&disk.crash(Crash::DropAll)), [1; 4096], "the next life does not change this one");
}

#[test]
fn each_sector_of_a_torn_page_is_old_or_new() {
    let (disk, file) = disk_with(&[1; 1024]);
    file.write(&[2; 1024], 0).unwrap();
    let all = [vec![1, 1], vec![1, 2], vec![2, 1], vec![2, 2]];
    assert_eq!(outcomes(&disk), BTreeSet::from(all));
}

#[test]
fn a_sector_has_any_of_its_values_since_the_sync_and_no_older_one() {
    let (disk, file) = disk_with(&[1; 512]);
    for value in 2..6 {
        file.write(&[value; 512], 0).unwrap();
        if value == 3 {
            file.sync().unwrap();
        }
    }
    assert_eq!(outcomes(&disk), BTreeSet::from([vec![3], vec![4], vec![5]]));
}

#[test]
fn a_write_inside_a_sector_keeps_the_rest_of_it() {
    let (disk, file) = disk_with(&[1; 1024]);
    file.write(&[2; 8], 508).unwrap();
    for seed in 0..200 {
        let bytes = bytes_of(&disk.crash(Crash::Random(seed)));
        assert_eq!((&bytes[..508], &bytes[516..]), (&[1; 508][..], &[1; 508][..]));
        assert!(bytes[508..512] == [1; 4] || bytes[508..512] == [2; 4]);
        assert!(bytes[512..516] == [1; 4] || bytes[512..516] == [2; 4]);
    }
}

#[test]
fn growth_is_volatile_until_the_sync() {
    let (disk, file) = disk_with(&[1; 512]);
    file.preallocate(0, 10_000).unwrap();
    file.write(&[2; 100], 10_000).unwrap();
    let lengths =
        |how: fn(u64) -> Crash| (0..300).map(|seed| bytes_of(&disk.crash(how(seed))).len()).collect::<BTreeSet<_>>();
    assert_eq!(lengths(Crash::Random), BTreeSet::from([512, 10_000, 10_100]));
    assert_eq!(lengths(|_| Crash::DropAll), BTreeSet::from([512]));
    assert_eq!(disk.crash(Crash::DropAll).space_used(), 4096);
    file.sync().unwrap();
    assert_eq!(lengths(Crash::Random), BTreeSet::from([10_100]));
    assert_eq!(bytes_of(&disk)[512..10_000], [0; 9488], "preallocated bytes read as zero");
}

#[test]
fn a_hole_is_volatile_until_the_sync_and_never_has_bytes() {
    let (disk, file) = disk_with(&[1; 4 * 4096]);
    assert!(file.punch(4096, 2 * 4096).unwrap());
    let zeros = |bytes: &[u8]| {
        (0..4).map(|page| bytes[page * 4096..(page + 1) * 4096].iter().all(|byte| *byte == 0)).collect::<Vec<_>>()
    };
    assert_eq!((zeros(&bytes_of(&disk)), disk.space_used()), (vec![false, true, true, false], 2 * 4096));
    let after = |seed| disk.crash(Crash::Random(seed));
    let spaces: BTreeSet<u64> = (0..50).map(|seed| after(seed).space_used()).collect();
    assert_eq!(spaces, BTreeSet::from([2 * 4096, 4 * 4096]));
    for next in (0..50).map(after).filter(|next| next.space_used() == 2 * 4096) {
        assert_eq!(zeros(&bytes_of(&next)), [false, true, true, false]);
    }
    assert_eq!(bytes_of(&disk.crash(Crash::DropAll)), [1; 4 * 4096]);
    // A page that is reserved, written again and synced is like any other; before the sync it may still be a hole.
    file.preallocate(4096, 4096).unwrap();
    file.write(&[2; 4096], 4096).unwrap();
    for next in (0..50).map(after) {
        assert!(next.space_used() > 2 * 4096 || bytes_of(&next)[4096] == 0);
    }
    file.sync().unwrap();
    assert_eq!((bytes_of(&after(1))[4096], after(1).space_used()), (2, 3 * 4096));
}

#[test]
fn lost_growth_takes_its_bytes_with_it() {
    let (disk, file) = disk_with(&[1; 512]);
    file.write(&[2; 512], 512).unwrap();
    for seed in 0..100 {
        let next = disk.crash(Crash::Random(seed));
        let length = bytes_of(&next).len();
        next.open(PAGES, Access::Cached).unwrap().set_len(1024).unwrap();
        assert!(length == 1024 || bytes_of(&next)[512..] == [0; 512], "seed {seed}");
    }
}

#[test]
fn a_much_written_neighbour_does_not_hide_a_write() {
    let (disk, file) = disk_with(&[1; 1024]);
    file.write(&[2; 512], 0).unwrap();
    (0..100).for_each(|value| file.write(&[value; 512], 512).unwrap());
    let firsts: BTreeSet<u8> = outcomes(&disk).into_iter().map(|sectors| sectors[0]).collect();
    assert_eq!((firsts, bytes_of(&disk)[0]), (BTreeSet::from([1, 2]), 2));
}

#[test]
fn cut_bytes_may_come_back_until_the_sync_but_not_by_growing_again() {
    let (disk, file) = disk_with(&[7; 10_000]);
    file.set_len(100).unwrap();
    file.set_len(10_000).unwrap();
    assert_eq!(bytes_of(&disk), [vec![7; 100], vec![0; 9900]].concat());
    assert_eq!(bytes_of(&disk.crash(Crash::DropAll)), [7; 10_000]);
    file.sync().unwrap();
    assert_eq!(bytes_of(&disk.crash(Crash::DropAll)), [vec![7; 100], vec![0; 9900]].concat());
}

#[test]
fn names_are_durable_after_the_directory_sync_only() {
    let disk = SimStorage::new(3);
    let (old, new) = (FileId::Manifest(1), FileId::Manifest(2));
    disk.put(old, b"old");
    let file = disk.create(new, Access::Cached).unwrap();
    file.write(b"new", 0).unwrap();
    file.sync().unwrap();
    disk.remove(old).unwrap();
    let names = |disk: &SimStorage| disk.files().into_keys().collect::<Vec<_>>();
    assert_eq!(names(&disk.crash(Crash::DropAll)), [old]);
    assert_eq!(names(&disk.crash(Crash::KeepAll)), [new]);
    let random: BTreeSet<_> = (0..200).map(|seed| names(&disk.crash(Crash::Random(seed)))).collect();
    assert_eq!(random.len(), 4, "each name by itself: {random:?}");
    disk.sync_dir().unwrap();
    let survivor = disk.crash(Crash::DropAll);
    assert_eq!((names(&survivor), survivor.files()[&new].as_slice()), (vec![new], &b"new"[..]));
}

#[test]
fn a_durable_name_says_nothing_of_the_content() {
    let disk = SimStorage::new(3);
    let file = disk.create(PAGES, Access::Cached).unwrap();
    file.write(b"content", 0).unwrap();
    disk.sync_dir().unwrap();
    assert!(bytes_of(&disk.crash(Crash::DropAll)).is_empty());
}

#[test]
fn a_name_that_is_used_again_gets_one_of_its_files() {
    let (disk, _) = disk_with(b"first");
    disk.remove(PAGES).unwrap();
    assert!(disk.open(PAGES, Access::Cached).is_err() && disk.remove(PAGES).is_err());
    let second = disk.create(PAGES, Access::Cached).unwrap();
    assert!(disk.create(PAGES, Access::Cached).is_err());
    second.write(b"other", 0).unwrap();
    second.sync().unwrap();
    let found = (0..200).map(|seed| disk.crash(Crash::Random(seed)).files().remove(&PAGES));
    let all = [None, Some(b"first".to_vec()), Some(b"other".to_vec())];
    assert_eq!(found.collect::<BTreeSet<_>>(), BTreeSet::from(all));
}

#[test]
fn a_seed_decides_everything() {
    let (disk, file) = disk_with(&[1; 1 << 16]);
    file.write(&[2; 1 << 15], 100).unwrap();
    let images: BTreeSet<_> = (0..50).map(|seed| bytes_of(&disk.crash(Crash::Random(seed)))).collect();
    assert!(images.len() > 20);
    for seed in 0..50 {
        assert_eq!(disk.crash(Crash::Random(seed)).files(), disk.crash(Crash::Random(seed)).files());
    }
}

#[test]
fn images_of_a_few_mebibytes_are_cheap() {
    let (disk, file) = disk_with(&vec![1; 8 << 20]);
    file.write(&[2; 1 << 14], 1 << 20).unwrap();
    let start = std::time::Instant::now();
    (0..2000).for_each(|seed| drop(disk.crash(Crash::Random(seed))));
    let elapsed = start.elapsed();
    assert!(elapsed.as_secs() < 5, "2000 crashes took {elapsed:?}");
}
