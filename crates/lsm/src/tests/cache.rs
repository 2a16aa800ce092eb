//! The table cache: lazy loading and eviction of indexes and filters (lsm-protocol.md, invariant 19).

use std::{sync::Arc, thread};

use ecotone_engine::contract::{Engine, Get};
use ecotone_substrate::{
    Result,
    limits::PAGE,
    memory::{Component, Memory},
};
use ecotone_sys::{
    chunk::{Block, CELL_BYTES, Size, cut_bytes},
    epoch::Domain,
};
use ecotone_testkit::engine::stat;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::{
    cache::{
        lazy_slot::LazySlot,
        table_cache::{CacheEntryKind, TableCache},
    },
    keyspace::LsmKeyspace,
    table::IndexKind,
    tests::fixture::{ALL, Fixture, collect, expected, key},
    tuning::Tuning,
    version::TableMeta,
};

const KEYS: u32 = 30_000;
const THREADS: u64 = 4;

fn value(number: u32) -> [u8; 100] {
    [number as u8; 100]
}

/// A keyspace of many small tables, each with an index of a page, none of which is in memory.
fn filled(fixture: &Fixture) -> Arc<LsmKeyspace> {
    for number in 0..KEYS {
        fixture.write(&key(number), Some(&value(number)));
        while fixture.environment.scheduler.run_one() {}
    }
    fixture.reopened()
}

fn tables(keyspace: &Arc<LsmKeyspace>) -> usize {
    stat(&keyspace.stats(), "tables") as usize
}

/// Bytes of all indexes and filters.
fn resident(fixture: &Fixture) -> usize {
    fixture.environment.memory.used(&[Component::TableIndex, Component::Filter])
}

/// Reads present and absent keys in random order.
fn read(keyspace: &Arc<LsmKeyspace>, seed: u64, times: u32) {
    let (mut random, mut found) = (SmallRng::seed_from_u64(seed), Vec::new());
    for _ in 0..times {
        let number = random.random_range(0..KEYS + KEYS / 10);
        let is_there = keyspace.get_into(&key(number), &mut found).expect("what is needed is loaded");
        assert_eq!(is_there, number < KEYS);
        assert!(!is_there || found == value(number));
    }
}

/// Takes all memory except for some slabs.
fn leave(memory: &Memory, slabs: usize) -> Vec<Block> {
    let mut taken = Vec::new();
    for size in [Size::Chunk, Size::Slab] {
        taken.extend(std::iter::from_fn(|| memory.lease_essential(Component::Other, size).ok()));
    }
    let rest = std::iter::from_fn(|| memory.lease_essential(Component::Other, Size::Frame).ok()).collect::<Vec<_>>();
    assert!((0..slabs).all(|_| taken.pop().is_some_and(|block| block.len() == Size::Slab.bytes())), "there are slabs");
    taken.extend(rest);
    taken
}

/// Indexes of small tables share frames.
#[test]
fn an_index_has_memory_for_what_it_uses() {
    for kind in [IndexKind::Single, IndexKind::Plr, IndexKind::Linear] {
        let fixture = Fixture::new(1, kind);
        let keyspace = filled(&fixture);
        read(&keyspace, 1, 20_000);
        let (loads, bytes) =
            (stat(&keyspace.stats(), "index_loads") as usize, stat(&keyspace.stats(), "index_bytes") as usize);
        assert_eq!(fixture.environment.memory.used(&[Component::TableIndex]), bytes, "{kind:?}");
        assert!(
            bytes >= loads * CELL_BYTES && bytes <= loads * 3 * CELL_BYTES,
            "{kind:?}: {bytes} bytes of {loads} indexes"
        );
    }
}

#[test]
fn with_ample_memory_each_part_is_loaded_once() {
    let fixture = Fixture::new(1, IndexKind::Linear);
    let keyspace = filled(&fixture);
    assert_eq!((resident(&fixture), stat(&keyspace.stats(), "index_loads")), (0, 0));
    (0..KEYS).for_each(|number| assert_eq!(keyspace.get(&key(number)).unwrap(), Some(value(number).to_vec())));
    read(&keyspace, 1, KEYS);
    assert_eq!(stat(&keyspace.stats(), "index_loads") as usize, tables(&keyspace));
    let filters = stat(&keyspace.stats(), "filter_loads");
    let bytes = stat(&keyspace.stats(), "filter_bytes");
    assert_eq!(bytes as usize, fixture.environment.memory.used(&[Component::Filter]));
    assert!(
        filters > 0 && (filters * CELL_BYTES as u64..=filters * PAGE as u64).contains(&bytes),
        "{bytes} of {filters}"
    );
}

/// The free memory has room for a third of the indexes. Concurrent readers find all keys nevertheless.
#[test]
fn indexes_of_three_times_the_memory_that_is_left_are_loaded_again_and_again() {
    let fixture = Fixture::new(1, IndexKind::Single);
    let keyspace = filled(&fixture);
    let slabs = 1;
    assert!(
        tables(&keyspace) * CELL_BYTES > 3 * (Size::Slab.bytes() - 2 * THREADS as usize * PAGE),
        "each reads a block and an index"
    );
    let _taken = leave(&fixture.environment.memory, slabs);
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let keyspace = &keyspace;
            scope.spawn(move || read(keyspace, seed, KEYS / 4));
        }
    });
    assert!(resident(&fixture) <= slabs * Size::Slab.bytes());
    let loads = stat(&keyspace.stats(), "index_loads") as usize;
    assert!(loads > 2 * tables(&keyspace), "{loads} loads of {} indexes", tables(&keyspace));
    let all = collect(&keyspace, ALL, false);
    let model = (0..KEYS).map(|number| (key(number).to_vec(), value(number).to_vec())).collect();
    assert!(all == expected(&model, &ALL));
}

#[test]
fn a_capacity_in_bytes_is_kept() {
    const CAPACITY: usize = 12 * PAGE;
    let fixture = Fixture::with_table_cache(1, IndexKind::Linear, Tuning::TINY, CAPACITY);
    let keyspace = filled(&fixture);
    for seed in 0..50 {
        read(&keyspace, seed, 40);
        assert!(resident(&fixture) <= CAPACITY);
    }
    assert!(stat(&keyspace.stats(), "index_loads") as usize > tables(&keyspace));
}

/// An index that is used often stays, though there is room for few.
#[test]
fn parts_that_are_used_stay() {
    let fixture = Fixture::with_table_cache(1, IndexKind::Linear, Tuning::TINY, 8 * PAGE);
    let keyspace = filled(&fixture);
    // Index loads that a read of this key causes.
    let loads = |number: u32| {
        let before = stat(&keyspace.stats(), "index_loads");
        assert!(keyspace.get(&key(number)).unwrap().is_some());
        stat(&keyspace.stats(), "index_loads") - before
    };
    let (mut of_one, mut of_others) = (0, 0);
    for number in 0..1000 {
        of_one += loads(0);
        of_others += loads(number * 7);
    }
    assert!(of_others > 500 && of_one < of_others / 10, "{of_one} {of_others}");
}

/// Without an index in memory, the size estimate of a range is close to the estimate with one, and the ranges add up to
/// the whole.
#[test]
fn parts_of_a_table_are_counted_whose_index_is_not_in_memory() {
    const PARTS: u32 = 16;
    let fixture = Fixture::with(
        1,
        IndexKind::Single,
        Tuning { memtable: 1 << 20, table: 4 << 20, l0_target: 8 << 20, ..Tuning::TINY },
    );
    let keyspace = filled(&fixture);
    let bound = |part: u32| (u64::from(part) << 32).div_ceil(u64::from(PARTS)).to_be_bytes()[4..].to_vec();
    let upper = |part: u32| if part + 1 < PARTS { bound(part + 1) } else { vec![0xff; 5] };
    let count = || -> Vec<_> {
        (0..PARTS).map(|part| keyspace.lsm().range_sizes().range_size(&bound(part), &upper(part)).bytes).collect()
    };
    let (all, before) = (keyspace.lsm().range_sizes().range_size(&[], &[0xff; 5]).bytes, count());
    assert_eq!(resident(&fixture), 0, "something was loaded");
    read(&keyspace, 1, 1000);
    assert!(resident(&fixture) > 0);
    for counted in [before, count()] {
        let mean = all / u64::from(PARTS);
        assert!(counted.iter().all(|bytes| (mean * 3 / 4..mean * 4 / 3).contains(bytes)), "{counted:?} of {all}");
        assert!(counted.iter().sum::<u64>().abs_diff(all) < all / 8, "{counted:?} of {all}");
    }
    let version = keyspace.lsm().version();
    for table in version.tables() {
        let (first, last) = (table.first(), table.last());
        let behind = [last, &[0]].concat();
        assert_eq!(
            (table.fraction_in((&[], first)), table.fraction_in((&behind, &[0xff; 5]))),
            (0.0, 0.0),
            "it lies beside them"
        );
        assert_eq!(table.fraction_in((first, &behind)), 1.0);
    }
}

/// A key that shares a long prefix with neighbours of its block and nothing with other blocks. So separators are long,
/// and tables of few blocks have several partitions.
fn long(number: u32) -> Vec<u8> {
    [&(number / 16).to_be_bytes().repeat(111)[..], &number.to_be_bytes()].concat()
}

/// Partitions are loaded one by one, and evicted to make room for others.
#[test]
fn partitions_come_and_go_by_themselves() {
    const CAPACITY: usize = 6 * PAGE;
    const LONG: u32 = 8000;
    let sizes = Tuning { memtable: 1 << 20, table: 1 << 20, l0_target: 4 << 20, part: 4 << 20, ..Tuning::TINY };
    let fixture = Fixture::with_table_cache(1, IndexKind::Partitioned, sizes, CAPACITY);
    let value = |number: u32| vec![number as u8; 60];
    for number in 0..LONG {
        fixture.write(&long(number), Some(&value(number)));
        while fixture.environment.scheduler.run_one() {}
    }
    let keyspace = fixture.reopened();
    let loads = || stat(&keyspace.stats(), "index_loads") as usize;
    assert_eq!(keyspace.get(&long(0)).unwrap(), Some(value(0)));
    let bytes = stat(&keyspace.stats(), "index_bytes") as usize;
    assert_eq!((loads(), resident(&fixture)), (2, bytes), "the index of one table, and one partition of it");
    assert!((PAGE + CELL_BYTES..2 * PAGE).contains(&bytes), "a frame and cells: {bytes}");
    let mut random = SmallRng::seed_from_u64(1);
    for _ in 0..2000 {
        let number = random.random_range(0..LONG);
        assert_eq!(keyspace.get(&long(number)).unwrap(), Some(value(number)));
        assert!(resident(&fixture) <= CAPACITY && stat(&keyspace.stats(), "index_bytes") as usize <= CAPACITY);
    }
    assert!(loads() > 4 * tables(&keyspace), "{} loads for {} tables", loads(), tables(&keyspace));
    let model = (0..LONG).map(|number| (long(number), value(number))).collect();
    assert!(collect(&keyspace, ALL, false) == expected(&model, &ALL));
    let check = keyspace.verify().unwrap();
    assert_eq!((check.problems, check.records), (vec![], u64::from(LONG)));
}

/// Lazy slots that load a frame each.
struct Shelf {
    memory: Arc<Memory>,
    cache: Arc<TableCache>,
    parts: Vec<(CacheEntryKind, Arc<LazySlot<Block>>)>,
    /// Used bytes of each.
    used: usize,
}

impl Shelf {
    fn new(budget: usize, capacity: usize, sorts: impl IntoIterator<Item = CacheEntryKind>) -> Shelf {
        let (memory, domain) = (Memory::new(budget), Domain::new());
        let cache = TableCache::new(&memory, &domain, capacity);
        let parts = sorts.into_iter().map(|sort| (sort, LazySlot::absent(&domain))).collect();
        Shelf { memory, cache, parts, used: PAGE }
    }

    fn use_part(&self, number: usize) -> Result<()> {
        let (sort, part) = &self.parts[number];
        let load = || self.cache.load(*sort, self.used, |lease| Ok(lease()?.cut(self.used)));
        part.look_or_load(self.cache.domain(), |_| (), load, || self.cache.enter(*sort, part.resident(), self.used))
    }

    fn there(&self) -> Vec<usize> {
        let pin = self.cache.domain().pin();
        (0..self.parts.len()).filter(|number| self.parts[*number].1.is_there(&pin)).collect()
    }
}

#[test]
fn filters_go_before_indexes_and_no_index_goes_for_a_filter() {
    let shelf = Shelf::new(
        4 << 20,
        4 * PAGE,
        [
            CacheEntryKind::Index,
            CacheEntryKind::Filter,
            CacheEntryKind::Index,
            CacheEntryKind::Filter,
            CacheEntryKind::Index,
            CacheEntryKind::Index,
            CacheEntryKind::Filter,
        ],
    );
    (0..4).for_each(|number| shelf.use_part(number).unwrap());
    assert_eq!(shelf.there(), [0, 1, 2, 3]);
    shelf.use_part(4).unwrap();
    assert_eq!(shelf.there(), [0, 2, 3, 4]);
    shelf.use_part(5).unwrap();
    assert_eq!(shelf.there(), [0, 2, 4, 5]);
    assert!(shelf.use_part(6).is_err(), "four indexes are all that there may be");
    assert_eq!(shelf.there(), [0, 2, 4, 5]);
    shelf.use_part(0).unwrap();
    assert_eq!(shelf.memory.used(&[Component::TableIndex]), 4 * PAGE);
}

/// Cached parts lie in frames, or in cells of frames, all over the memory. An essential lease of a slab succeeds
/// nevertheless, as long as there is anything to evict.
#[test]
fn what_must_go_on_gets_the_memory_of_parts() {
    for (used, most) in [(PAGE, 4096), (cut_bytes(700), 16384)] {
        give_memory_of_parts(&Shelf {
            used,
            ..Shelf::new(8 << 20, usize::MAX, std::iter::repeat_n(CacheEntryKind::Index, most))
        });
    }
}

fn give_memory_of_parts(shelf: &Shelf) {
    let parts = shelf.parts.len();
    for number in 0..parts {
        shelf.use_part(number).unwrap();
    }
    // As many are resident as fit.
    let there = shelf.there().len();
    assert_eq!(shelf.memory.used(&[Component::TableIndex]), there * shelf.used);
    assert!(there > parts / 3 && there < parts, "{there}");
    let slabs: Vec<_> =
        std::iter::from_fn(|| shelf.memory.lease_essential(Component::Frames, Size::Slab).ok()).collect();
    assert_eq!((slabs.len(), shelf.there()), (128, vec![]));
    assert!(shelf.use_part(0).unwrap_err().to_string().contains("memory"));
    drop(slabs);
    shelf.use_part(0).unwrap();
}
