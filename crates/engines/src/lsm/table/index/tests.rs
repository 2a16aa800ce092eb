//! Every kind over many sets of keys: bounds hold, searches are short, and it takes the memory that decision 11 says.

use std::collections::BTreeSet;

use ecotone_substrate::{
    memory::{Component, Memory},
    table::Name,
};
use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};

use super::{
    super::{boundaries::Boundaries, rank::common},
    *,
};

const BLOCK: usize = 4096;
const NAME: Name = Name { database: 7, keyspace: 3, number: 9, birth: 41 };

/// An index as it is after it was written and read; the number of its bytes, and that of its partitions.
fn written(boundaries: &Boundaries, wanted: Wanted) -> (WholeIndex, usize, usize) {
    let memory = Memory::new(8 << 20);
    let pages = |bytes: &[u8]| Pages::of(&memory, Component::Other, bytes).unwrap();
    let Built { kind, bytes, partitions, .. } = build(boundaries, BLOCK, wanted);
    let (blocks, skip) = (boundaries.bounds().len() as u32, common(boundaries.first_key(), boundaries.last_key()));
    let shape = Shape { blocks, block: BLOCK, skip, partitions: partitions.len() as u32 };
    let index = Index::parse(kind, pages(&bytes), bytes.len(), shape).unwrap();
    let partition = |(number, mut partition): (u32, Vec<u8>)| {
        let place = NAME.place(blocks + number);
        seal(&mut partition, place);
        Partition::parse(pages(&partition), place, blocks).unwrap()
    };
    let count = partitions.len();
    (WholeIndex::new(index, (0..).zip(partitions).map(partition).collect()), bytes.len(), count)
}

/// Keys in blocks, and an index over them.
struct Set {
    keys: Vec<Vec<u8>>,
    per_block: usize,
    index: WholeIndex,
    bytes: usize,
    partitions: usize,
}

impl Set {
    fn new(keys: impl IntoIterator<Item = Vec<u8>>, per_block: usize, wanted: Wanted) -> Set {
        let keys: Vec<Vec<u8>> = keys.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let mut boundaries = Boundaries::default();
        for block in keys.chunks(per_block) {
            boundaries.push(&block[0], &block[block.len() - 1], block.len() as u32);
        }
        let (index, bytes, partitions) = written(&boundaries, wanted);
        Set { keys, per_block, index, bytes, partitions }
    }

    fn block(&self, block: u32) -> &[Vec<u8>] {
        let start = block as usize * self.per_block;
        &self.keys[start..self.keys.len().min(start + self.per_block)]
    }

    /// The blocks that a search for a key looks at. It ends where the key is or would be.
    fn look(&self, key: &[u8]) -> usize {
        let (mut left, mut looks) = (self.index.locate(key), 0);
        self.bounds_hold_around(key, left);
        loop {
            looks += 1;
            let block = self.block(left.first);
            let goes_on =
                if *key < *block[0] { left.go_down() } else { *key > *block[block.len() - 1] && left.go_up() };
            if !goes_on {
                let has = block.binary_search_by(|other| other.as_slice().cmp(key)).is_ok();
                let there = self.keys.binary_search_by(|other| other.as_slice().cmp(key)).is_ok();
                assert_eq!(has, there, "{key:?}");
                return looks;
            }
        }
    }

    /// Also of a key that is not there: the key before lies no higher than its bounds, and the one behind no lower, so
    /// that a cursor finds that one.
    fn bounds_hold_around(&self, key: &[u8], left: Candidates) {
        let place = self.keys.partition_point(|other| **other < *key);
        let block = |place: usize| (place / self.per_block) as u32;
        assert!(place == 0 || block(place - 1) <= left.high, "{key:?}: {left:?}");
        assert!(place == self.keys.len() || block(place) >= left.low, "{key:?}: {left:?}");
    }

    /// Every key lies within its bounds; blocks looked at for each key on average.
    fn looks(&self) -> f64 {
        let mut looks = 0;
        for (place, key) in self.keys.iter().enumerate() {
            let Candidates { first, low, high, .. } = self.index.locate(key);
            let block = (place / self.per_block) as u32;
            assert!(
                (low..=high).contains(&first) && (low..=high).contains(&block),
                "{key:?}: {block} in {low}..={high}"
            );
            looks += self.look(key);
        }
        looks as f64 / self.keys.len() as f64
    }

    fn bytes_a_block(&self) -> f64 {
        self.bytes as f64 / self.keys.len().div_ceil(self.per_block) as f64
    }
}

fn wanted(kind: Kind) -> Wanted {
    Wanted::of(kind, 2000)
}

/// Big-endian numbers behind a prefix, with a rest that follows from them.
fn number(prefix: &[u8], number: u64, length: usize) -> Vec<u8> {
    let mut key = [prefix, &number.to_be_bytes()].concat();
    while key.len() < prefix.len() + length {
        key.push(key[key.len() - 8].wrapping_mul(167).wrapping_add(13));
    }
    key
}

/// Sets of so many keys, all of them hard in some way.
fn sets(random: &mut SmallRng, count: usize) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let mut uniform = |length| (0..count).map(|_| number(b"", random.random(), length)).collect::<Vec<_>>();
    let (short, long) = (uniform(8), uniform(40));
    let dense = (0..count as u64).map(|at| number(b"a prefix that all share/", 7_000_000 + at, 8)).collect();
    let mut at = 0_u64;
    let clusters = (0..count).map(|_| {
        at += if random.random_bool(0.002) { random.random_range(0..1 << 56) } else { random.random_range(1..4) };
        number(b"", at, 16)
    });
    let clusters = clusters.collect();
    let same = (0..count)
        .map(|at| number(b"0123456789", 5, 8).into_iter().chain((at as u32).to_be_bytes()).collect())
        .collect();
    let few = (0..count)
        .map(|at| number(b"", at as u64 % 7, 8).into_iter().chain((at as u32).to_be_bytes()).collect())
        .collect();
    let mixed = (0..count).map(|_| {
        let length = if random.random_bool(0.1) { random.random_range(1..1025) } else { random.random_range(1..12) };
        let mut key = vec![0; length];
        random.fill_bytes(&mut key);
        key.iter_mut().for_each(|byte| *byte &= 0x81);
        key
    });
    let mixed = mixed.collect();
    let paths = (0..count).map(|_| {
        let part = |random: &mut SmallRng| {
            ["share", "lib", "doc", "python3", "x86_64-linux-gnu", "locale"][random.random_range(0..6)]
        };
        let path: Vec<String> = (0..6).map(|_| format!("{}/", part(random))).collect();
        format!("usr/{}{:05}", path.concat(), random.random_range(0..100_000)).into_bytes()
    });
    let paths = paths.collect();
    let ends = (0..count as u64).map(|at| number(b"", if at % 2 == 0 { at } else { u64::MAX - at }, 8)).collect();
    vec![
        ("uniform", short),
        ("long", long),
        ("dense", dense),
        ("clusters", clusters),
        ("same digests", same),
        ("few digests", few),
        ("mixed lengths", mixed),
        ("paths", paths),
        ("both ends", ends),
    ]
}

#[test]
#[ignore = "long"]
fn every_key_of_every_set_lies_within_its_bounds() {
    let mut random = SmallRng::seed_from_u64(1);
    for count in [1, 2, 5, 33, 100, 3000, 20_000] {
        for (name, keys) in sets(&mut random, count) {
            for kind in Kind::ALL {
                for per_block in [1, 2, 37] {
                    let set = Set::new(keys.clone(), per_block, wanted(kind));
                    let looks = set.looks();
                    assert!(
                        looks <= if set.index.kind() == Kind::Plr { 4.0 } else { 1.2 },
                        "{name}, {count}, {kind:?}: {looks} looks"
                    );
                }
            }
        }
    }
}

#[test]
fn searches_for_keys_that_are_not_there_end() {
    let mut random = SmallRng::seed_from_u64(2);
    for (_, keys) in sets(&mut random, 5000) {
        for kind in Kind::ALL {
            let set = Set::new(keys.clone(), 16, wanted(kind));
            let (first, last) = (&set.keys[0], &set.keys[set.keys.len() - 1]);
            for place in 0..set.keys.len() - 1 {
                let near = [set.keys[place].clone(), vec![0]].concat();
                let mut other = set.keys[place].clone();
                let at = random.random_range(0..other.len());
                other[at] = random.random();
                for key in [near, other] {
                    if *first <= key && key <= *last {
                        set.look(&key);
                    }
                }
            }
        }
    }
}

/// Records of a block of 4096, by the bytes of their keys (decision 11, "What it comes to").
const PER_BLOCK: [(usize, usize); 4] = [(8, 37), (16, 34), (32, 30), (64, 24)];

/// The smallest tables have 2048 blocks.
fn uniform(length: usize, per_block: usize, kind: Kind) -> Set {
    let mut random = SmallRng::seed_from_u64(3);
    // A 160th of the keys, which a table of 8 MiB of 10 million has.
    let keys = (0..2048 * per_block).map(|_| number(b"", random.random::<u64>() / 160, length));
    Set::new(keys, per_block, wanted(kind))
}

#[test]
fn an_index_takes_so_many_bytes_a_block_and_so_many_reads_a_key() {
    for (length, per_block) in PER_BLOCK {
        for (kind, most, looks) in [
            (Kind::Single, 4.5, 1.0),
            (Kind::Partitioned, 0.02, 1.0),
            (Kind::Plr, 0.8, 1.25),
            (Kind::Linear, 1.2, 1.01),
        ] {
            let set = uniform(length, per_block, kind);
            let (bytes, seen) = (set.bytes_a_block(), set.looks());
            eprintln!("keys of {length}, {kind:?}: {bytes} bytes a block, {seen} reads a key");
            assert_eq!(set.index.kind(), kind);
            // What is not in memory is what a single index has, in whole pages.
            assert!(kind != Kind::Partitioned || set.partitions == 3, "{} partitions", set.partitions);
            assert!(
                bytes <= most && seen <= looks,
                "keys of {length}, {kind:?}: {bytes} bytes a block, {seen} reads a key"
            );
        }
    }
}

#[test]
fn a_smaller_error_takes_more_segments_and_fewer_reads() {
    let mut random = SmallRng::seed_from_u64(4);
    let keys: Vec<Vec<u8>> = (0..75_000).map(|_| number(b"", random.random(), 8)).collect();
    let sets = [400, 2000, 8000].map(|error| Set::new(keys.clone(), 37, Wanted::of(Kind::Plr, error)));
    let (bytes, looks) = (sets.each_ref().map(Set::bytes_a_block), sets.each_ref().map(Set::looks));
    assert!(bytes.is_sorted_by(|a, b| a > b) && looks.is_sorted(), "{bytes:?}, {looks:?}");
}

#[test]
fn keys_that_digests_do_not_tell_apart_get_separators() {
    let keys: Vec<Vec<u8>> = (0..5000_u32)
        .map(|at| [&b"the same eight bytes and more: "[..], &[at as u8 & 1; 12], &at.to_be_bytes()].concat())
        .collect();
    for kind in [Kind::Linear, Kind::Plr] {
        assert_eq!(Set::new(keys.clone(), 10, wanted(kind)).index.kind(), Kind::Single);
    }
}

/// One bit in `one_in` of some bytes flipped in turn: one odd number has others in each byte. `parse` takes them or
/// refuses them, which it does at least once.
fn flipped(bytes: &[u8], one_in: usize, mut parse: impl FnMut(Pages) -> result::Result<(), Malformed>) {
    let (memory, mut refused) = (Memory::new(8 << 20), 0);
    for bit in (0..8 * bytes.len()).step_by(one_in) {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        refused += u32::from(parse(Pages::of(&memory, Component::Other, &bytes).unwrap()).is_err());
    }
    assert!(refused > 0);
}

/// A whole index with a flipped bit: refused, or one with which every search ends.
#[test]
fn a_damaged_index_is_refused_or_harmless() {
    let mut random = SmallRng::seed_from_u64(5);
    let keys: Vec<Vec<u8>> =
        (0..2000).map(|_| number(b"", random.random(), 8)).collect::<BTreeSet<_>>().into_iter().collect();
    let mut boundaries = Boundaries::default();
    keys.chunks(10).for_each(|block| boundaries.push(&block[0], &block[9], 10));
    let shape = Shape { blocks: 200, block: BLOCK, skip: 0, partitions: 0 };
    for kind in [Kind::Single, Kind::Plr, Kind::Linear] {
        let built = build(&boundaries, BLOCK, wanted(kind));
        flipped(&built.bytes, 1, |pages| {
            let index = Index::parse(kind, pages, built.bytes.len(), shape)?;
            keys.iter().step_by(97).for_each(|key| {
                let Located::Blocks(Candidates { first, low, high, .. }) = index.locate(key) else {
                    panic!("{kind:?}")
                };
                assert!(low <= first && first <= high && high < 200);
            });
            Ok(())
        });
    }
}

/// The same of partitions, and of what is between them. With its checksum no flipped bit is missed.
#[test]
#[ignore = "long"]
fn a_damaged_partition_is_refused_or_harmless() {
    let keys: Vec<Vec<u8>> =
        (0..12_u8).map(|number| [&[b'a' + number.div_ceil(2); 900][..], &[number]].concat()).collect();
    let mut boundaries = Boundaries::default();
    keys.chunks(2).for_each(|block| boundaries.push(&block[0], &block[1], 2));
    let built = build(&boundaries, BLOCK, wanted(Kind::Partitioned));
    let (partitions, place) = (built.partitions, NAME.place(6));
    assert_eq!(partitions.len(), 2, "one has the last block alone");
    flipped(&built.bytes, 1, |pages| {
        let shape = Shape { blocks: 6, block: BLOCK, skip: 0, partitions: 2 };
        let index = Index::parse(Kind::Partitioned, pages, built.bytes.len(), shape)?;
        keys.iter().for_each(|key| assert!(matches!(index.locate(key), Located::Partition(0..2))));
        Ok(())
    });
    let memory = Memory::new(8 << 20);
    for mut partition in partitions {
        // And a few of the zeros behind.
        let used = 8 + partition.iter().rposition(|byte| *byte != 0).expect("it has blocks");
        flipped(&partition[..used], 3, |pages| {
            let mut bytes = pages.page(0).to_vec();
            seal(&mut bytes, place);
            let pages = Pages::of(&memory, Component::Other, &bytes).unwrap();
            let partition = Partition::parse(pages, place, 6)?;
            keys.iter().for_each(|key| assert!(partition.locate(key).high < 6));
            Ok(())
        });
        seal(&mut partition, place);
        flipped(&partition[..used], 7, |pages| {
            let parsed = Partition::parse(pages, place, 6);
            assert!(parsed.is_err(), "a flipped bit is missed");
            parsed.map(drop)
        });
    }
}

/// Separators are mostly small beside a page: so partitions are full, and together they are what a single index is.
#[test]
fn partitions_have_together_what_a_single_index_has() {
    let mut random = SmallRng::seed_from_u64(6);
    for (name, keys) in sets(&mut random, 20_000) {
        let single = Set::new(keys.clone(), 2, wanted(Kind::Single)).bytes.div_ceil(BLOCK);
        let set = Set::new(keys, 2, wanted(Kind::Partitioned));
        assert!(set.index.kind() == Kind::Partitioned && set.looks() == 1.0, "{name}");
        assert!(
            (single..=single + single / 8 + 1).contains(&set.partitions),
            "{name}: {} for {single} pages",
            set.partitions
        );
    }
}

/// Bytes and reads in vain of all kinds over the same keys: from a table that is read much to one that is not read at
/// all.
#[test]
fn what_costs_least_follows_from_how_often_a_table_is_read() {
    let of = |keys: &[Vec<u8>], heat: f64| {
        Set::new(keys.to_vec(), 37, Wanted { kind: None, error: 2000, heat }).index.kind()
    };
    let numbers = uniform(8, 37, Kind::Single).keys;
    let kinds = [10.0, 1.0, 0.01, 0.0003, 0.00001, 0.0].map(|heat| of(&numbers, heat));
    assert_eq!(kinds, [Kind::Single, Kind::Single, Kind::Linear, Kind::Plr, Kind::Partitioned, Kind::Partitioned]);
    // No line comes near these.
    let mut random = SmallRng::seed_from_u64(7);
    let paths = sets(&mut random, 20_000).into_iter().find(|(name, _)| *name == "paths").expect("there are paths").1;
    assert_eq!([1.0, 0.01, 0.0001].map(|heat| of(&paths, heat)), [Kind::Single, Kind::Single, Kind::Partitioned]);
    assert_eq!(of(&numbers[..500], 0.0), Kind::Single, "a cell is all that any kind takes");
}

/// What is expected of reads in vain is what there is of them.
#[test]
fn boundaries_tell_how_many_reads_are_in_vain() {
    for (length, per_block) in PER_BLOCK {
        for kind in Kind::ALL {
            let set = uniform(length, per_block, kind);
            let mut boundaries = Boundaries::default();
            set.keys
                .chunks(per_block)
                .for_each(|block| boundaries.push(&block[0], &block[block.len() - 1], block.len() as u32));
            let (told, seen) = (build(&boundaries, BLOCK, wanted(kind)).in_vain, set.looks() - 1.0);
            assert!((told - seen).abs() <= 0.002 + seen / 5.0, "keys of {length}, {kind:?}: {told} told, {seen} seen");
        }
    }
}
