//! Many threads on one tree, on a real disk and with little memory. Readers and scans must miss nothing that is
//! certainly there and see nothing that cannot be.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::{Duration, Instant},
};

use ecotone::{Database, Engine, Keyspace, KeyspaceOptions};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

const KEYS: u32 = 60_000;
const WRITERS: u32 = 3;
const TIME: Duration = Duration::from_secs(6);

/// Every third key is written once and stays. The others are inserted, changed and deleted, each by one writer.
fn is_stable(i: u32) -> bool {
    i.is_multiple_of(3)
}

fn key(i: u32) -> Vec<u8> {
    let mut key = i.wrapping_mul(0x9E37_79B1).to_be_bytes().to_vec();
    key.extend(std::iter::repeat_n(b'k', (i % 40) as usize));
    key
}

fn index_of(key: &[u8]) -> u32 {
    let mixed = u32::from_be_bytes(key[..4].try_into().unwrap());
    // The inverse of an odd number modulo 2³² by Newton's iteration.
    let inverse = (0..5).fold(1u32, |x, _| x.wrapping_mul(2u32.wrapping_sub(0x9E37_79B1u32.wrapping_mul(x))));
    mixed.wrapping_mul(inverse)
}

/// A value encodes its key and version. Its length changes with every version.
fn value(i: u32, version: u32) -> Vec<u8> {
    let mut value = [i.to_be_bytes(), version.to_be_bytes()].concat();
    value.resize(8 + (i.wrapping_mul(31).wrapping_add(version.wrapping_mul(577)) % 1500) as usize, version as u8);
    value
}

fn version_of(i: u32, stored: &[u8]) -> u32 {
    let version = u32::from_be_bytes(stored[4..8].try_into().unwrap());
    assert_eq!(stored, value(i, version), "the value of key {i} is not one that was written");
    version
}

/// The state of a key: the last version begun and the last version acknowledged. Odd versions are values, even ones
/// deletions (0: never inserted).
#[derive(Default)]
struct Known {
    begun: AtomicU32,
    acknowledged: AtomicU32,
}

/// The action that a thread repeats. Arguments: the thread's number, its random source, the keys in order.
type Act = dyn Fn(&Fixture, u32, &mut SmallRng, &[u32]) + Sync;

struct Fixture {
    keyspace: Keyspace,
    known: Vec<Known>,
    stop: AtomicBool,
}

impl Fixture {
    fn acknowledged(&self, i: u32) -> u32 {
        self.known[i as usize].acknowledged.load(Ordering::SeqCst)
    }

    fn begun(&self, i: u32) -> u32 {
        self.known[i as usize].begun.load(Ordering::SeqCst)
    }

    /// Checks a result of a read of key `i` that began when `before` was acknowledged.
    fn judge(&self, i: u32, before: u32, found: Option<&[u8]>) {
        let begun = self.begun(i);
        match found {
            Some(stored) => {
                let version = version_of(i, stored);
                assert!(before <= version && version <= begun, "key {i} has version {version} of {before}..={begun}");
            }
            // Absent: a deletion (or version 0) lies among the possible versions.
            None => {
                assert!(before.is_multiple_of(2) || begun > before, "key {i} is missing at version {before}..={begun}")
            }
        }
    }

    fn write(&self, writer: u32, random: &mut SmallRng) {
        let i = random.random_range(0..KEYS / 3) * 3 + 1 + writer % 2;
        if i / 3 % WRITERS != writer {
            return;
        }
        let version = self.begun(i) + 1;
        self.known[i as usize].begun.store(version, Ordering::SeqCst);
        if version % 2 == 1 {
            self.keyspace.insert(key(i), value(i, version)).unwrap();
        } else {
            self.keyspace.remove(key(i)).unwrap();
        }
        self.known[i as usize].acknowledged.store(version, Ordering::SeqCst);
    }

    fn get(&self, random: &mut SmallRng) {
        let i = random.random_range(0..KEYS);
        let before = self.acknowledged(i);
        self.judge(i, before, self.keyspace.get(key(i)).unwrap().as_deref());
    }

    fn multi_get(&self, random: &mut SmallRng) {
        let picked: Vec<u32> = (0..20).map(|_| random.random_range(0..KEYS)).collect();
        let before: Vec<u32> = picked.iter().map(|i| self.acknowledged(*i)).collect();
        let found = self.keyspace.multi_get(picked.iter().map(|i| key(*i))).unwrap();
        for ((i, before), found) in picked.into_iter().zip(before).zip(found) {
            self.judge(i, before, found.as_deref());
        }
    }

    /// A scan from a random key, in one direction or from both ends, checked as a whole.
    fn scan(&self, random: &mut SmallRng, sorted: &[u32]) {
        let from = random.random_range(0..sorted.len());
        let to = (from + random.random_range(1..400)).min(sorted.len());
        let expected = &sorted[from..to];
        let before: Vec<u32> = expected.iter().map(|i| self.acknowledged(*i)).collect();
        let end = sorted.get(to).map(|i| key(*i));
        let mut iter = match end {
            Some(end) => self.keyspace.range(key(expected[0])..end),
            None => self.keyspace.range(key(expected[0])..),
        };
        let (mut low, mut high) = (Vec::new(), Vec::new());
        let direction = random.random_range(0..3);
        loop {
            let forward = direction == 0 || (direction == 2 && random.random_range(0..2) == 0);
            let next = if forward { iter.next() } else { iter.next_back() };
            let Some(record) = next else { break };
            if forward { low.push(record.unwrap()) } else { high.push(record.unwrap()) }
        }
        low.extend(high.into_iter().rev());
        assert!(low.windows(2).all(|pair| pair[0].0 < pair[1].0), "a scan gave keys out of order or twice");
        let mut found = low.into_iter().peekable();
        for (i, before) in expected.iter().zip(before) {
            let record = found.next_if(|(found, _)| index_of(found) == *i);
            self.judge(*i, before, record.as_ref().map(|(_, value)| value.as_slice()));
        }
        assert!(found.next().is_none(), "a scan gave a key that is none of ours");
    }
}

/// Ends the threads, even if the watching thread panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
#[ignore = "long"]
fn readers_and_scans_miss_nothing_and_see_nothing_old() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::builder(directory.path().join("db")).memory_budget(16 << 20).open().unwrap();
    let keyspace = database.keyspace("k", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
    let fixture =
        Fixture { keyspace, known: (0..KEYS).map(|_| Known::default()).collect(), stop: AtomicBool::new(false) };
    for i in (0..KEYS).filter(|i| is_stable(*i)) {
        fixture.keyspace.insert(key(i), value(i, 1)).unwrap();
        fixture.known[i as usize].begun.store(1, Ordering::SeqCst);
        fixture.known[i as usize].acknowledged.store(1, Ordering::SeqCst);
    }
    let mut sorted: Vec<u32> = (0..KEYS).collect();
    sorted.sort_by_key(|i| key(*i));
    let seed = rand::random::<u64>();
    println!("seed {seed} (the schedule is the machine's)");
    std::thread::scope(|scope| {
        let _stop = Stop(&fixture.stop);
        let threads = |salt: u64, count: u32, act: &'static Act| {
            for number in 0..count {
                let (fixture, sorted) = (&fixture, &sorted);
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(seed ^ salt << 32 ^ u64::from(number));
                    while !fixture.stop.load(Ordering::Relaxed) {
                        act(fixture, number, &mut random, sorted);
                    }
                });
            }
        };
        threads(0, WRITERS, &|fixture, number, random, _| fixture.write(number, random));
        // More threads than processors, so that a reader is often paused between its page and the cache.
        threads(1, 8, &|fixture, _, random, _| fixture.get(random));
        threads(2, 1, &|fixture, _, random, _| fixture.multi_get(random));
        threads(3, 2, &|fixture, _, random, sorted| fixture.scan(random, sorted));
        let end = Instant::now() + TIME;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
            database.flush().unwrap();
        }
    });
    let checked = database.verify().unwrap();
    assert!(checked.iter().all(|(_, check)| check.problems.is_empty()), "{checked:?}");
    let found: Vec<u32> = fixture.keyspace.iter().map(|record| index_of(&record.unwrap().0)).collect();
    let alive: Vec<u32> = sorted.iter().copied().filter(|i| fixture.acknowledged(*i) % 2 == 1).collect();
    assert_eq!(found, alive);
    assert_eq!(checked[0].1.records, alive.len() as u64);
}
