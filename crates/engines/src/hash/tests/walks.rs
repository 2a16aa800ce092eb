//! Walks over what is in memory and on disk.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use ecotone_substrate::storage::{FileKind, Storage};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    disk::{World, key},
    *,
};
use crate::{engine::Walk as _, hash::walk::Walk};

/// All records that a walk gives, none twice.
pub(in crate::hash) fn all(hash: &Arc<Hash>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut walk, mut records) = (Walk::new(hash.clone()), BTreeMap::new());
    while let Some((key, value)) = walk.next().expect("all can be read") {
        assert!(records.insert(key.to_vec(), value.to_vec()).is_none(), "{key:?} comes twice");
    }
    assert!(walk.next().unwrap().is_none(), "the end stays");
    records
}

#[test]
fn a_walk_gives_every_key_once_with_its_newest_value() {
    for (seed, bucket_bits) in [(1, 0), (2, 3), (3, 9)] {
        let world = World::new(seed, Sizes { bucket_bits, frames: 8, copies: 0 });
        let (mut random, mut model) = (SmallRng::seed_from_u64(seed), BTreeMap::new());
        assert!(all(&world.hash).is_empty());
        for step in 0..12_000 {
            let key = key(random.random_range(0..1_500)).to_vec();
            if random.random_bool(0.8) {
                let value = vec![random.random(); random.random_range(0..200)];
                world.write(&key, Some(&value));
                model.insert(key, value);
            } else {
                world.write(&key, None);
                model.remove(&key);
            }
            if step % 500 == 0 {
                world.hash.freeze(1);
            }
            if step % 3_000 == 0 {
                assert_eq!(all(&world.hash), model);
            }
        }
        world.keep(1);
        let before = world.reads();
        assert_eq!(all(&world.hash), model);
        // Pages of which something counts in a stretch are read once for it.
        assert!(world.reads() > before, "some is on disk");
    }
}

#[test]
fn of_a_log_in_memory_nothing_is_read() {
    let world = World::new(1, Sizes { bucket_bits: 6, frames: 16, copies: 0 });
    (0..2_000).for_each(|number| world.write(&key(number), Some(&[number as u8; 100])));
    assert_eq!(all(&world.hash).len(), 2_000);
    assert_eq!(world.ground.disk.counters_of(FileKind::Segment).reads, 0);
}

/// A writer that has ended, or failed, is not waited for.
struct Ended<'a>(&'a AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1 << 40, Ordering::Relaxed);
    }
}

/// Keys that are there all the time are given, whoever else comes and goes and however the log moves.
#[test]
fn a_walk_beside_writes_misses_nothing_and_gives_nothing_twice() {
    const WALKS: usize = 10;
    /// Of each writer while a walk goes on: nothing is compacted here, so chains are as long as their history, and
    /// walks as long as chains.
    const TURNS: usize = 1_500;
    let world = World::new(5, Sizes { bucket_bits: 6, frames: 16, copies: 0 });
    let (walks, turns) = (AtomicUsize::new(0), AtomicUsize::new(0));
    (0..1_000).for_each(|number| world.write(&key(number), Some(&number.to_le_bytes())));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                let (world, walks, turns) = (&world, &walks, &turns);
                scope.spawn(move || {
                    let (_ended, mut random) = (Ended(turns), SmallRng::seed_from_u64(writer));
                    for turn in 0..WALKS * TURNS {
                        while turn >= (walks.load(Ordering::Relaxed) + 1) * TURNS {
                            thread::yield_now();
                        }
                        let number = 2 * random.random_range(0..500u64) + writer;
                        // What a key has tells its number, in values of any length.
                        let value = number.to_le_bytes().repeat(random.random_range(1..20));
                        world.write(&key(number), Some(&value));
                        let guest = key(1_000 + number);
                        world.write(&guest, random.random::<bool>().then_some(&guest[..]));
                        if random.random_bool(0.01) {
                            world.hash.freeze(1);
                            world.keep(random.random_range(1..4));
                        }
                        turns.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let walker = scope.spawn(|| {
            for walk in 1..=WALKS {
                // So that the log grows from walk to walk, whoever gets the processor.
                while turns.load(Ordering::Relaxed) < 2 * (walk - 1) * TURNS {
                    thread::yield_now();
                }
                let found = all(&world.hash);
                assert!((0..1_000).all(|number| found.contains_key(&key(number)[..])));
                for (found, value) in found {
                    let number = u64::from_le_bytes(found.try_into().unwrap());
                    assert!(number < 2_000 && value.chunks(8).all(|part| part == key(number)));
                }
                walks.store(walk, Ordering::Relaxed);
            }
        });
        let walked = walker.join();
        // If it has failed the writers end as well.
        walks.store(WALKS, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        walked.unwrap();
    });
    assert!(world.reads() > 1_000, "{} reads", world.reads());
}

/// A walk is held at a page; what is below it moves to the log's end meanwhile, and BEGIN passes it.
#[test]
fn a_walk_that_a_truncation_passes_does_its_stretch_again() {
    let crowd = &crowds(2)[0];
    let world = World::new(4, Sizes { bucket_bits: 0, frames: 16, copies: 0 });
    world.write(&crowd[0], Some(b"wanted"));
    let below = world.hash.log.close_page();
    world.write(&crowd[1], Some(b"in the way"));
    (0..3_000).for_each(|number| world.write(&key((1 << 32) + number % 3), Some(&vec![0; number as usize % 1_500])));
    world.keep(1);
    let segment = &world.hash.log.segments()[0];
    let (file, page) = (segment.id(), segment.offset(below));
    world.ground.disk.hold(file, page);
    thread::scope(|scope| {
        let walk = scope.spawn(|| all(&world.hash));
        world.ground.disk.wait_blocked(file, page);
        world.write(&crowd[0], Some(b"moved"));
        world.hash.log.truncate(below, drop);
        world.ground.disk.release(file, page);
        assert_eq!(walk.join().unwrap()[&crowd[0]], b"moved");
    });
}
