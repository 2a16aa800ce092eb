//! Walks over records in memory, in segments and in runs.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use ecotone_engine::contract::UnorderedCursor as _;
use ecotone_substrate::storage::FileKind;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    model::{Model, write, write_and_evict},
    *,
};
use crate::{
    tests::{crowds, walks::all},
    walk::HashCursor,
};

/// Whether records are in memory, in segments, in deltas and in bases.
fn places(fixture: &Fixture) -> [bool; 4] {
    let (bounds, runs) = (fixture.hash.chains.log.bounds(), fixture.hash.cold.runs());
    [
        bounds.head() < fixture.hash.chains.log.tail(),
        bounds.begin() < bounds.head(),
        !runs.deltas().is_empty(),
        runs.base_bytes() > 0,
    ]
}

#[test]
fn a_walk_gives_every_key_once_wherever_its_records_are() {
    let (mut walks, mut everywhere, mut partitions) = (0, 0, 0);
    for seed in 0..8 {
        let (mut fixture, mut model, mut random) =
            (Fixture::new(seed, seed % 2 == 0), Model::new(), SmallRng::seed_from_u64(seed));
        fixture.limits.largest_base = 4 << 10;
        assert!(all(&fixture.hash).is_empty());
        for _ in 0..60 {
            match random.random_range(0..8) {
                0 => fixture.compact().unwrap(),
                1 => _ = fixture.compactor().merge_base_if_due().unwrap(),
                2 => _ = fixture.compactor().merge_any_base().unwrap(),
                3 => fixture.compactor().merge().unwrap(),
                4 => write_and_evict(&fixture),
                5 => fixture.journal.sync(),
                _ => {}
            }
            for _ in 0..random.random_range(0..400) {
                let key = random.random_range(0..2_000u32).to_be_bytes();
                write(&fixture, &mut model, &mut random, &key);
            }
            if random.random_bool(0.3) {
                assert_eq!(all(&fixture.hash), model);
                walks += 1;
                everywhere += usize::from(places(&fixture) == [true; 4]);
            }
        }
        partitions = fixture.hash.cold.runs().partitions().count().max(partitions);
    }
    // A walk's range is a quarter of all hashes.
    assert!(partitions >= 8, "{partitions} partitions at most");
    assert!(everywhere > 10, "in {everywhere} of {walks} walks records were everywhere");
}

/// A tombstone hides older records, wherever either of them is; without older records it has no effect.
#[test]
fn a_tombstone_hides_what_older_runs_have() {
    const KEYS: u32 = 1_000;
    /// In a base, in an older and in a younger delta, in a segment, in memory.
    const PLACES: u32 = 5;
    let (fixture, mut model) = (Fixture::new(1, true), Model::new());
    // A key has in each place a value, a tombstone or nothing: a digit of its number.
    let kind = |key: u32, place: u32| key / 3u32.pow(place) % 3;
    for place in 0..PLACES {
        for key in 0..KEYS {
            match kind(key, place) {
                0 => {
                    fixture.set(&key.to_be_bytes(), &[place as u8; 100]);
                    model.insert(key.to_be_bytes().to_vec(), vec![place as u8; 100]);
                }
                1 => {
                    fixture.remove(&key.to_be_bytes());
                    model.remove(&key.to_be_bytes()[..]);
                }
                _ => {}
            }
        }
        match place {
            0 => {
                fixture.compact().unwrap();
                fixture.merge_all_bases().unwrap();
            }
            1 | 2 => fixture.compact().unwrap(),
            3 => {
                // The next frame is another one.
                let guests = (KEYS..2 * KEYS).map(u32::to_be_bytes);
                guests.for_each(|key| fixture.remove(&key));
                write_and_evict(&fixture);
            }
            _ => assert_eq!(places(&fixture), [true; 4]),
        }
        assert_eq!(all(&fixture.hash), model);
    }
}

/// A walk reads a bucket in several ranges where the runs have many records. A range is read when the walk reaches it,
/// and every block once, except for those at the ends of ranges.
#[test]
fn a_walk_reads_a_range_at_a_time() {
    const KEYS: u32 = 8_000;
    for bucket_bits in [0, 6, 12] {
        let mut fixture = Fixture::with(1, true, Sizes { bucket_bits, frames: 64, copies: 0 });
        fixture.limits.largest_base = u64::MAX;
        (0..KEYS).for_each(|key| fixture.set(&key.to_be_bytes(), &[key as u8; 100]));
        fixture.compact().unwrap();
        fixture.merge_all_bases().unwrap();
        let read = || fixture.environment.storage.counters_of(FileKind::Table).read_bytes;
        let (before, total) = (read(), fixture.hash.cold.runs().base_bytes());
        assert!(total > 800 << 10);
        // Windows begin and end at pages.
        let most = (128 + 1) * 1024 + 2 * PAGE;
        let (mut walk, mut last, mut count, mut ranges) = (HashCursor::new(fixture.hash.clone()), before, 0, 0);
        while walk.next().unwrap().is_some() {
            let now = read();
            let bytes = now - last;
            assert!(bytes <= most, "{bytes} bytes read for a range");
            (last, count, ranges) = (now, count + 1, ranges + u64::from(bytes > 0));
        }
        assert_eq!(count, KEYS);
        assert!(ranges >= total / (128 << 10), "{ranges} ranges");
        assert!(last - before <= total + ranges * (1024 + 2 * PAGE), "{} bytes read of {total}", last - before);
        // The hot log's records of a bucket belong to several ranges of it.
        (0..KEYS).filter(|key| key % 3 == 0).for_each(|key| fixture.set(&key.to_be_bytes(), &[0xee; 90]));
        write_and_evict(&fixture);
        (0..KEYS).filter(|key| key % 5 == 0).for_each(|key| fixture.remove(&key.to_be_bytes()));
        let found = all(&fixture.hash);
        for key in 0..KEYS {
            let value = if key % 3 == 0 { vec![0xee; 90] } else { vec![key as u8; 100] };
            assert_eq!(found.get(&key.to_be_bytes()[..]), (key % 5 > 0).then_some(&value));
        }
    }
}

/// A walk waits for a page while compaction takes the next record of the chain; the walk then finds it in the delta.
#[test]
fn a_walk_that_a_compaction_passes_does_its_range_again() {
    let crowd = &crowds(2)[0];
    let fixture = Fixture::with(1, true, Sizes { bucket_bits: 0, frames: 64, copies: 0 });
    fixture.set(&crowd[0], b"goes");
    let below = fixture.hash.chains.log.close_page();
    fixture.set(&crowd[1], b"stays");
    (0..1_000u32).for_each(|key| fixture.set(&key.to_be_bytes(), &[1; 100]));
    write_and_evict(&fixture);
    let segment = &fixture.hash.chains.log.segments()[0];
    let (file, page) = (segment.id(), segment.offset(below));
    fixture.disk.hold(file, page);
    thread::scope(|scope| {
        let walk = scope.spawn(|| all(&fixture.hash));
        fixture.disk.wait_blocked(file, page);
        assert_eq!(fixture.compactor().compact(below).unwrap(), below);
        fixture.disk.release(file, page);
        let found = walk.join().unwrap();
        assert_eq!((found.len(), &found[&crowd[0]][..], &found[&crowd[1]][..]), (1_002, &b"goes"[..], &b"stays"[..]));
    });
}

/// Keys that always have values are returned once by each walk, and not with a value older than the one at the start of
/// the walk, while their records move from memory to segments, deltas and bases.
#[test]
fn a_walk_beside_writers_and_compaction_misses_nothing_and_gives_nothing_old() {
    const WRITERS: u64 = 2;
    const KEYS: u64 = 600;
    const WALKS: usize = 20;
    let (fixture, done, walked) = (Fixture::new(1, true), AtomicBool::new(false), AtomicBool::new(false));
    let changes = || fixture.journal.records().len();
    let is_enough = || changes() > 2 * WALKS && fixture.hash.cold.runs().base_bytes() > 0;
    // A key's value tells how often it was written.
    let value = |version: u64| version.to_le_bytes().repeat(1 + version as usize % 12);
    let written: Vec<_> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    (0..KEYS).for_each(|key| fixture.set(&key.to_be_bytes(), &value(0)));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (fixture, written, walked) = (&fixture, &written, &walked);
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(writer);
                    while !walked.load(Ordering::Relaxed) {
                        let key = WRITERS * random.random_range(0..KEYS / WRITERS) + writer;
                        let version = written[key as usize].load(Ordering::Relaxed) + 1;
                        fixture.set(&key.to_be_bytes(), &value(version));
                        written[key as usize].store(version, Ordering::SeqCst);
                        let guest = (KEYS + key).to_be_bytes();
                        if random.random() {
                            fixture.set(&guest, &value(0))
                        } else {
                            fixture.remove(&guest)
                        }
                        if random.random_bool(0.002) {
                            write_and_evict(fixture);
                        }
                    }
                })
            })
            .collect();
        let background = |work: fn(&Fixture)| {
            let (fixture, done) = (&fixture, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    work(fixture);
                    thread::yield_now();
                }
            })
        };
        let compacting = background(|fixture| fixture.compact().unwrap());
        let merging = background(|fixture| _ = fixture.compactor().merge_any_base().unwrap());
        let walker = scope.spawn(|| {
            // On a busy machine the other threads may have done little when all walks are over.
            for walk in (1..).take_while(|walk| *walk <= WALKS || *walk <= 1_000 * WALKS && !is_enough()) {
                let before: Vec<_> = written.iter().map(|version| version.load(Ordering::SeqCst)).collect();
                let found = all(&fixture.hash);
                for (key, before) in (0..KEYS).zip(before) {
                    let version = found
                        .get(&key.to_be_bytes()[..])
                        .map(|found| (u64::from_le_bytes(*found.first_chunk().unwrap()), found));
                    let (version, found) = version.unwrap_or_else(|| panic!("walk {walk} misses {key}"));
                    assert!(
                        version >= before && *found == value(version),
                        "walk {walk}, {key}: {version}, before {before}"
                    );
                }
            }
        });
        let end = walker.join();
        // The other threads end as well if the walk has failed.
        walked.store(true, Ordering::Relaxed);
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        let ends = ends.into_iter().chain([end, compacting.join(), merging.join()]);
        ends.for_each(|end| end.unwrap());
    });
    assert!(is_enough(), "{} changes of the runs", changes());
}
