//! Partitions with their delta maps, against a model of the whole keyspace.

use rand::SeedableRng;

use super::*;

/// A keyspace of partitions, and what should be in it.
struct World {
    environment: Environment,
    random: SmallRng,
    bits: u8,
    next: u32,
    until: u64,
    deltas: Arc<Deltas>,
    partitions: Vec<Partition>,
    /// The newest of all records, tombstones included.
    newest: Records,
    hash_of: fn(&[u8]) -> u64,
}

impl World {
    fn new(seed: u64, bits: u8, hash_of: fn(&[u8]) -> u64) -> World {
        println!("seed {seed}");
        let partitions =
            (0..1_u32 << bits).map(|number| Partition::new(Stretch::new(bits, number as u8).unwrap(), Vec::new(), 0));
        World {
            environment: environment(&SimStorage::new(seed)),
            random: SmallRng::seed_from_u64(seed),
            bits,
            next: 0,
            until: 4096,
            deltas: Arc::default(),
            partitions: partitions.collect(),
            newest: Records::new(),
            hash_of,
        }
    }

    fn name(&mut self) -> Name {
        self.next += 1;
        Name { number: self.next, birth: u64::from(self.next), ..NAME }
    }

    /// A delta of some keys, which every partition gets.
    fn compact(&mut self, count: usize, keys: u32) {
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
        let (deltas, slot) = self.deltas.with(Arc::new(run));
        self.deltas = Arc::new(deltas);
        for partition in &mut self.partitions {
            *partition = partition.with_deltas(&self.environment.memory, self.deltas.clone(), &[(slot, &tags)]).unwrap();
        }
    }

    /// All that a partition has becomes its base, or two.
    fn fold(&mut self, number: usize, halves: bool) {
        let (bits, number_8) = (self.bits + u8::from(halves), number as u8);
        let stretches: Vec<_> = if halves { vec![2 * number_8, 2 * number_8 + 1] } else { vec![number_8] };
        let living: Records = self.newest.iter().filter(|(_, v)| v.is_some()).map(|(k, v)| (k.clone(), v.clone())).collect();
        let mut bases = Vec::new();
        for stretch in stretches {
            let (name, kind) = (self.name(), RunKind::Base(Stretch::new(bits, stretch).unwrap()));
            bases.extend(write(&self.environment, name, kind, 1024, &living).unwrap().map(|(run, _)| Arc::new(run)));
        }
        self.partitions[number] = self.partitions[number].after_fold(&self.environment.memory, bases, self.until).unwrap();
    }

    /// Every key, there or not, has the answer of the model.
    fn check(&self, keys: u32) {
        let mut frame = frame(&self.environment);
        for key in (0..keys + 100).map(u32::to_be_bytes) {
            let hash = (self.hash_of)(&key);
            let partition = self.partitions.iter().find(|partition| partition.stretch().has(hash)).unwrap();
            let mut value = Vec::new();
            let found = partition.find(hash, &key, &mut frame, &mut value).unwrap().then_some(value);
            assert_eq!(found.as_ref(), self.newest.get(&(hash, key.to_vec())).and_then(Option::as_ref));
        }
    }
}

#[test]
fn random_deltas_and_folds_follow_the_model() {
    for seed in 0..20 {
        let mut world = World::new(seed, [0, 1, 2][seed as usize % 3], hash);
        let keys = 2_000;
        for _ in 0..30 {
            match world.random.random_range(0..4) {
                0 => {
                    let (number, halves) = (world.random.random_range(0..world.partitions.len()), world.random.random_bool(0.3));
                    world.fold(number, halves);
                }
                _ => {
                    let count = world.random.random_range(1..600);
                    world.compact(count, keys);
                }
            }
        }
        world.check(keys);
    }
}

#[test]
fn two_hundred_and_fifty_five_deltas_are_told_apart() {
    let mut world = World::new(1, 0, hash);
    (0..255).for_each(|_| world.compact(20, 500));
    world.check(500);
    assert_eq!(world.deltas.len(), 255);
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.compact(1, 500)));
    assert!(refused.is_err(), "there is no number for another one");
}

/// Buckets with more slots than they can count send a search to every delta.
#[test]
fn keys_of_equal_hashes_crowd_a_bucket_and_are_found() {
    let mut world = World::new(1, 0, |key| hash(&key[3..4]) >> 62 << 62);
    (0..8).for_each(|_| world.compact(300, 600));
    world.check(600);
    world.fold(0, true);
    world.compact(300, 600);
    world.check(600);
}

/// A map made of the tags of all deltas at once is the one that grew with them.
#[test]
fn a_map_from_tags_alone_answers_as_the_one_that_grew() {
    let mut world = World::new(1, 1, hash);
    (0..20).for_each(|_| world.compact(300, 2_000));
    let mut deltas = Deltas::default();
    let mut tags = Vec::new();
    for number in 1..=20 {
        let name = Name { number, birth: u64::from(number), ..NAME };
        let run = Run::open(&world.environment, name).unwrap();
        let its = run.tags(&world.environment).unwrap();
        let (more, slot) = deltas.with(Arc::new(run));
        deltas = more;
        tags.push((slot, its));
    }
    let tags: Vec<_> = tags.iter().map(|(slot, tags)| (*slot, tags)).collect();
    let deltas = Arc::new(deltas);
    for partition in &mut world.partitions {
        let fresh = Partition::new(partition.stretch(), Vec::new(), 0);
        let fresh = fresh.with_deltas(&world.environment.memory, deltas.clone(), &tags).unwrap();
        assert_eq!(fresh.delta_records(), partition.delta_records());
        *partition = fresh;
    }
    world.check(2_000);
}
