//! Every index kind over many sets of keys: bounds hold, searches are short, and memory is as lsm.md ("Tables") says.

use std::collections::BTreeSet;

use ecotone_substrate::{
    memory::{Component, Memory},
    table::FileIdentity,
};
use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};

use crate::table::{boundaries::Boundaries, index::*, prefix_compare::common_prefix_len};

const BLOCK: usize = 4096;
const NAME: FileIdentity = FileIdentity { database: 7, keyspace: 3, number: 9, birth: 41 };

/// An index after it was written and read, with the number of its bytes and of its partitions.
fn written(boundaries: &Boundaries, wanted: IndexOptions) -> (WholeIndex, usize, usize) {
    let memory = Memory::new(8 << 20);
    let pages = |bytes: &[u8]| Pages::of(&memory, Component::Other, bytes).unwrap();
    let Built { kind, bytes, partitions, .. } = build(boundaries, BLOCK, wanted);
    let (blocks, skip) =
        (boundaries.bounds().len() as u32, common_prefix_len(boundaries.first_key(), boundaries.last_key()));
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
    fn new(keys: impl IntoIterator<Item = Vec<u8>>, per_block: usize, wanted: IndexOptions) -> Set {
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

    /// The number of blocks that a search for a key reads. The search must end at the key's place.
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

    /// Checks the bounds for an absent key too: the key before lies no higher than the bounds, and the key behind no
    /// lower, so that a cursor finds that key.
    fn bounds_hold_around(&self, key: &[u8], left: Candidates) {
        let place = self.keys.partition_point(|other| **other < *key);
        let block = |place: usize| (place / self.per_block) as u32;
        assert!(place == 0 || block(place - 1) <= left.high, "{key:?}: {left:?}");
        assert!(place == self.keys.len() || block(place) >= left.low, "{key:?}: {left:?}");
    }

    /// Asserts that every key lies within its bounds. Gives the mean number of blocks read per key.
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

fn wanted(kind: IndexKind) -> IndexOptions {
    IndexOptions::of(kind, 2000)
}

/// A big-endian number behind a prefix, with a rest that is derived from the number.
fn number(prefix: &[u8], number: u64, length: usize) -> Vec<u8> {
    let mut key = [prefix, &number.to_be_bytes()].concat();
    while key.len() < prefix.len() + length {
        key.push(key[key.len() - 8].wrapping_mul(167).wrapping_add(13));
    }
    key
}

/// Sets of keys, each hard in some way.
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
            for kind in IndexKind::ALL {
                for per_block in [1, 2, 37] {
                    let set = Set::new(keys.clone(), per_block, wanted(kind));
                    let looks = set.looks();
                    assert!(
                        looks <= if set.index.kind() == IndexKind::Plr { 4.0 } else { 1.2 },
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
        for kind in IndexKind::ALL {
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

/// Records of a block of 4096, by the bytes of their keys (lsm.md, "Tables").
const PER_BLOCK: [(usize, usize); 4] = [(8, 37), (16, 34), (32, 30), (64, 24)];

/// The smallest tables have 2048 blocks.
fn uniform(length: usize, per_block: usize, kind: IndexKind) -> Set {
    let mut random = SmallRng::seed_from_u64(3);
    // A 160th of the key space: the part that a table of 8 MiB has in a keyspace of 10 million records.
    let keys = (0..2048 * per_block).map(|_| number(b"", random.random::<u64>() / 160, length));
    Set::new(keys, per_block, wanted(kind))
}

#[test]
fn an_index_takes_so_many_bytes_a_block_and_so_many_reads_a_key() {
    for (length, per_block) in PER_BLOCK {
        for (kind, most, looks) in [
            (IndexKind::Single, 4.5, 1.0),
            (IndexKind::Partitioned, 0.02, 1.0),
            (IndexKind::Plr, 0.8, 1.25),
            (IndexKind::Linear, 1.2, 1.01),
        ] {
            let set = uniform(length, per_block, kind);
            let (bytes, seen) = (set.bytes_a_block(), set.looks());
            eprintln!("keys of {length}, {kind:?}: {bytes} bytes a block, {seen} reads a key");
            assert_eq!(set.index.kind(), kind);
            // Its partitions take as much as a single index, in whole pages.
            assert!(kind != IndexKind::Partitioned || set.partitions == 3, "{} partitions", set.partitions);
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
    let sets = [400, 2000, 8000].map(|error| Set::new(keys.clone(), 37, IndexOptions::of(IndexKind::Plr, error)));
    let (bytes, looks) = (sets.each_ref().map(Set::bytes_a_block), sets.each_ref().map(Set::looks));
    assert!(bytes.is_sorted_by(|a, b| a > b) && looks.is_sorted(), "{bytes:?}, {looks:?}");
}

#[test]
fn keys_that_digests_do_not_tell_apart_get_separators() {
    let keys: Vec<Vec<u8>> = (0..5000_u32)
        .map(|at| [&b"the same eight bytes and more: "[..], &[at as u8 & 1; 12], &at.to_be_bytes()].concat())
        .collect();
    for kind in [IndexKind::Linear, IndexKind::Plr] {
        assert_eq!(Set::new(keys.clone(), 10, wanted(kind)).index.kind(), IndexKind::Single);
    }
}

/// Flips one bit in `one_in` of some bytes, one at a time; an odd `one_in` hits different bits in different bytes.
/// `parse` accepts or refuses the bytes; it refuses at least once.
fn flipped(bytes: &[u8], one_in: usize, mut parse: impl FnMut(Pages) -> result::Result<(), Malformed>) {
    let (memory, mut refused) = (Memory::new(8 << 20), 0);
    for bit in (0..8 * bytes.len()).step_by(one_in) {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        refused += u32::from(parse(Pages::of(&memory, Component::Other, &bytes).unwrap()).is_err());
    }
    assert!(refused > 0);
}

/// An index with a flipped bit is refused, or every search in it ends.
#[test]
fn a_damaged_index_is_refused_or_harmless() {
    let mut random = SmallRng::seed_from_u64(5);
    let keys: Vec<Vec<u8>> =
        (0..2000).map(|_| number(b"", random.random(), 8)).collect::<BTreeSet<_>>().into_iter().collect();
    let mut boundaries = Boundaries::default();
    keys.chunks(10).for_each(|block| boundaries.push(&block[0], &block[9], 10));
    let shape = Shape { blocks: 200, block: BLOCK, skip: 0, partitions: 0 };
    for kind in [IndexKind::Single, IndexKind::Plr, IndexKind::Linear] {
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

/// The same for partitions, and for the separators between them. A partition's own checksum detects every flipped bit.
#[test]
#[ignore = "long"]
fn a_damaged_partition_is_refused_or_harmless() {
    let keys: Vec<Vec<u8>> =
        (0..12_u8).map(|number| [&[b'a' + number.div_ceil(2); 900][..], &[number]].concat()).collect();
    let mut boundaries = Boundaries::default();
    keys.chunks(2).for_each(|block| boundaries.push(&block[0], &block[1], 2));
    let built = build(&boundaries, BLOCK, wanted(IndexKind::Partitioned));
    let (partitions, place) = (built.partitions, NAME.place(6));
    assert_eq!(partitions.len(), 2, "one has the last block alone");
    flipped(&built.bytes, 1, |pages| {
        let shape = Shape { blocks: 6, block: BLOCK, skip: 0, partitions: 2 };
        let index = Index::parse(IndexKind::Partitioned, pages, built.bytes.len(), shape)?;
        keys.iter().for_each(|key| assert!(matches!(index.locate(key), Located::Partition(0..2))));
        Ok(())
    });
    let memory = Memory::new(8 << 20);
    for mut partition in partitions {
        // The range includes a few of the zeros behind the used bytes.
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

/// Separators are mostly small compared with a page. So partitions are full, and together they take as much as a single
/// index.
#[test]
fn partitions_have_together_what_a_single_index_has() {
    let mut random = SmallRng::seed_from_u64(6);
    for (name, keys) in sets(&mut random, 20_000) {
        let single = Set::new(keys.clone(), 2, wanted(IndexKind::Single)).bytes.div_ceil(BLOCK);
        let set = Set::new(keys, 2, wanted(IndexKind::Partitioned));
        assert!(set.index.kind() == IndexKind::Partitioned && set.looks() == 1.0, "{name}");
        assert!(
            (single..=single + single / 8 + 1).contains(&set.partitions),
            "{name}: {} for {single} pages",
            set.partitions
        );
    }
}

/// The cheapest kind for the same keys, from a table that is read often to one that is never read.
#[test]
fn what_costs_least_follows_from_how_often_a_table_is_read() {
    let of = |keys: &[Vec<u8>], read_frequency: f64| {
        Set::new(keys.to_vec(), 37, IndexOptions { kind: None, error: 2000, read_frequency }).index.kind()
    };
    let numbers = uniform(8, 37, IndexKind::Single).keys;
    let kinds = [10.0, 1.0, 0.01, 0.0003, 0.00001, 0.0].map(|read_frequency| of(&numbers, read_frequency));
    assert_eq!(
        kinds,
        [
            IndexKind::Single,
            IndexKind::Single,
            IndexKind::Linear,
            IndexKind::Plr,
            IndexKind::Partitioned,
            IndexKind::Partitioned
        ]
    );
    // No line fits these keys.
    let mut random = SmallRng::seed_from_u64(7);
    let paths = sets(&mut random, 20_000).into_iter().find(|(name, _)| *name == "paths").expect("there are paths").1;
    assert_eq!(
        [1.0, 0.01, 0.0001].map(|read_frequency| of(&paths, read_frequency)),
        [IndexKind::Single, IndexKind::Single, IndexKind::Partitioned]
    );
    assert_eq!(of(&numbers[..500], 0.0), IndexKind::Single, "a cell is all that any kind takes");
}

/// The expected extra reads equal the measured ones.
#[test]
fn boundaries_tell_how_many_reads_are_in_vain() {
    for (length, per_block) in PER_BLOCK {
        for kind in IndexKind::ALL {
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
