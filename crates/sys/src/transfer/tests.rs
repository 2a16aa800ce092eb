//! One test suite for both drivers.

use std::{io::Write, thread};

use rand::{RngExt, SeedableRng, rngs::SmallRng};
use tempfile::TempDir;

use super::*;
use crate::{
    blocking::Blocking,
    chunk::{Arena, CHUNK_BYTES, Size},
    file::Open,
    uring,
};

const FRAME: usize = 4096;

type Make = fn() -> Box<dyn Driver<u64>>;

/// The drivers that work on this machine.
fn drivers() -> Vec<(&'static str, Make)> {
    let mut drivers: Vec<(_, Make)> = vec![("blocking", || Box::new(Blocking::default()))];
    match uring::probe() {
        Ok(()) => {
            drivers.push(("uring", || Box::new(uring::Ring::new(true).unwrap())));
            drivers.push(("sleeping uring", || Box::new(uring::Ring::new(false).unwrap())));
        }
        Err(error) => println!("io_uring is not tested here: {error}"),
    }
    drivers
}

fn file(direct: bool) -> (TempDir, Arc<File>) {
    let directory = tempfile::tempdir().unwrap();
    let file = File::open(&directory.path().join("file"), Open::New, direct).unwrap();
    (directory, Arc::new(file))
}

fn block(arena: &Arc<Arena>, fill: u8) -> Block {
    let mut block = arena.lease(Size::Frame, 0).unwrap();
    block.fill(fill);
    block
}

fn transfer(file: &Arc<File>, write: bool, page: u64, block: Block) -> Transfer<u64> {
    Transfer { file: file.clone(), write, offset: page * FRAME as u64, len: block.len(), block, context: page }
}

/// A file of pages that hold one byte each, and the expected bytes.
struct Pages {
    file: Arc<File>,
    model: Vec<u8>,
    busy: Vec<bool>,
}

impl Pages {
    fn submit(&mut self, arena: &Arc<Arena>, driver: &mut dyn Driver<u64>, random: &mut SmallRng) {
        let page = random.random_range(0..self.model.len());
        // Requests on one page have no order, so there is one at a time.
        if std::mem::replace(&mut self.busy[page], true) {
            return;
        }
        let (write, fill) = (random.random_bool(0.5), random.random());
        if write {
            self.model[page] = fill;
        }
        driver.submit(transfer(&self.file, write, page as u64, block(arena, fill)));
    }

    fn check(&mut self, done: &mut Vec<Finished<u64>>) {
        for Finished { transfer, result } in done.drain(..) {
            let page = usize::try_from(transfer.context).unwrap();
            assert_eq!(result.unwrap(), FRAME);
            assert!(std::mem::replace(&mut self.busy[page], false), "page {page} was given back twice");
            assert!(transfer.block.iter().all(|byte| *byte == self.model[page]), "page {page}");
        }
    }
}

#[test]
fn random_transfers_follow_the_model_at_every_depth() {
    for (name, make) in drivers() {
        for (depth, direct) in [(1, true), (7, false), (32, true), (ENTRIES, true), (300, true)] {
            let (_directory, file) = file(direct);
            file.preallocate(0, 512 * FRAME as u64).unwrap();
            let mut pages = Pages { file, model: vec![0; 512], busy: vec![false; 512] };
            let (mut random, arena) = (SmallRng::seed_from_u64(depth as u64), Arena::new(4 * CHUNK_BYTES));
            let (mut driver, mut done) = (make(), Vec::new());
            for _ in 0..1_500 {
                pages.submit(&arena, &mut *driver, &mut random);
                if driver.in_flight() >= depth {
                    let wanted = random.random_range(1..=depth);
                    driver.complete(wanted, &mut done);
                    assert!(done.len() >= wanted, "{name}, depth {depth}");
                    pages.check(&mut done);
                }
            }
            driver.complete(usize::MAX, &mut done);
            pages.check(&mut done);
            assert!(driver.in_flight() == 0 && pages.busy.iter().all(|busy| !busy), "{name}, depth {depth}");
        }
    }
}

#[test]
fn an_overfull_queue_keeps_everything() {
    for (name, make) in drivers() {
        let ((_directory, file), arena, mut driver) = (file(true), Arena::new(8 * CHUNK_BYTES), make());
        let count = 5 * ENTRIES as u64 + 3;
        for page in 0..count {
            driver.submit(transfer(&file, true, page, block(&arena, page as u8)));
        }
        assert_eq!(driver.in_flight() as u64, count, "{name}");
        let mut done = Vec::new();
        driver.complete(1, &mut done);
        assert!(!done.is_empty());
        assert_eq!((driver.in_flight() + done.len()) as u64, count, "{name}");
        driver.complete(usize::MAX, &mut done);
        let mut pages: Vec<_> = done.iter().map(|finished| finished.transfer.context).collect();
        pages.sort_unstable();
        assert_eq!(pages, (0..count).collect::<Vec<_>>(), "{name}");
        driver.complete(usize::MAX, &mut done);
        assert_eq!(done.len() as u64, count, "an empty queue gives nothing and does not wait");
    }
}

#[test]
fn a_dropped_queue_finishes_what_it_took() {
    for (name, make) in drivers() {
        let ((_directory, file), arena, mut driver) = (file(true), Arena::new(8 * CHUNK_BYTES), make());
        for page in 0..200 {
            driver.submit(transfer(&file, true, page, block(&arena, page as u8)));
        }
        drop(driver);
        assert_eq!(arena.held_bytes(), 0, "{name}");
        for page in 0..200 {
            let mut back = block(&arena, 0xFF);
            assert_eq!(file.read_at(&mut back, page * FRAME as u64).unwrap(), FRAME, "{name}");
            assert!(back.iter().all(|byte| *byte == page as u8), "{name}");
        }
    }
}

#[test]
fn a_short_file_gives_what_it_has() {
    for (name, make) in drivers() {
        for direct in [false, true] {
            let ((_directory, file), arena, mut driver) = (file(direct), Arena::new(CHUNK_BYTES), make());
            file.write_at(&block(&arena, 7), 0).unwrap();
            file.write_at(&block(&arena, 7), FRAME as u64).unwrap();
            file.set_len(6000).unwrap();
            for page in [0, 1, 2, 100] {
                driver.submit(transfer(&file, false, page, block(&arena, 0)));
            }
            let big = Transfer { context: 1000, ..transfer(&file, false, 0, arena.lease(Size::Slab, 0).unwrap()) };
            driver.submit(big);
            let mut done = Vec::new();
            driver.complete(5, &mut done);
            done.sort_by_key(|finished| finished.transfer.context);
            let counts: Vec<_> = done.iter().map(|finished| *finished.result.as_ref().unwrap()).collect();
            assert_eq!(counts, [4096, 1904, 0, 0, 6000], "{name}, direct {direct}");
            assert!(done[4].transfer.block[..6000].iter().all(|byte| *byte == 7));
        }
    }
}

#[test]
fn errors_come_back_with_their_transfer() {
    for (name, make) in drivers() {
        let (directory, file) = file(false);
        let arena = Arena::new(CHUNK_BYTES);
        file.write_at(&block(&arena, 3), 0).unwrap();
        let read_only = std::fs::File::open(directory.path().join("file")).unwrap();
        let read_only = Arc::new(File::from_fd(read_only.into(), false).unwrap());
        let (mut driver, mut done) = (make(), Vec::new());
        driver.submit(transfer(&read_only, true, 0, block(&arena, 4)));
        driver.submit(transfer(&read_only, false, 0, block(&arena, 0)));
        driver.complete(2, &mut done);
        done.sort_by_key(|finished| finished.transfer.write);
        assert_eq!(*done[0].result.as_ref().unwrap(), FRAME, "{name}: the other transfer is not hurt");
        assert!(done[0].transfer.block.iter().all(|byte| *byte == 3));
        let error = done[1].result.as_ref().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()), "{name}");
        assert!(done[1].transfer.block.iter().all(|byte| *byte == 4), "{name}: the block is given back");
    }
}

#[test]
fn parts_of_a_block_and_empty_transfers() {
    for (name, make) in drivers() {
        let ((_directory, file), arena) = (file(false), Arena::new(CHUNK_BYTES));
        let (mut driver, mut done) = (make(), Vec::new());
        driver.submit(Transfer { len: 10, ..transfer(&file, true, 0, block(&arena, 1)) });
        driver.submit(Transfer { len: 0, ..transfer(&file, true, 9, block(&arena, 1)) });
        driver.complete(2, &mut done);
        done.sort_by_key(|finished| finished.transfer.context);
        let counts: Vec<_> = done.iter().map(|finished| *finished.result.as_ref().unwrap()).collect();
        assert_eq!((counts, file.len().unwrap()), (vec![10, 0], 10), "{name}");
    }
}

#[test]
#[should_panic(expected = "longer than its block")]
fn a_transfer_cannot_be_longer_than_its_block() {
    let ((_directory, file), arena) = (file(false), Arena::new(CHUNK_BYTES));
    let long = Transfer { len: FRAME + 1, ..transfer(&file, true, 0, block(&arena, 1)) };
    uring::probe().map_or_else(|_| drivers()[0].1(), |()| drivers()[1].1()).submit(long);
}

/// Pipes transfer less than was asked for, which files hardly do.
#[test]
fn a_ring_goes_on_with_short_transfers() {
    if uring::probe().is_err() {
        return;
    }
    let (reader, mut writer) = std::io::pipe().unwrap();
    let unread = reader.try_clone().unwrap();
    let file = Arc::new(File::from_fd(reader.into(), false).unwrap());
    let arena = Arena::new(CHUNK_BYTES);
    let mut ring = uring::Ring::new(true).unwrap();
    let pieces = thread::spawn(move || {
        for size in [1, 1000, 3000, 95, 50] {
            // The ring has taken the piece before, so that it gets this one alone.
            while rustix::io::ioctl_fionread(&unread).unwrap() > 0 {
                thread::yield_now();
            }
            writer.write_all(&vec![size as u8; size]).unwrap();
        }
    });
    let mut done = Vec::new();
    for wanted in [FRAME, 50] {
        ring.submit(transfer(&file, false, 0, block(&arena, 0)));
        ring.complete(1, &mut done);
        let Finished { transfer, result } = done.pop().unwrap();
        assert_eq!(result.unwrap(), wanted, "whole, or up to the end of the stream");
        assert_eq!((transfer.block[0], transfer.block[1]), if wanted == 50 { (50, 50) } else { (1, 0xE8) });
    }
    pieces.join().unwrap();
}

/// Makes the system refuse io_uring to this thread from now on, as a sandbox that is put up late does.
fn forbid_rings() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
    let rules = [(libc::SYS_io_uring_enter, Vec::new())].into_iter().collect();
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32), arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    apply_filter(&program).unwrap();
}

#[test]
fn a_ring_that_is_forbidden_later_completes_all_that_it_has_and_gets() {
    if uring::probe().is_err() {
        return println!("io_uring is not tested here");
    }
    // The filter belongs to the thread, and stays.
    thread::spawn(|| {
        let (_directory, file) = file(true);
        let arena = Arena::new(CHUNK_BYTES);
        let mut ring = uring::Ring::new(true).unwrap();
        let mut done = Vec::new();
        for page in 0..20 {
            ring.submit(transfer(&file, true, page, block(&arena, page as u8)));
        }
        ring.complete(5, &mut done);
        for page in 20..40 {
            ring.submit(transfer(&file, true, page, block(&arena, page as u8)));
        }
        assert!(ring.is_sound());
        forbid_rings();
        for page in 40..60 {
            ring.submit(transfer(&file, true, page, block(&arena, page as u8)));
        }
        ring.complete(usize::MAX, &mut done);
        assert!(!ring.is_sound() && ring.in_flight() == 0);
        assert_eq!(done.len(), 60);
        assert!(done.drain(..).all(|done| done.result.is_ok_and(|count| count == FRAME)));
        for page in 0..60 {
            ring.submit(transfer(&file, false, page, block(&arena, 0xEE)));
        }
        ring.complete(usize::MAX, &mut done);
        assert_eq!(done.len(), 60);
        for done in done {
            let page = done.transfer.context as u8;
            assert!(done.result.is_ok() && done.transfer.block.iter().all(|byte| *byte == page), "page {page}");
        }
        let reader = uring::Reader::new().unwrap();
        assert!(reader.read_at(&file, &mut block(&arena, 0), 0).is_err(), "who has a file reads it without");
        ring.submit(transfer(&file, true, 0, block(&arena, 1)));
        drop(ring);
        let mut page = block(&arena, 0);
        file.read_at(&mut page, 0).unwrap();
        assert_eq!(page[0], 1, "what was submitted is done");
    })
    .join()
    .unwrap();
}
