use std::collections::BTreeSet;

use ecotone_substrate::{
    codec::hex::{golden, render},
    environment::Environment,
    storage::{FileId, Storage},
};
use ecotone_testkit::sim::{Crash, SimStorage};
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};

use super::*;

const MIB: u64 = 1 << 20;

fn environment(disk: &SimStorage, database: u64) -> Environment {
    disk.environment(database, 16 << 20)
}

fn create(disk: &SimStorage) -> Result<PageFile> {
    PageFile::create(&environment(disk, 7), 3)
}

pub(super) fn open(disk: &SimStorage, database: u64, keyspace: u32) -> Result<PageFile> {
    PageFile::open(&environment(disk, database), keyspace)
}

pub(super) fn space(seed: u64) -> (SimStorage, PageAllocator) {
    println!("seed {seed}");
    let disk = SimStorage::new(seed);
    let space = PageAllocator::new(&create(&disk).unwrap()).unwrap();
    (disk, space)
}

/// A model of the allocator.
struct Model {
    used: BTreeSet<u32>,
    /// Freed pages that wait for the log, with the sequence, or for the checkpoint.
    waiting: Vec<(u32, Option<Seq>)>,
    synced: Seq,
}

impl Model {
    /// Some pages that are not freed yet.
    fn some(&self, random: &mut SmallRng) -> Vec<u32> {
        let waits: BTreeSet<u32> = self.waiting.iter().map(|(page, _)| *page).collect();
        let mut pages: Vec<u32> = self.used.difference(&waits).copied().filter(|page| *page != 0).collect();
        pages.shuffle(random);
        pages.truncate(random.random_range(0..24));
        pages
    }

    fn step(&mut self, space: &PageAllocator, random: &mut SmallRng) {
        match random.random_range(0..10) {
            0..3 => {
                let pages = space.allocate(random.random_range(0..9)).unwrap();
                assert!(pages.into_iter().all(|page| self.used.insert(page)), "a page was given out twice");
            }
            3..5 => {
                let lengths: Vec<u8> = (0..random.random_range(0..3))
                    .map(|_| random.random_range(1..=PageAllocator::LONGEST_RUN))
                    .collect();
                let firsts = space.allocate_runs(&lengths).unwrap();
                let mut pages =
                    firsts.iter().zip(&lengths).flat_map(|(first, length)| *first..first + u32::from(*length));
                assert!(pages.all(|page| self.used.insert(page)), "a page was given out twice");
            }
            5 => {
                let pages = self.some(random);
                space.free_now(&pages).unwrap();
                self.used.retain(|page| !pages.contains(page));
            }
            6 => {
                let (pages, after) = (self.some(random), self.synced + random.random_range(0..100));
                space.free_later(&pages, after);
                self.waiting.extend(pages.into_iter().map(|page| (page, Some(after))));
            }
            7 => {
                let pages = self.some(random);
                space.free_after_checkpoint(pages.clone());
                self.waiting.extend(pages.into_iter().map(|page| (page, None)));
            }
            8 => {
                self.synced += random.random_range(0..60);
                space.release(self.synced);
                let synced = self.synced;
                self.end_of_waiting(|after| after.is_some_and(|after| after < synced));
            }
            _ => {
                space.checkpoint_is_durable();
                self.end_of_waiting(|after| after.is_none());
            }
        }
    }

    fn end_of_waiting(&mut self, ends: impl Fn(Option<Seq>) -> bool) {
        for (page, _) in self.waiting.extract_if(.., |(_, after)| ends(*after)) {
            self.used.remove(&page);
        }
    }
}

#[test]
fn random_use_matches_a_set() {
    let (_, space) = space(1);
    let mut random = SmallRng::seed_from_u64(1);
    let mut model = Model { used: BTreeSet::from([0]), waiting: Vec::new(), synced: 0 };
    for _ in 0..4000 {
        model.step(&space, &mut random);
        assert_eq!(space.used() as usize, model.used.len());
    }
    assert!((0..space.total()).all(|page| space.is_used(page) == model.used.contains(&page)));
    assert!(space.is_used(space.total()), "beyond the end");
}

#[test]
fn runs_are_neighbours_and_single_pages_fill_gaps() {
    let (_, space) = space(2);
    assert_eq!(space.allocate(100).unwrap(), (1..101).collect::<Vec<_>>());
    space.free_now(&[5, 20, 21, 22, 63, 64, 65, 66, 70]).unwrap();
    assert_eq!(space.allocate_runs(&[3, 1]).unwrap(), [20, 5]);
    assert_eq!(space.allocate(2).unwrap(), [63, 70]);
    assert_eq!(space.allocate_runs(&[16, 3]).unwrap(), [101, 64]);
    // If no block has a free run the file grows; single pages are found first.
    let rest = || (space.total() - space.used()) as usize;
    space.allocate(rest() + 1).unwrap();
    space.allocate(rest()).unwrap();
    let total = space.total();
    space.free_now(&[3, 9, 200, 127, 128]).unwrap();
    assert_eq!(space.allocate(3).unwrap(), [3, 9, 127]);
    assert_eq!(space.allocate_runs(&[2]).unwrap(), [total], "the pages are of two blocks");
}

#[test]
fn runs_come_all_or_none() {
    let (disk, space) = space(12);
    let pages = space.allocate(300).unwrap();
    space.allocate((space.total() - space.used()) as usize).unwrap();
    disk.space_limit(disk.space_used());
    let scattered: Vec<u32> = pages.into_iter().step_by(2).collect();
    space.free_now(&scattered).unwrap();
    let used = space.used();
    for runs in [&[1, 1, 2][..], &[2], &[16; 20]] {
        assert!(space.allocate_runs(runs).unwrap_err().is_no_space());
        assert_eq!(space.used(), used, "{runs:?}");
    }
    assert_eq!(space.allocate_runs(&[1; 150]).unwrap().len(), 150);
    disk.space_limit(u64::MAX);
    let firsts = space.allocate_runs(&[13; 500]).unwrap();
    assert!(firsts.iter().all(|first| first % BLOCK <= BLOCK - 13), "no run crosses blocks");
}

#[test]
#[should_panic(expected = "a run has 1 to 16 pages")]
fn a_run_that_is_too_long_is_a_bug() {
    let _ = space(13).1.allocate_runs(&[17]);
}

#[test]
fn trap_05_pages_wait_for_the_log_and_for_the_checkpoint() {
    let (_, space) = space(3);
    let pages = space.allocate(4).unwrap();
    space.free_later(&pages[..2], 100);
    space.free_after_checkpoint(pages[2..].to_vec());
    space.release(100);
    assert_eq!(space.used(), 5);
    space.release(101);
    assert_eq!(space.used(), 3);
    space.checkpoint_is_durable();
    assert_eq!(space.used(), 1);
}

#[test]
fn the_file_grows_in_rising_extents_and_a_full_disk_is_told() {
    let (disk, space) = space(4);
    let mut extents = BTreeSet::new();
    for _ in 0..400 {
        let before = space.total();
        space.allocate((before - space.used()) as usize + 1).unwrap();
        extents.insert(space.total() - before);
    }
    assert_eq!((extents.first(), extents.last()), (Some(&(BLOCK - 1)), Some(&LARGEST_EXTENT)));

    let free = (space.total() - space.used()) as usize;
    disk.space_limit(disk.space_used() + 3 * MIB);
    space.allocate(free + 600).unwrap();
    assert_eq!(space.total() - space.used(), 40, "as many blocks as are needed, where 64 MiB are not to be had");
    let error = space.allocate(169).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    space.allocate(168).unwrap();
    disk.space_limit(u64::MAX);
    space.allocate(169).unwrap();
}

#[test]
fn marking_finds_pages_in_use_twice_and_beyond_the_end() {
    let (_, space) = space(5);
    space.allocate(10).unwrap();
    space.free_now(&[4]).unwrap();
    space.mark_used(4).unwrap();
    for (page, what) in [(4, "twice"), (0, "twice"), (space.total(), "beyond"), (u32::MAX, "beyond")] {
        let error = space.mark_used(page).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains(what), "{error}");
    }
    for page in [0, 11, space.total(), u32::MAX] {
        assert!(space.free_now(&[page]).unwrap_err().is_corruption());
    }
}

#[test]
#[should_panic(expected = "given back twice")]
fn giving_back_twice_is_a_bug() {
    let (_, space) = space(6);
    let pages = space.allocate(1).unwrap();
    space.free_later(&pages, 1);
    space.free_later(&pages, 2);
    space.release(9);
}

#[test]
fn too_many_pages_are_refused() {
    let (_, space) = space(7);
    assert!(matches!(space.allocate(1 << 40), Err(Error::Limit { .. })));
}

#[test]
fn many_threads_get_different_pages() {
    let (_, space) = space(8);
    let take = || (0..200).flat_map(|n| space.allocate(n % 7).unwrap()).collect::<Vec<_>>();
    let all: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    assert_eq!(space.used() as usize, all.len() + 1);
}

#[test]
fn the_header_tells_whose_file_it_is() {
    let disk = SimStorage::new(9);
    create(&disk).unwrap();
    disk.sync_dir().unwrap();
    let disk = disk.crash(Crash::DropAll);
    assert_eq!(PageAllocator::new(&open(&disk, 7, 3).unwrap()).unwrap().used(), 1);
    assert!(open(&disk, 8, 3).unwrap_err().to_string().contains("another database"));
    disk.put(FileId::Pages(4), &disk.files()[&FileId::Pages(3)]);
    assert!(open(&disk, 7, 4).unwrap_err().is_corruption(), "the file of keyspace 3 under the name of 4");
    for bit in 0..8 * 4096 {
        if bit % 37 == 0 || bit < 512 {
            disk.flip_bit(FileId::Pages(3), bit / 8, (bit % 8) as u32);
            assert!(open(&disk, 7, 3).unwrap_err().is_corruption(), "bit {bit}");
            disk.flip_bit(FileId::Pages(3), bit / 8, (bit % 8) as u32);
        }
    }
    disk.put(FileId::Pages(3), &[]);
    assert!(open(&disk, 7, 3).unwrap_err().is_corruption());
}

#[test]
fn the_header_is_golden() {
    let mut page = vec![0; PAGE];
    header::Header { database: 0x0123_4567_89ab_cdef, keyspace: 3 }.encode(&mut page);
    let labels = [
        (4, "checksum"),
        (8, "magic"),
        (4, "version"),
        (8, "compatible features"),
        (8, "features that forbid writing"),
        (8, "features that forbid reading"),
        (8, "database"),
        (4, "keyspace"),
        (PAGE - 52, "zeros"),
    ];
    golden("tree-file-header", &render(&page, &labels));
}

#[test]
fn newer_files_are_refused() {
    let disk = SimStorage::new(10);
    create(&disk).unwrap();
    // Version, and the features that forbid writing or reading.
    for (offset, refused) in [(12, true), (16, false), (24, true), (32, true)] {
        let mut page = disk.files()[&FileId::Pages(3)][..PAGE].to_vec();
        page[offset] ^= 4;
        header::seal(&mut page, 3);
        let checked = header::Header { database: 7, keyspace: 3 }.check(&page);
        assert_eq!(matches!(checked, Err(Error::NewerFormat { .. })), refused, "byte {offset}");
    }
}

#[test]
fn a_file_that_cannot_be_made_leaves_nothing() {
    let disk = SimStorage::new(11);
    disk.space_limit(0);
    assert!(create(&disk).unwrap_err().is_no_space());
    assert!(disk.list().unwrap().is_empty());
    disk.space_limit(MIB);
    create(&disk).unwrap();
}
