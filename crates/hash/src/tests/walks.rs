//! Walks over records in memory and on disk.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use ecotone_engine::contract::UnorderedCursor as _;
use ecotone_substrate::storage::{FileKind, Storage};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    disk::{Fixture, key},
    *,
};
use crate::walk::HashCursor;

/// All records of a walk, none twice.
pub(crate) fn all(hash: &Arc<Hash>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut walk, mut records) = (HashCursor::new(hash.clone()), BTreeMap::new());
    while let Some((key, value)) = walk.next().expect("all can be read") {
        assert!(records.insert(key.to_vec(), value.to_vec()).is_none(), "{key:?} comes twice");
    }
    assert!(walk.next().unwrap().is_none(), "the end stays");
    records
}

#[test]
fn a_walk_gives_every_key_once_with_its_newest_value() {
    for (seed, bucket_bits) in [(1, 0), (2, 3), (3, 9)] {
        let fixture = Fixture::new(seed, Sizes { bucket_bits, frames: 8, copies: 0 });
        let (mut random, mut model) = (SmallRng::seed_from_u64(seed), BTreeMap::new());
        assert!(all(&fixture.hash).is_empty());
        for step in 0..12_000 {
            let key = key(random.random_range(0..1_500)).to_vec();
            if random.random_bool(0.8) {
                let value = vec![random.random(); random.random_range(0..200)];
                fixture.write(&key, Some(&value));
                model.insert(key, value);
            } else {
                fixture.write(&key, None);
                model.remove(&key);
            }
            if step % 500 == 0 {
                fixture.hash.freeze(1);
            }
            if step % 3_000 == 0 {
                assert_eq!(all(&fixture.hash), model);
            }
        }
        fixture.keep(1);
        let before = fixture.reads();
        assert_eq!(all(&fixture.hash), model);
        // A page with visible records in a range is read once for the range.
        assert!(fixture.reads() > before, "some is on disk");
    }
}

#[test]
fn of_a_log_in_memory_nothing_is_read() {
    let fixture = Fixture::new(1, Sizes { bucket_bits: 6, frames: 16, copies: 0 });
    (0..2_000).for_each(|number| fixture.write(&key(number), Some(&[number as u8; 100])));
    assert_eq!(all(&fixture.hash).len(), 2_000);
    assert_eq!(fixture.log_disk.disk.counters_of(FileKind::Segment).reads, 0);
}

/// Marks a writer as ended, also if it fails, so that no thread waits for it.
struct Ended<'a>(&'a AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1 << 40, Ordering::Relaxed);
    }
}

/// A walk returns all keys that exist all the time, whichever others come and go and however the log moves.
#[test]
fn a_walk_beside_writes_misses_nothing_and_gives_nothing_twice() {
    const WALKS: usize = 10;
    /// Turns of each writer during a walk. Nothing is compacted here, so chains are as long as their history, and walks
    /// as long as chains.
    const TURNS: usize = 1_500;
    let fixture = Fixture::new(5, Sizes { bucket_bits: 6, frames: 16, copies: 0 });
    let (walks, turns) = (AtomicUsize::new(0), AtomicUsize::new(0));
    (0..1_000).for_each(|number| fixture.write(&key(number), Some(&number.to_le_bytes())));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                let (fixture, walks, turns) = (&fixture, &walks, &turns);
                scope.spawn(move || {
                    let (_ended, mut random) = (Ended(turns), SmallRng::seed_from_u64(writer));
                    for turn in 0..WALKS * TURNS {
                        while turn >= (walks.load(Ordering::Relaxed) + 1) * TURNS {
                            thread::yield_now();
                        }
                        let number = 2 * random.random_range(0..500u64) + writer;
                        // A key's value tells its number, in any length.
                        let value = number.to_le_bytes().repeat(random.random_range(1..20));
                        fixture.write(&key(number), Some(&value));
                        let guest = key(1_000 + number);
                        fixture.write(&guest, random.random::<bool>().then_some(&guest[..]));
                        if random.random_bool(0.01) {
                            fixture.hash.freeze(1);
                            fixture.keep(random.random_range(1..4));
                        }
                        turns.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let walker = scope.spawn(|| {
            for walk in 1..=WALKS {
                // The log grows from walk to walk, whichever thread gets the processor.
                while turns.load(Ordering::Relaxed) < 2 * (walk - 1) * TURNS {
                    thread::yield_now();
                }
                let found = all(&fixture.hash);
                assert!((0..1_000).all(|number| found.contains_key(&key(number)[..])));
                for (found, value) in found {
                    let number = u64::from_le_bytes(found.try_into().unwrap());
                    assert!(number < 2_000 && value.chunks(8).all(|part| part == key(number)));
                }
                walks.store(walk, Ordering::Relaxed);
            }
        });
        let walked = walker.join();
        // If the walk has failed, the writers end as well.
        walks.store(WALKS, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        walked.unwrap();
    });
    assert!(fixture.reads() > 1_000, "{} reads", fixture.reads());
}

/// A walk is held at a page. Meanwhile the record below it moves to the log's end, and BEGIN passes it.
#[test]
fn a_walk_that_a_truncation_passes_does_its_range_again() {
    let crowd = &crowds(2)[0];
    let fixture = Fixture::new(4, Sizes { bucket_bits: 0, frames: 16, copies: 0 });
    fixture.write(&crowd[0], Some(b"wanted"));
    let below = fixture.hash.chains.log.close_page();
    fixture.write(&crowd[1], Some(b"in the way"));
    (0..3_000).for_each(|number| fixture.write(&key((1 << 32) + number % 3), Some(&vec![0; number as usize % 1_500])));
    fixture.keep(1);
    let segment = &fixture.hash.chains.log.segments()[0];
    let (file, page) = (segment.id(), segment.offset(below));
    fixture.log_disk.disk.hold(file, page);
    thread::scope(|scope| {
        let walk = scope.spawn(|| all(&fixture.hash));
        fixture.log_disk.disk.wait_blocked(file, page);
        fixture.write(&crowd[0], Some(b"moved"));
        fixture.hash.chains.log.truncate(below, drop);
        fixture.log_disk.disk.release(file, page);
        assert_eq!(walk.join().unwrap()[&crowd[0]], b"moved");
    });
}
