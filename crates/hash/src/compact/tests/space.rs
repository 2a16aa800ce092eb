//! The cost of merges into the base: bytes written for an update, and bytes on disk for a record (hash.md, "Cold tier"
//! and "Back-pressure and space").

use ecotone_substrate::storage::FileKind;
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};

use super::*;

const RECORDS: u64 = 40_000;
/// Bytes of a key and its value, and of its record in the hot log.
const USUAL: u64 = 108;
const IN_LOG: f64 = 132.1;

/// A keyspace of records of 8 + 100 bytes, most of them in bases.
struct Loaded {
    fixture: Fixture,
    random: SmallRng,
    /// The most bytes on disk after any step.
    most_space: u64,
}

impl Loaded {
    fn new() -> Loaded {
        let mut fixture = Fixture::with(1, true, Sizes { bucket_bits: 11, frames: 16, copies: 0 });
        let limits =
            CompactionLimits { most_hot: 512 << 10, least_delta: 128 << 10, ..CompactionLimits::within(4 << 20) };
        fixture.limits = CompactionLimits { least_deltas: 0, largest_base: 256 << 10, ..limits };
        let mut loaded = Loaded { fixture, random: SmallRng::seed_from_u64(1), most_space: 0 };
        (0..RECORDS).for_each(|key| loaded.update(key));
        loaded
    }

    /// Updates a key; the oldest records go to the cold tier when the hot log is full.
    fn update(&mut self, key: u64) {
        let value: [u8; 100] = [self.random.random(); 100];
        self.fixture.set(&key.to_le_bytes(), &value);
        if self.fixture.compactor().compact_if_due().unwrap() {
            while self.fixture.compactor().merge_base_if_due().unwrap() {}
            self.most_space = self.most_space.max(self.fixture.disk.space_used());
        }
    }

    /// Updates these keys. Returns the bytes written to runs for each byte of records, and the fraction of updates that
    /// were appended.
    fn measure(&mut self, keys: impl Iterator<Item = u64>) -> (f64, f64) {
        let written = |fixture: &Fixture| fixture.environment.storage.counters_of(FileKind::Table).write_bytes as f64;
        let (before, tail, mut updates) = (written(&self.fixture), self.fixture.hash.chains.log.tail().get(), 0u64);
        self.most_space = 0;
        keys.for_each(|key| {
            self.update(key);
            updates += 1;
        });
        let appended = (self.fixture.hash.chains.log.tail().get() - tail) as f64 / IN_LOG / updates as f64;
        ((written(&self.fixture) - before) / (updates * USUAL) as f64, appended)
    }

    fn space(&self) -> f64 {
        self.most_space as f64 / (RECORDS * USUAL) as f64
    }
}

/// An appended record is written once to a delta, and causes two records to be written in merges; blocks and fences add
/// a tenth.
#[test]
fn an_appended_record_is_written_three_times_and_space_stays_below_1_6() {
    let mut loaded = Loaded::new();
    let mut names: Vec<u64> = (0..RECORDS).collect();
    names.shuffle(&mut SmallRng::seed_from_u64(2));
    let mut random = SmallRng::seed_from_u64(3);
    let uniform: Vec<u64> = (0..3 * RECORDS).map(|_| random.random_range(0..RECORDS)).collect();
    // Roughly Zipf: ranks whose logarithms are spread evenly.
    let skewed: Vec<u64> = (0..6 * RECORDS)
        .map(|_| names[((RECORDS as f64).powf(random.random::<f64>()) as usize).min(names.len() - 1)])
        .collect();
    for (name, keys) in [("uniform", uniform), ("skewed", skewed)] {
        let (written, appended) = loaded.measure(keys.into_iter());
        let space = loaded.space();
        eprintln!(
            "{name}: {appended:.3} of the updates appended, {written:.3} bytes written for a byte, {space:.3} of the \
            data on disk"
        );
        assert!(written <= 1.083 * 1.15 * 3.0 * appended, "{name}: {written} bytes for {appended}");
        assert!(space <= 1.6, "{name}: {space}");
    }
    loaded.fixture.check_runs();
}
