//! Tests of queues and gates.

use std::{collections::BTreeSet, sync::Arc, thread};

use ecotone_substrate::storage::{Access, Completion, File, Op, Queue, Request, Storage};
use ecotone_sys::chunk::{Arena, Size};

use super::{PAGES, bytes_of};
use crate::sim::{Crash, SimStorage};

fn disk(seed: u64, pages: usize) -> (SimStorage, Arc<dyn File>, Box<dyn Queue>, Arc<Arena>) {
    let disk = SimStorage::new(seed);
    disk.put(PAGES, &vec![0; pages * 4096]);
    let file = disk.open(PAGES, Access::Direct).unwrap();
    let queue = disk.queue().unwrap();
    (disk, file, queue, Arena::new(8 << 20))
}

fn request(file: &Arc<dyn File>, arena: &Arc<Arena>, op: Op, page: u64, tag: u64) -> Request {
    let mut block = arena.lease(Size::Frame, 0).unwrap();
    block.fill(tag as u8);
    Request { file: file.clone(), op, offset: page * 4096, block, len: 4096, tag }
}

fn finish(queue: &mut dyn Queue) -> Vec<Completion> {
    let mut done = Vec::new();
    queue.complete(usize::MAX, &mut done);
    assert_eq!(queue.in_flight(), 0);
    done
}

#[test]
fn requests_complete_once_in_seeded_order_and_take_effect_then() {
    let order = |seed| {
        let (disk, file, mut queue, arena) = disk(seed, 32);
        (0..32).for_each(|page| queue.submit(request(&file, &arena, Op::Write, page, page + 1)));
        assert_eq!((disk.io_index(), queue.in_flight()), (0, 32), "nothing happens before complete");
        let done = finish(&mut *queue);
        assert!(done.iter().all(|completion| completion.result.is_ok()));
        assert!((0..32).all(|page| bytes_of(&disk)[page * 4096] == page as u8 + 1));
        done.iter().map(|completion| completion.request.tag).collect::<Vec<_>>()
    };
    assert_eq!(order(5), order(5));
    assert_ne!(order(5), order(6));
    let mut sorted = order(5);
    sorted.sort_unstable();
    assert_eq!(sorted, (1..=32).collect::<Vec<_>>());
}

#[test]
fn reads_fill_their_blocks_and_fail_past_the_end() {
    let (disk, file, mut queue, arena) = disk(1, 2);
    disk.patch(PAGES, 4096, &[9; 4096]);
    queue.submit(request(&file, &arena, Op::Read, 1, 0));
    queue.submit(request(&file, &arena, Op::Read, 2, 1));
    let mut done = finish(&mut *queue);
    done.sort_by_key(|completion| completion.request.tag);
    assert!(done[0].result.is_ok() && done[0].request.block[..] == [9; 4096]);
    assert!(done[1].result.as_ref().unwrap_err().is_corruption());
}

#[test]
fn complete_gives_at_least_what_was_asked() {
    let mut given = BTreeSet::new();
    for seed in 0..50 {
        let (_, file, mut queue, arena) = disk(seed, 8);
        (0..8).for_each(|page| queue.submit(request(&file, &arena, Op::Write, page, page)));
        let mut done = Vec::new();
        queue.complete(3, &mut done);
        assert!(done.len() >= 3 && done.len() + queue.in_flight() == 8);
        given.insert(done.len());
    }
    assert!(given.len() > 3, "more may finish than was asked for: {given:?}");
}

#[test]
fn an_overfull_queue_and_a_dropped_one_finish_their_work() {
    let (disk, file, mut queue, arena) = disk(1, 300);
    (0..300).for_each(|page| queue.submit(request(&file, &arena, Op::Write, page, 7)));
    assert_eq!((disk.io_index(), queue.in_flight()), (300 - 128, 300));
    drop(queue);
    assert_eq!(bytes_of(&disk), vec![7; 300 * 4096]);
}

#[test]
fn a_crash_leaves_a_random_subset_of_the_requests() {
    let mut subsets = BTreeSet::new();
    for seed in 0..50 {
        let (disk, file, mut queue, arena) = disk(seed, 6);
        disk.crash_at(3);
        (0..6).for_each(|page| queue.submit(request(&file, &arena, Op::Write, page, 7)));
        let done = finish(&mut *queue);
        assert_eq!(done.iter().filter(|completion| completion.result.is_ok()).count(), 3);
        let image = bytes_of(&disk.crash(Crash::KeepAll));
        subsets.insert((0..6).filter(|page| image[page * 4096..][..4096] == [7; 4096]).collect::<Vec<_>>());
    }
    assert!(subsets.len() > 10);
}

#[test]
fn a_held_page_blocks_until_its_release() {
    let (disk, ..) = disk(1, 4);
    let file = disk.open(PAGES, Access::Cached).unwrap();
    disk.hold(PAGES, 5000);
    thread::scope(|scope| {
        let blocked = scope.spawn(|| file.write(&[1; 2], 4095));
        disk.wait_blocked(PAGES, 4096);
        assert!(!blocked.is_finished());
        file.write(&[2; 100], 8192).unwrap();
        assert_eq!(bytes_of(&disk)[4095], 0);
        disk.release(PAGES, 4096);
        blocked.join().unwrap().unwrap();
    });
    assert_eq!(bytes_of(&disk)[4095..4097], [1, 1]);
}

#[test]
fn a_queue_passes_by_a_held_page_while_it_can() {
    let (disk, file, mut queue, arena) = disk(1, 4);
    disk.hold(PAGES, 0);
    (0..4).for_each(|page| queue.submit(request(&file, &arena, Op::Write, page, page + 1)));
    let mut done = Vec::new();
    queue.complete(3, &mut done);
    assert_eq!(
        done.iter().map(|completion| completion.request.tag).collect::<BTreeSet<_>>(),
        BTreeSet::from([2, 3, 4])
    );
    thread::scope(|scope| {
        scope.spawn(|| {
            disk.wait_blocked(PAGES, 0);
            disk.release(PAGES, 0);
        });
        assert_eq!(finish(&mut *queue).len(), 1);
    });
}

#[test]
fn loss_of_power_ends_the_waiting() {
    let (disk, ..) = disk(1, 1);
    disk.hold(PAGES, 0);
    thread::scope(|scope| {
        let blocked = scope.spawn(|| disk.open(PAGES, Access::Cached).unwrap().write(&[1], 0));
        disk.wait_blocked(PAGES, 0);
        disk.power_off();
        assert!(blocked.join().unwrap().is_err());
    });
}
