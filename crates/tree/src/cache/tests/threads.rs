//! Concurrent readers, writers and write-outs.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use ecotone_substrate::clock::{Clock, SystemClock};
use ecotone_sys::primitive::Mutex;

use super::*;

const KEYS: usize = 3000;
const PAGES: usize = 60;
const EACH: usize = KEYS / PAGES;
/// Write-outs, hits and misses at least.
const WRITE_OUTS: u64 = 10_000;
/// The longest time until there are so many.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Numbers that only grow, in pages that the test stands in for.
struct Fixture {
    cache: Arc<Cache>,
    pages: Vec<Mutex<Vec<u64>>>,
    acknowledged: Vec<AtomicU64>,
    write_outs: AtomicU64,
    over: AtomicBool,
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:05}{}", "x".repeat(n % 40)).into_bytes()
}

/// The keys of a page.
fn page(number: usize) -> KeySpan {
    let fence = |number: usize| format!("key{:05}", number * EACH).into_bytes();
    KeySpan { lower: fence(number), upper: Some(fence(number + 1)) }
}

fn number(key: &[u8]) -> usize {
    std::str::from_utf8(&key[3..8]).unwrap().parse().unwrap()
}

/// A value that begins with `version`; its length changes with every second version.
fn value(version: u64) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    value.resize(8 + (version / 2 % 7) as usize * 30, 1);
    value
}

fn version(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

impl Fixture {
    /// Writes the keys that equal `me` modulo 2, each with rising versions.
    fn write(&self, me: usize) {
        let mut random = Random::new(me as u64);
        let mut seq = 1;
        while !self.over.load(Ordering::Relaxed) {
            let n = random.below(KEYS / 2) * 2 + me;
            let version = self.acknowledged[n].load(Ordering::Relaxed) + 1;
            let (key, value) = (key(n), value(version));
            if overwrite(&self.cache, space(0), &key, Some(&value)) {
                self.acknowledged[n].store(version, Ordering::SeqCst);
                continue;
            }
            let Some(token) = self.cache.reserve(space(0), &key, value.len()) else {
                thread::yield_now();
                continue;
            };
            apply(&self.cache, token, space(0), &key, Some(&value), seq);
            self.acknowledged[n].store(version, Ordering::SeqCst);
            seq += 1;
        }
    }

    fn read(&self, seed: u64) {
        let mut random = Random::new(seed);
        while !self.over.load(Ordering::Relaxed) {
            let n = random.below(KEYS);
            let least = self.acknowledged[n].load(Ordering::SeqCst);
            let found = match self.cache.get(0, &key(n), Purpose::Read, <[u8]>::to_vec) {
                RecordLookup::Value(value) => version(&value),
                RecordLookup::Tombstone => panic!("nothing is deleted"),
                RecordLookup::Missing(ticket) => {
                    let stored = self.pages[n / EACH].lock()[n % EACH];
                    thread::yield_now();
                    self.cache.admit_clean(0, &key(n), &value(stored), &ticket);
                    stored
                }
            };
            assert!(found >= least, "key {n}: read {found} after {least} was acknowledged");
        }
    }

    /// Reads a page's records with the dirty records over them, as a scan does.
    fn scan(&self, number_of_page: usize) {
        let numbers = number_of_page * EACH..(number_of_page + 1) * EACH;
        let least: Vec<u64> = self.acknowledged[numbers].iter().map(|version| version.load(Ordering::SeqCst)).collect();
        let dirty = self.cache.peek_all(space(0), &page(number_of_page));
        let mut seen = self.pages[number_of_page].lock().clone();
        for record in dirty.iter() {
            seen[number(record.key) % EACH] = version(record.value.unwrap());
        }
        least.iter().zip(&seen).for_each(|(least, seen)| assert!(seen >= least, "a scan saw {seen} after {least}"));
    }

    fn write_out(&self, seed: u64) {
        let mut random = Random::new(seed);
        while !self.over.load(Ordering::Relaxed) {
            let written = random.below(PAGES / 2) * 2 + (seed % 2) as usize;
            let (records, taken) = self.cache.begin_write(space(0), &page(written), random.below(4000));
            for record in records.iter() {
                self.pages[written].lock()[number(record.key) % EACH] = version(record.value.unwrap());
            }
            if random.one_in(8) {
                self.cache.abort_write(space(0), &taken);
            } else {
                self.cache.end_write(space(0), &taken, true);
            }
            self.scan(random.below(PAGES));
            self.write_outs.fetch_add(1, Ordering::Relaxed);
            if random.one_in(1000) {
                self.cache.shrink(1 << 18);
            }
        }
    }

    /// Whether there were many write-outs, hits and misses, and memory was given back.
    fn is_enough(&self) -> bool {
        let counts = self.cache.counts();
        let have_met = [counts.hits, counts.misses, self.write_outs.load(Ordering::Relaxed)];
        have_met.into_iter().all(|count| count > WRITE_OUTS) && counts.slabs_moved > 0
    }
}

#[test]
fn nobody_reads_less_than_was_acknowledged() {
    let (_memory, cache) = cache(3);
    let fixture = Fixture {
        cache,
        pages: (0..PAGES).map(|_| Mutex::new(vec![0; EACH])).collect(),
        acknowledged: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
        write_outs: AtomicU64::new(0),
        over: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        (0..2).for_each(|me| {
            drop(scope.spawn({
                let fixture = &fixture;
                move || fixture.write(me)
            }))
        });
        (2..4).for_each(|seed| {
            drop(scope.spawn({
                let fixture = &fixture;
                move || fixture.read(seed)
            }))
        });
        (4..6).for_each(|seed| {
            drop(scope.spawn({
                let fixture = &fixture;
                move || fixture.write_out(seed)
            }))
        });
        let clock = SystemClock::default();
        while !fixture.is_enough() && clock.now() < MAX_WAIT.as_nanos() as u64 {
            thread::sleep(Duration::from_millis(1));
        }
        fixture.over.store(true, Ordering::Relaxed);
    });
    check::check(&fixture.cache);
    (0..PAGES).for_each(|page| fixture.scan(page));
    assert!(fixture.is_enough(), "{:?}", fixture.cache.counts());
}
