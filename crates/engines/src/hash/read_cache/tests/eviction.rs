//! Which copies go, and what becomes of chains and memory.

use super::*;
use crate::hash::log::{FRAME, HotLog, PAGE, PAGE_HEADER};

const FRAMES: usize = 16;
/// Copies of 8 + 100 bytes in a frame.
const IN_A_FRAME: u64 = FRAME / 8 / CachedRecord::words(8, 100);

fn value(key: u64) -> [u8; 100] {
    [key as u8; 100]
}

/// A world with so many cold records.
fn world(records: u64) -> World {
    let world = World::new(12, 8, FRAMES);
    (0..records).for_each(|key| world.set_cold(&key.to_le_bytes(), &value(key)));
    world.hash.make_room_for_copies();
    world
}

fn read(world: &World, keys: impl Iterator<Item = u64>) {
    keys.for_each(|key| assert_eq!(world.get(&key.to_le_bytes()).unwrap(), value(key)));
}

fn copied(world: &World, keys: impl Iterator<Item = u64>) -> usize {
    keys.filter(|key| world.is_linked(&key.to_le_bytes())).count()
}

#[test]
fn what_is_read_again_stays_while_others_pass() {
    let often = 4 * IN_A_FRAME;
    let world = world(often + 100 * IN_A_FRAME);
    for round in 0..100 {
        read(&world, 0..often);
        read(&world, (often + round * IN_A_FRAME)..(often + (round + 1) * IN_A_FRAME));
    }
    let kept = copied(&world, 0..often);
    assert!(kept as u64 > often * 95 / 100, "{kept} of {often}");
}

#[test]
fn memory_stays_within_its_limit_and_is_used() {
    let world = world(40 * IN_A_FRAME);
    for _ in 0..3 {
        read(&world, 0..40 * IN_A_FRAME);
        let leased = world.hash.copies.frames();
        assert_eq!(leased, FRAMES as u64);
    }
    let kept = copied(&world, 0..40 * IN_A_FRAME) as u64;
    assert!(kept > (FRAMES as u64 - 7) * IN_A_FRAME && kept < FRAMES as u64 * IN_A_FRAME, "{kept} copies");
}

/// A grace may end on any thread, also while frames are collected.
#[test]
fn no_frame_is_lost_while_others_unpin() {
    let (world, done) = (world(40 * IN_A_FRAME), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    drop(world.hash.domain.pin());
                }
            });
        }
        (0..10).for_each(|_| read(&world, 0..40 * IN_A_FRAME));
        done.store(true, Ordering::Relaxed);
    });
    let mut evictor = world.hash.copies.evictor.lock();
    // One look brings what was given up, the next one its block.
    (0..3).for_each(|_| {
        world.hash.copies.collect(&mut evictor);
        world.hash.domain.drain();
    });
    assert!(!world.hash.copies.is_leaving(&mut evictor), "a frame is neither in a queue nor spare");
}

/// What was missed lately goes to the main queue at once, where a scan of others does not reach it.
#[test]
fn a_key_that_is_missed_again_stays() {
    let frames = |from: u64, until: u64| from * IN_A_FRAME..until * IN_A_FRAME;
    let world = world(80 * IN_A_FRAME);
    // The main queue is as long as it may be.
    (0..2).for_each(|_| read(&world, frames(0, 10)));
    read(&world, frames(20, 50));
    read(&world, frames(10, 11));
    read(&world, frames(50, 55));
    assert!(copied(&world, frames(10, 11)) < 5, "but those that were taken for known ones");
    read(&world, frames(10, 11));
    read(&world, frames(55, 60));
    let kept = copied(&world, frames(10, 11));
    // Between its two misses there were as many others as the history remembers in all.
    assert!(kept as u64 > IN_A_FRAME / 2, "{kept} of {IN_A_FRAME}");
}

/// Of a chain of copies one is used, and comes to the other queue in its place; the others go; and what is hot below
/// stays.
#[test]
fn a_chain_keeps_what_is_not_evicted() {
    for keys in crate::hash::tests::crowds(4).iter().take(10) {
        let world = World::new(0, 8, FRAMES);
        world.hash.make_room_for_copies();
        keys[1..].iter().for_each(|key| world.set_cold(key, b"cold"));
        world.set(&keys[0], Some(b"hot"));
        keys[1..].iter().for_each(|key| assert_eq!(world.get(key).as_deref(), Some(&b"cold"[..])));
        assert!(keys[1..].iter().all(|key| world.is_linked(key)));
        for other in 0..1_500u64 {
            let other = (other | 1 << 63).to_le_bytes();
            world.set_cold(&other, &[0; 1_800]);
            world.get(&other);
            world.get(&keys[2]);
        }
        let linked: Vec<bool> = keys.iter().map(|key| world.is_linked(key)).collect();
        assert_eq!(linked[..4], [false, false, true, false]);
        assert!(matches!(world.see(&keys[0]).1.place, Found::Memory(..)));
        assert_eq!(world.get(&keys[0]).as_deref(), Some(&b"hot"[..]));
        keys[1..].iter().for_each(|key| assert_eq!(world.get(key).as_deref(), Some(&b"cold"[..])));
    }
}

#[test]
fn an_entry_whose_last_copy_goes_is_free_if_nothing_hot_is_below() {
    let world = world(60 * IN_A_FRAME);
    read(&world, 0..60 * IN_A_FRAME);
    let there =
        |key: u64| world.hash.table.find(world.hash.key(&key.to_le_bytes()).hash, &world.hash.domain.pin()).is_some();
    let entries = (0..60 * IN_A_FRAME).filter(|key| there(*key)).count();
    let kept = copied(&world, 0..60 * IN_A_FRAME);
    assert!(kept > 5_000 && entries.abs_diff(kept) < 20, "{entries} entries, {kept} copies");
}

#[test]
fn links_that_are_stale_are_swept_when_the_log_has_grown() {
    let mut world = World::new(3, 8, 8);
    // So far that addresses come round.
    let at = Address::new(5 << 43);
    world.hash.log = HotLog::new(&world.hash.domain, at, 8);
    world.set_cold(b"key", b"cold");
    world.set(b"other", Some(b"hot"));
    world.hash.make_room_for_copies();
    let (hash, pin) = (&world.hash, world.hash.domain.pin());
    let found = hash.table.find_or_insert(hash.key(b"key").hash, &pin).unwrap();
    let stale = Link::to(Address::new(at.get() - PAGE + PAGE_HEADER));
    let copy = hash.copies.append(Part::Small, b"key", b"cold", stale, 0, &pin).unwrap();
    found.place.exchange(found.entry, found.entry.with_link(copy)).unwrap();
    let hot = hash.table.find(hash.key(b"other").hash, &pin).unwrap().entry.link();
    let above = hash.copies.append(Part::Main, b"third", b"cold", hot, 0, &pin).unwrap();
    drop(pin);
    hash.sweep_copies();
    let pin = hash.domain.pin();
    assert_eq!((hash.copies.below(copy, &pin), hash.copies.below(above, &pin)), (Link::NONE, hot));
    assert!(world.is_copied(b"key"));
}
