use std::collections::BTreeSet;

use ecotone_substrate::storage::{FileId, Storage};
use ecotone_testkit::sim::{Crash, SimStorage};
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};

use super::{
    super::{IoPurpose, tests::space},
    *,
};

const MIB: u64 = 1 << 20;
const PAGES_OF_A_MIB: usize = 256;

fn write(space: &PageAllocator, pages: &[u32]) {
    space
        .file()
        .writing()
        .unwrap()
        .pages(IoPurpose::Check, pages, |i, _, block| block.fill(pages[i] as u8 | 1))
        .unwrap();
}

#[test]
fn a_space_that_shrank_gives_back_what_it_does_not_need() {
    let (disk, space) = space(1);
    let pages = space.allocate(40 * PAGES_OF_A_MIB).unwrap();
    let full = disk.space_used();
    assert!(full >= 40 * MIB && !space.has_spare());
    space.free_now(&pages[4 * PAGES_OF_A_MIB..]).unwrap();
    assert!(space.has_spare());
    space.trim().unwrap();
    // The reserve stays, a 48th of four MiB and an eighth, with the pages that fill no piece.
    assert!((4 * MIB + MIB / 8..4 * MIB + MIB / 4).contains(&disk.space_used()), "{}", disk.space_used());
    assert_eq!(u64::from(space.punched()) * PAGE as u64 + disk.space_used(), full);
    assert!(!space.has_spare());
    // All free pages can be allocated again, the reserve first and then the holes, before the file grows.
    let total = space.total();
    let again = space.allocate(36 * PAGES_OF_A_MIB).unwrap();
    assert_eq!(space.total(), total);
    assert_eq!(u64::from(space.punched()) * PAGE as u64 + disk.space_used(), full);
    write(&space, &again);
}

#[test]
fn small_gaps_between_used_pages_are_given_back() {
    let (disk, space) = space(7);
    let pages = space.allocate(40 * PAGES_OF_A_MIB).unwrap();
    let full = disk.space_used();
    let gaps = |page: &u32| page / PIECE % 2 == 1;
    let (going, kept): (Vec<u32>, Vec<u32>) = pages.into_iter().partition(gaps);
    write(&space, &kept);
    space.free_now(&going).unwrap();
    space.trim().unwrap();
    assert!(!space.has_spare() && disk.space_used() < full * 5 / 8, "{} of {full}", disk.space_used());
    let bytes = &disk.files()[&FileId::Pages(3)];
    assert!(kept.iter().all(|page| bytes[*page as usize * PAGE] == *page as u8 | 1));
    let total = space.total();
    space.allocate_runs(&vec![PIECE as u8; going.len() / PIECE as usize]).unwrap();
    assert_eq!(space.total(), total, "runs fit where something was");
    assert!(disk.space_used() <= full);
}

#[test]
fn a_space_that_breathes_is_left_alone() {
    let (disk, space) = space(2);
    let pages = space.allocate(40 * PAGES_OF_A_MIB).unwrap();
    let full = disk.space_used();
    for _ in 0..5 {
        space.free_now(&pages[40 * PAGES_OF_A_MIB - 200..]).unwrap();
        space.trim().unwrap();
        assert_eq!((space.punched(), disk.space_used()), (0, full), "little is free");
        assert_eq!(space.allocate(200).unwrap().len(), 200);
    }
}

/// Every allocated page can be written, however full the disk is by then, and no used page is lost.
#[test]
fn what_was_given_out_needs_no_more_space() {
    for seed in 0..3 {
        let (disk, space) = space(seed);
        let mut random = SmallRng::seed_from_u64(seed);
        let mut used: BTreeSet<u32> = BTreeSet::new();
        let mut trimmed = 0;
        for _ in 0..60 {
            let wanted = random.random_range(1..3000);
            let pages = space.allocate(wanted).unwrap();
            disk.space_limit(disk.space_used());
            write(&space, &pages);
            disk.space_limit(u64::MAX);
            used.extend(pages);
            let mut going: Vec<u32> = used.iter().copied().collect();
            if random.random() {
                going.shuffle(&mut random);
            }
            going.truncate(random.random_range(0..=going.len()));
            space.free_now(&going).unwrap();
            going.iter().for_each(|page| assert!(used.remove(page)));
            space.trim().unwrap();
            trimmed += space.punched();
            assert_eq!(space.used() as usize, used.len() + 1);
            assert!((1..space.total()).all(|page| space.is_used(page) == used.contains(&page)));
            let bytes = &disk.files()[&FileId::Pages(3)];
            assert!(used.iter().all(|page| bytes[*page as usize * PAGE] == *page as u8 | 1), "what is in use is there");
        }
        assert!(trimmed > 0, "seed {seed} punched nothing");
    }
}

#[test]
fn a_full_disk_refuses_holes_before_they_are_handed_out() {
    let (disk, space) = space(4);
    let pages = space.allocate(20 * PAGES_OF_A_MIB).unwrap();
    space.free_now(&pages[PAGES_OF_A_MIB..]).unwrap();
    space.trim().unwrap();
    disk.space_limit(disk.space_used() + MIB);
    let free = (space.total() - space.used() - space.punched()) as usize;
    let error = space.allocate(free + PAGES_OF_A_MIB + 1).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    let some = space.allocate(free + PAGES_OF_A_MIB).unwrap();
    write(&space, &some);
    disk.space_limit(u64::MAX);
    space.allocate(PAGES_OF_A_MIB).unwrap();
}

/// The holes of an earlier session are not known, so all free pages are reserved before they are used; and they can be
/// punched.
#[test]
fn after_an_opening_free_blocks_are_taken_for_holes() {
    for how in [Crash::KeepAll, Crash::DropAll, Crash::Random(1), Crash::Random(2)] {
        let (disk, space) = space(5);
        let pages = space.allocate(20 * PAGES_OF_A_MIB).unwrap();
        write(&space, &pages);
        disk.sync_dir().unwrap();
        let kept = &pages[..700];
        space.free_now(&pages[700..]).unwrap();
        space.trim().unwrap();
        let disk = disk.crash(how);
        let space = reopened(&disk, kept);
        disk.space_limit(disk.space_used() + MIB);
        let got = std::iter::from_fn(|| space.allocate(1).ok()).flatten().collect::<Vec<_>>();
        write(&space, &got);
        let bytes = &disk.files()[&FileId::Pages(3)];
        assert!(kept.iter().all(|page| bytes[*page as usize * PAGE] == *page as u8 | 1), "{how:?}");
        space.free_now(&got).unwrap();
        space.trim().unwrap();
        assert!(disk.space_used() < 6 * MIB, "{how:?}: {}", disk.space_used());
    }
}

fn reopened(disk: &SimStorage, used: &[u32]) -> PageAllocator {
    let space = PageAllocator::new(&super::super::tests::open(disk, 7, 3).unwrap()).unwrap();
    used.iter().for_each(|page| space.mark_used(*page).unwrap());
    space.settle();
    assert_eq!(space.used() as usize, used.len() + 1);
    space
}

#[test]
fn what_cannot_be_punched_stays_as_it_is() {
    let (disk, space) = space(6);
    let pages = space.allocate(20 * PAGES_OF_A_MIB).unwrap();
    let full = disk.space_used();
    space.free_now(&pages).unwrap();
    disk.fail_at(disk.io_index(), std::io::ErrorKind::Other);
    assert!(space.trim().is_err());
    assert_eq!((space.punched(), disk.space_used(), space.used()), (0, full, 1));
    assert_eq!(space.allocate(20 * PAGES_OF_A_MIB).unwrap().len(), 20 * PAGES_OF_A_MIB);
    assert_eq!(disk.space_used(), full);
}
