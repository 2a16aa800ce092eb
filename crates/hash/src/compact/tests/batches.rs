//! Batched reads of many keys, most of which are in runs.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use ecotone_substrate::storage::{Access, Completion, Counters, File, FileId, FileKind, Queue, Request, Storage};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    model::{Model, write, write_and_evict},
    *,
};
use crate::tests::crowds;

/// A disk that records the maximum of requests in flight of one queue.
#[derive(Debug)]
struct Watched {
    disk: SimStorage,
    most: Arc<AtomicUsize>,
}

impl Watched {
    fn new(fixture: &Fixture) -> Watched {
        Watched { disk: fixture.disk.clone(), most: Arc::default() }
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

impl Storage for Watched {
    fn list(&self) -> Result<Vec<FileId>> {
        self.disk.list()
    }

    fn create(&self, id: FileId, access: Access) -> Result<Arc<dyn File>> {
        self.disk.create(id, access)
    }

    fn open(&self, id: FileId, access: Access) -> Result<Arc<dyn File>> {
        self.disk.open(id, access)
    }

    fn remove(&self, id: FileId) -> Result<()> {
        self.disk.remove(id)
    }

    fn sync_dir(&self) -> Result<()> {
        self.disk.sync_dir()
    }

    fn queue(&self) -> Result<Box<dyn Queue>> {
        Ok(Box::new(WatchedQueue { queue: self.disk.queue()?, most: self.most.clone() }))
    }

    fn free_space(&self) -> Result<u64> {
        self.disk.free_space()
    }

    fn counters_of(&self, kind: FileKind) -> Counters {
        self.disk.counters_of(kind)
    }
}

#[derive(Debug)]
struct WatchedQueue {
    queue: Box<dyn Queue>,
    most: Arc<AtomicUsize>,
}

impl Queue for WatchedQueue {
    fn submit(&mut self, request: Request) {
        self.queue.submit(request);
        self.most.fetch_max(self.queue.in_flight(), Ordering::Relaxed);
    }

    fn complete(&mut self, at_least: usize, done: &mut Vec<Completion>) {
        self.queue.complete(at_least, done);
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }
}

/// The values of these keys; each is reported once.
fn ask<K: AsRef<[u8]>>(fixture: &Fixture, storage: &dyn Storage, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
    let slices: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
    let mut found = vec![None; keys.len()];
    fixture.hash.multi_get(storage, &slices, |number, value| {
        assert!(found[number].replace(value.map(<[u8]>::to_vec)).is_none(), "{number} is told twice");
    })?;
    Ok(found.into_iter().map(|found| found.expect("each is told")).collect())
}

fn reads(fixture: &Fixture) -> u64 {
    fixture.environment.storage.counters_of(FileKind::Table).reads
}

#[test]
fn cold_keys_are_read_side_by_side_and_then_copied() {
    const COUNT: u32 = 400;
    let fixture = Fixture::new(1, true);
    (0..COUNT).for_each(|key| fixture.set(&key.to_be_bytes(), &[key as u8; 100]));
    fixture.compact().unwrap();
    fixture.merge_all_bases().unwrap();
    let (watched, keys) = (Watched::new(&fixture), (0..2 * COUNT).map(u32::to_be_bytes).collect::<Vec<_>>());
    let expected: Vec<_> = (0..2 * COUNT).map(|key| (key < COUNT).then(|| vec![key as u8; 100])).collect();
    let before = reads(&fixture);
    assert_eq!(ask(&fixture, &watched, &keys).unwrap(), expected);
    let (first, before) = (reads(&fixture) - before, reads(&fixture));
    // One read for each key, except for hashes below the first fence, and those that equal one.
    assert!(first.abs_diff(u64::from(2 * COUNT)) < 16, "{first} reads");
    assert_eq!(watched.most(), 64);
    // Found values are cached now; the read cache has no entry for a key without a value.
    assert_eq!(ask(&fixture, &watched, &keys).unwrap(), expected);
    let second = reads(&fixture) - before;
    assert!(second.abs_diff(u64::from(COUNT)) < 16, "{second} reads");
}

/// A key may occur several times in a batch, and is cached once.
#[test]
fn equal_keys_of_a_batch_have_equal_values() {
    let fixture = Fixture::new(1, true);
    (0..100u32).for_each(|key| fixture.set(&key.to_be_bytes(), &key.to_le_bytes()));
    fixture.compact().unwrap();
    // The first insert into the read cache finds no frame.
    fixture.value(&99u32.to_be_bytes());
    let keys: Vec<_> = (0..90u32).map(|number| (number % 3).to_be_bytes()).collect();
    let before = reads(&fixture);
    let found = ask(&fixture, &Watched::new(&fixture), &keys).unwrap();
    assert!((0..90u32).zip(found).all(|(number, found)| found == Some((number % 3).to_le_bytes().to_vec())));
    assert!(reads(&fixture) - before <= 90);
    let before = reads(&fixture);
    (0..3u32).for_each(|key| assert_eq!(fixture.value(&key.to_be_bytes()), Some(key.to_le_bytes().to_vec())));
    assert_eq!(reads(&fixture), before, "they are copied");
}

#[test]
fn batches_find_what_single_calls_find_wherever_it_is() {
    for seed in 0..6 {
        let (fixture, mut model, mut random) = (Fixture::new(seed, true), Model::new(), SmallRng::seed_from_u64(seed));
        let watched = Watched::new(&fixture);
        for round in 0..30 {
            match random.random_range(0..4) {
                0 => fixture.compact().unwrap(),
                1 => _ = fixture.compactor().merge_any_base().unwrap(),
                2 => write_and_evict(&fixture),
                _ => {}
            }
            for _ in 0..random.random_range(0..400) {
                let key = random.random_range(0..1_500u32).to_be_bytes();
                write(&fixture, &mut model, &mut random, &key);
            }
            let count = [1, 31, 32, 33, 300][round % 5];
            let keys: Vec<_> = (0..count).map(|_| random.random_range(0..1_600u32).to_be_bytes()).collect();
            let expected: Vec<_> = keys.iter().map(|key| model.get(&key[..]).cloned()).collect();
            assert_eq!(ask(&fixture, &watched, &keys).unwrap(), expected);
        }
        assert!(watched.most() == 64, "{} in flight", watched.most());
    }
}

/// A search of the batch waits for its page while compaction takes the next record of its chain (trap 7).
#[test]
fn trap_07_a_batch_that_a_compaction_passes_goes_on_in_the_delta() {
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
    let keys = [&crowd[0][..], &500u32.to_be_bytes(), &crowd[1][..], &crowd[0][..]];
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&fixture, &fixture.disk, &keys));
        fixture.disk.wait_blocked(file, page);
        assert_eq!(fixture.compactor().compact(below).unwrap(), below);
        fixture.disk.release(file, page);
        let expected = [&b"goes"[..], &[1; 100], b"stays", b"goes"].map(|value| Some(value.to_vec()));
        assert_eq!(asked.join().unwrap().unwrap(), expected);
    });
}

/// The first failure is reported, and the memory of the other requests is freed.
#[test]
fn a_batch_with_a_damaged_block_fails_and_the_next_one_does_not() {
    let fixture = Fixture::with(1, true, Sizes { bucket_bits: 6, frames: 64, copies: 0 });
    (0..400u32).for_each(|key| fixture.set(&key.to_be_bytes(), &[key as u8; 100]));
    fixture.compact().unwrap();
    let keys: Vec<_> = (0..400u32).map(u32::to_be_bytes).collect();
    let run = fixture.hash.cold.runs().deltas().runs().next().unwrap().name().file();
    let held = fixture.environment.memory.used(&[Component::Frames]);
    fixture.disk.flip_bit(run, PAGE + 100, 1);
    assert!(ask(&fixture, &fixture.disk, &keys).unwrap_err().is_corruption());
    fixture.disk.flip_bit(run, PAGE + 100, 1);
    assert_eq!(fixture.environment.memory.used(&[Component::Frames]), held);
    assert!(ask(&fixture, &fixture.disk, &keys).unwrap().iter().all(Option::is_some));
}
