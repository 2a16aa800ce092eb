//! Partitions with their delta maps, compared with a model of the whole keyspace.

use std::collections::BTreeSet;

use ecotone_sys::checksum::crc32c;
use rand::SeedableRng;

use super::*;
use crate::cold::delta_map::buckets_for;

/// A keyspace of partitions, and its expected records.
pub(super) struct Fixture {
    pub(super) disk: SimStorage,
    pub(super) environment: Environment,
    random: SmallRng,
    next: u32,
    until: u64,
    pub(super) runs: Runs,
    /// The newest of all records, tombstones included.
    pub(super) newest: Records,
    hash_of: fn(&[u8]) -> u64,
}

impl Fixture {
    pub(super) fn new(seed: u64, hash_of: fn(&[u8]) -> u64) -> Fixture {
        println!("seed {seed}");
        let disk = SimStorage::new(seed);
        Fixture {
            environment: environment(&disk),
            disk,
            random: SmallRng::seed_from_u64(seed),
            next: 0,
            until: 4096,
            runs: Runs::default(),
            newest: Records::new(),
            hash_of,
        }
    }

    fn name(&mut self) -> FileIdentity {
        self.next += 1;
        FileIdentity { number: self.next, birth: u64::from(self.next), ..NAME }
    }

    /// Adds a delta of random keys.
    pub(super) fn compact(&mut self, count: usize, keys: u32) {
        let mut records = Records::new();
        for _ in 0..count {
            let key = self.random.random_range(0..keys).to_be_bytes().to_vec();
            let value = (!self.random.random_bool(0.2)).then(|| self.until.to_le_bytes().to_vec());
            records.insert(((self.hash_of)(&key), key), value);
        }
        let (name, from) = (self.name(), self.until);
        self.until += 4096;
        let kind = RunKind::Delta { from, until: self.until };
        let (run, tags) = write(&self.environment, name, kind, 1024, &records).unwrap().unwrap();
        self.newest.extend(records);
        self.runs = self.runs.with_delta(&self.environment.memory, Arc::new(run), tags).unwrap();
    }

    /// Merges all records of the partition of a hash into its base, or into those of its halves. Meanwhile a delta of
    /// `meanwhile` records comes, if any.
    pub(super) fn merge_into_base(&mut self, hash: u64, halves: bool, meanwhile: usize) {
        let hash_range = self.runs.partition(hash).hash_range();
        let hash_ranges = hash_range.halves().filter(|_| halves).map_or_else(|| vec![hash_range], Vec::from);
        let living: Records =
            self.newest.iter().filter(|(_, v)| v.is_some()).map(|(k, v)| (k.clone(), v.clone())).collect();
        let (merged_until, mut parts) = (self.until, Vec::new());
        for hash_range in hash_ranges {
            let (name, kind) = (self.name(), RunKind::Base(hash_range));
            parts.push((
                hash_range,
                write(&self.environment, name, kind, 1024, &living).unwrap().map(|(run, _)| Arc::new(run)),
            ));
        }
        if meanwhile > 0 {
            self.compact(meanwhile, 2_000);
        }
        self.runs = self.runs.with_merged_base(&self.environment, &parts, merged_until);
    }

    /// Merges some adjacent deltas.
    pub(super) fn merge(&mut self) {
        let count = self.runs.deltas().len();
        if count < 2 {
            return;
        }
        let first = self.random.random_range(0..count - 1);
        let end = self.random.random_range(first + 2..=count);
        let goes: Vec<_> = self.runs.deltas().runs().cloned().collect();
        let mut records = Records::new();
        for run in &goes[first..end] {
            let window = self.environment.memory.lease_essential(Component::Frames, Size::Slab).unwrap();
            let mut cursor = Cursor::new(run.clone(), HashRange::ALL.hashes(), window);
            while cursor.advance(&self.hash_of).unwrap() {
                records.insert((cursor.hash(), cursor.key().to_vec()), cursor.value().map(<[u8]>::to_vec));
            }
        }
        let [RunKind::Delta { from, .. }, RunKind::Delta { until, .. }] =
            [&goes[first], &goes[end - 1]].map(|run| run.kind())
        else {
            panic!("a base is no delta")
        };
        let (name, kind) = (self.name(), RunKind::Delta { from, until });
        let merged =
            write(&self.environment, name, kind, 1024, &records).unwrap().map(|(run, tags)| (Arc::new(run), tags));
        self.runs = self.runs.with_merged(&self.environment.memory, first..end, merged).unwrap();
    }

    /// The same runs, opened again. No search has made their maps.
    pub(super) fn opened(&self, environment: &Environment) -> Runs {
        let deltas: Vec<_> = self.runs.deltas().runs().map(|run| run.name()).collect();
        let named = |partition: &Arc<Partition>| {
            ((partition.hash_range(), partition.base().map(|base| base.name())), partition.merged_until())
        };
        let partitions: Vec<_> = self.runs.partitions().map(named).collect();
        Runs::open(environment, &deltas, &partitions).unwrap()
    }

    /// Continues with the opened runs.
    pub(super) fn reopen(&mut self) {
        let opened = self.opened(&self.environment);
        let all = |runs: &Runs| runs.partitions().map(|partition| partition.delta_records()).collect::<Vec<_>>();
        if self.random.random_bool(0.5) {
            prepare(&opened);
            prepare(&self.runs);
            assert_eq!(all(&opened), all(&self.runs));
        }
        self.runs = opened;
    }

    /// Checks that every key, present or not, has the answer of the model.
    pub(super) fn check(&self, keys: u32) {
        let mut frame = frame(&self.environment);
        for key in (0..keys + 100).map(u32::to_be_bytes) {
            let hash = (self.hash_of)(&key);
            let partition = self.runs.partition(hash);
            assert!(partition.hash_range().has(hash));
            let mut value = Vec::new();
            let found = partition.find(hash, &key, &mut frame, &mut value).unwrap().then_some(value);
            assert_eq!(found.as_ref(), self.newest.get(&(hash, key.to_vec())).and_then(Option::as_ref));
        }
        assert!(self.problems().is_empty());
    }

    /// The problems that a full check finds.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let failed = &mut |error: ecotone_substrate::Error| {
            problems.push(error.to_string());
            Ok(())
        };
        Runs::check(|| &self.runs, &self.environment, &self.hash_of, failed).unwrap();
        problems
    }
}

/// Makes all maps.
fn prepare(runs: &Runs) {
    runs.partitions().for_each(|partition| partition.prepare().unwrap());
}

#[test]
fn random_deltas_base_merges_and_delta_merges_follow_the_model() {
    for seed in 0..20 {
        let mut fixture = Fixture::new(seed, hash);
        let keys = 2_000;
        for _ in 0..30 {
            match fixture.random.random_range(0..10) {
                0..3 => {
                    let (hash, halves) = (fixture.random.next_u64(), fixture.random.random_bool(0.3));
                    let meanwhile = fixture.random.random_range(0..2) * 100;
                    fixture.merge_into_base(hash, halves, meanwhile);
                }
                3 => fixture.merge(),
                4 => fixture.reopen(),
                _ => {
                    let count = fixture.random.random_range(1..600);
                    fixture.compact(count, keys);
                }
            }
        }
        fixture.check(keys);
    }
}

#[test]
fn a_delta_goes_when_every_partition_is_merged_beyond_it() {
    let mut fixture = Fixture::new(1, hash);
    let merge_into_base = |fixture: &mut Fixture, hash, meanwhile| {
        fixture.merge_into_base(hash, false, meanwhile);
        fixture.runs.deltas().len()
    };
    fixture.compact(500, 2_000);
    fixture.merge_into_base(0, true, 0);
    assert!(fixture.runs.deltas().is_empty() && fixture.runs.partitions().count() == 2);
    fixture.compact(500, 2_000);
    assert_eq!(merge_into_base(&mut fixture, 0, 0), 1, "the other half needs it");
    assert_eq!(merge_into_base(&mut fixture, u64::MAX, 0), 0);
    fixture.compact(500, 2_000);
    assert_eq!(merge_into_base(&mut fixture, 0, 100), 2);
    assert_eq!(
        merge_into_base(&mut fixture, u64::MAX, 0),
        1,
        "what came beside the first base merge is not in its base"
    );
    fixture.check(2_000);
    assert_eq!(merge_into_base(&mut fixture, 0, 0), 0);
    fixture.check(2_000);
}

#[test]
fn two_hundred_and_fifty_five_deltas_are_told_apart() {
    let mut fixture = Fixture::new(1, hash);
    (0..255).for_each(|_| fixture.compact(20, 500));
    fixture.check(500);
    assert_eq!(fixture.runs.deltas().len(), 255);
    // With so little memory that a map is made of sixteen deltas at a time.
    fixture.runs = fixture.opened(&fixture.disk.environment(DATABASE, 4 << 20));
    fixture.check(500);
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fixture.compact(1, 500)));
    assert!(refused.is_err(), "there is no number for another one");
}

/// Buckets with more slots than they can count send a search to every delta.
#[test]
fn keys_of_equal_hashes_crowd_a_bucket_and_are_found() {
    let mut fixture = Fixture::new(1, |key| hash(&key[3..4]) >> 62 << 62);
    (0..8).for_each(|_| fixture.compact(300, 600));
    fixture.check(600);
    fixture.reopen();
    fixture.check(600);
    fixture.merge_into_base(0, true, 0);
    fixture.compact(300, 600);
    fixture.merge();
    fixture.check(600);
}

/// A map is sized for the current base: the mean of its buckets stays right while the base grows.
#[test]
fn a_map_grows_with_its_base() {
    let mut fixture = Fixture::new(1, hash);
    fixture.compact(10, 50_000);
    fixture.merge_into_base(0, false, 0);
    for _ in 0..6 {
        fixture.compact(2_000, 50_000);
        fixture.merge_into_base(0, false, 0);
    }
    let records = fixture.runs.partition(0).base().unwrap().records();
    while fixture.runs.partition(0).delta_records() < records / 2 {
        fixture.compact(500, 50_000);
    }
    let (mut astray, mut asked) = (0, 0);
    for key in (50_000..60_000u32).map(u32::to_be_bytes) {
        let (hash, partition) = (hash(&key), fixture.runs.partition(hash(&key)));
        let mut search = partition.search(hash);
        while let Some((run, _)) = partition.next(&mut search) {
            astray += u64::from(matches!(run.kind(), RunKind::Delta { .. }));
        }
        asked += 1;
    }
    assert!(f64::from(astray as u32) / f64::from(asked) < 0.035, "{astray} of {asked} were led astray");
}

/// Hashes on both sides of the boundary between the first and the second of three buckets, which differ in the bits
/// that tags leave out.
fn near_a_boundary(key: &[u8]) -> u64 {
    0x5555_5555_5500_0000 | u64::from(crc32c(0, key)) & 0xff_ffff
}

#[test]
fn a_key_is_found_whose_bucket_the_lowest_bits_of_its_hash_would_decide() {
    let mut fixture = Fixture::new(1, near_a_boundary);
    fixture.compact(18, 2_000);
    assert_eq!(buckets_for(fixture.newest.len() as u64), 3);
    let buckets: BTreeSet<u64> = fixture.newest.keys().map(|(hash, _)| HashRange::ALL.part(*hash, 3)).collect();
    assert_eq!(buckets, BTreeSet::from([0, 1]));
    fixture.check(2_000);
    fixture.reopen();
    fixture.check(2_000);
}

/// The files are right, and yet a search would not find a record.
#[test]
fn a_check_notices_that_a_map_does_not_name_the_delta_of_a_record() {
    let mut fixture = Fixture::new(1, hash);
    fixture.compact(300, 2_000);
    let (runs, memory) = (Runs::default(), &fixture.environment.memory);
    let delta = fixture.runs.deltas().runs().next().unwrap().clone();
    let (mut tags, records) = (Tags::default(), fixture.newest.len());
    for (number, (hash, _)) in fixture.newest.keys().enumerate() {
        tags.push(memory, hash ^ u64::from(number + 1 == records) << 24).unwrap();
    }
    fixture.runs = runs.with_delta(memory, delta, tags).unwrap();
    let problems = fixture.problems();
    assert!(problems.len() == 1 && problems[0].contains("no search comes to a record"), "{problems:?}");
}
