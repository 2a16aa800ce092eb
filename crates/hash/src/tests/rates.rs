//! Compares the speed of reads with a sharded map behind locks, all in memory, Zipf 0.99, two threads.
//! `ECOTONE_HASH_RECORDS=2000000 cargo test --release -p ecotone-hash --lib tests::rates -- --nocapture`
//! prints it.

use std::{collections::HashMap, env, hash::BuildHasher, hint::black_box, thread, time::Instant};

use ecotone_sys::primitive::Mutex;
use ecotone_testkit::sim::SimStorage;
use foldhash::fast::FixedState;
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};

use super::*;

const THREADS: usize = 2;
const BATCH: usize = 32;

type Shard = Mutex<HashMap<Box<[u8]>, Box<[u8]>, FixedState>>;

/// The map to compare with. It has enough shards to keep two threads apart.
struct Sharded {
    shards: Vec<Shard>,
    choose: FixedState,
}

impl Sharded {
    fn new() -> Sharded {
        Sharded { shards: (0..64).map(|_| Mutex::default()).collect(), choose: FixedState::with_seed(1) }
    }

    fn shard(&self, key: &[u8]) -> &Shard {
        &self.shards[self.choose.hash_one(key) as usize % self.shards.len()]
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.shard(key).lock().insert(key.into(), value.into());
    }

    fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        value.clear();
        let shard = self.shard(key).lock();
        shard.get(key).map(|found| value.extend_from_slice(found)).is_some()
    }
}

/// Random numbers below `count`, a lower rank being more frequent. The order of ranks is independent of the numbers.
fn zipf(count: usize, draws: usize, random: &mut SmallRng) -> Vec<u64> {
    let mut sums: Vec<f64> = (1..=count)
        .scan(0.0, |sum, rank| {
            *sum += (rank as f64).powf(-0.99);
            Some(*sum)
        })
        .collect();
    let all = sums[count - 1];
    sums.iter_mut().for_each(|sum| *sum /= all);
    let mut names: Vec<u64> = (0..count as u64).collect();
    names.shuffle(&mut SmallRng::seed_from_u64(0));
    (0..draws).map(|_| names[sums.partition_point(|sum| *sum < random.random::<f64>()).min(count - 1)]).collect()
}

/// Nanoseconds per operation of one thread.
fn measure(keys: &[Vec<[u8; 8]>], read: impl Fn(&[[u8; 8]]) + Sync) -> f64 {
    #[expect(clippy::disallowed_methods, reason = "it measures the machine")]
    let start = Instant::now();
    thread::scope(|scope| keys.iter().for_each(|keys| drop(scope.spawn(|| read(keys)))));
    start.elapsed().as_secs_f64() * 1e9 / keys[0].len() as f64
}

#[test]
fn reads_beside_those_of_a_sharded_map() {
    let measured = env::var("ECOTONE_HASH_RECORDS").ok().map(|count| count.parse().expect("a number"));
    let count = measured.unwrap_or(10_000usize);
    let draws = if measured.is_some() { 1 << 20 } else { 1 << 16 };
    let memory = Memory::new((count * 180).max(64 << 20));
    let sizes = Sizes {
        bucket_bits: (count as f64 / 4.0).log2().round() as u32,
        frames: (count * 140 / log::FRAME as usize + 16).next_power_of_two(),
        copies: 0,
    };
    let hash = Hash::new(&Domain::new(), &memory, SEED, sizes).expect("there is memory");
    let (map, disk) = (Sharded::new(), SimStorage::new(1));
    let value = |key: u64| [&key.to_le_bytes()[..], &[key as u8; 92]].concat();
    for key in 0..count as u64 {
        hash.set(&key.to_le_bytes(), &value(key));
        map.set(&key.to_le_bytes(), &value(key));
    }
    let keys: Vec<Vec<_>> = (0..THREADS)
        .map(|seed| {
            zipf(count, draws, &mut SmallRng::seed_from_u64(seed as u64)).into_iter().map(u64::to_le_bytes).collect()
        })
        .collect();
    let single = |get: &(dyn Fn(&[u8], &mut Vec<u8>) -> bool + Sync)| {
        measure(&keys, |keys| {
            let mut found = Vec::new();
            keys.iter().for_each(|key| assert!(get(key, &mut found) && found[..8] == *key));
        })
    };
    let batched = || {
        measure(&keys, |keys| {
            for batch in keys.chunks(BATCH) {
                let slices: [&[u8]; BATCH] = std::array::from_fn(|place| &batch[place][..]);
                let found = hash.multi_get(&disk, &slices, |number, found| {
                    assert!(black_box(found).unwrap()[..8] == batch[number])
                });
                found.unwrap();
            }
        })
    };
    for _ in 0..if measured.is_some() { 5 } else { 1 } {
        let (map, one) =
            (single(&|key, found| map.get_into(key, found)), single(&|key, found| hash.get_into(key, found).unwrap()));
        let many = batched();
        println!("ns/op: map {map:.0}, hash {one:.0} ({:.2}x), batches {many:.0} ({:.2}x)", map / one, map / many);
    }
}
