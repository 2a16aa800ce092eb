//! The memory of memtables beside other users of the budget.

use std::{iter, sync::Arc};

use ecotone_engine::contract::{Engine, Get};
use ecotone_substrate::{
    Error,
    limits::PAGE,
    memory::{CacheComponents, Component, Memory, Share},
    storage::FileId,
};
use ecotone_sys::{
    chunk::{Block, Size},
    primitive::Mutex,
};
use ecotone_testkit::engine::stat;

use crate::{
    keyspace::LsmKeyspace,
    table::IndexKind,
    tests::fixture::{Fixture, Model, expect, key},
    tuning::Tuning,
};

/// Sizes with which only the share of the budget limits memtables.
const SIZES: Tuning = Tuning { memtable: 64 << 20, table: 1 << 20, l0_target: 32 << 20, part: 4 << 20, ..Tuning::TINY };
const VALUE: usize = 1500;

fn used(fixture: &Fixture) -> usize {
    fixture.environment.memory.used(&[Component::Memtable])
}

/// The most bytes of all memtables.
fn most(fixture: &Fixture) -> usize {
    fixture.environment.memory.budget() / 8 * 3
}

#[test]
fn memtables_of_all_keyspaces_stay_within_the_write_cache() {
    let fixture = Fixture::with(1, IndexKind::Linear, SIZES);
    let others: Vec<_> = (10..15).map(|number| fixture.another(number, SIZES)).collect();
    let records = (most(&fixture) / 3 / (VALUE + 50)) as u32;
    for keyspace in &others {
        for number in 0..records {
            fixture.write_to(keyspace, &key(number), Some(&[number as u8; VALUE]));
            assert!(used(&fixture) <= most(&fixture));
        }
    }
    let flushes = |keyspace: &LsmKeyspace| stat(&keyspace.stats(), "flushes");
    assert!(others.iter().any(|keyspace| flushes(keyspace) > 0), "nobody's memtable was full");
    assert!(used(&fixture) > most(&fixture) / 3);
    let model: Model = (0..records).map(|number| (key(number).to_vec(), vec![number as u8; VALUE])).collect();
    others.iter().for_each(|keyspace| expect(keyspace, &model));
    others.iter().for_each(|keyspace| keyspace.flush(u64::MAX).unwrap());
    assert_eq!(used(&fixture), 0, "idle keyspaces have no slab");
}

/// A check without memory for it reports a shortage and no damage.
#[test]
fn a_check_without_memory_finds_no_damage() {
    let fixture = Fixture::new(1, IndexKind::Linear);
    (0..3000).for_each(|number| fixture.write(&key(number), Some(&[number as u8; 100])));
    fixture.flush();
    let memory = &fixture.environment.memory;
    let rest = |size| iter::from_fn(move || memory.lease_essential(Component::Other, size).ok());
    let taken: Vec<_> = [Size::Slab, Size::Frame].into_iter().flat_map(rest).collect();
    let refused = fixture.keyspace.verify();
    assert!(refused.as_ref().is_err_and(Error::is_shortage), "{refused:?}");
    drop(taken);
    assert_eq!(fixture.keyspace.verify().unwrap().problems, Vec::<String>::new());
}

/// No memtable is full, and the flushes are held.
#[test]
fn writers_of_many_keyspaces_are_slowed_down_before_memtables_are_refused_memory() {
    let fixture = Fixture::threaded_with(1, 2, SIZES);
    let others: Vec<_> = (10..15).map(|number| fixture.another(number, SIZES)).collect();
    let tables = (10..15).map(|keyspace| FileId::Table { keyspace, number: 1 });
    tables.clone().for_each(|table| fixture.disk.hold(table, PAGE as u64));
    let delays = || others.iter().map(|keyspace| stat(&keyspace.stats(), "writer_delays")).sum::<u64>();
    let mut before = 0;
    for number in 0.. {
        others.iter().for_each(|keyspace| fixture.write_to(keyspace, &key(number), Some(&[number as u8; VALUE])));
        if used(&fixture) < most(&fixture) / 4 * 3 {
            before = delays();
        } else if used(&fixture) > most(&fixture) / 16 * 15 {
            break;
        }
    }
    assert_eq!(before, 0, "where there is memory nobody is slowed down");
    assert!(delays() > 100, "{} delays", delays());
    tables.for_each(|table| fixture.disk.release(table, PAGE as u64));
    fixture
        .environment
        .scheduler
        .wait_until("the flush that stood", || used(&fixture) < most(&fixture) / 16 * 14)
        .unwrap();
}

/// A queued flush for memory that is no longer needed leaves fresh memtables alone.
#[test]
fn a_flush_for_memory_is_left_when_another_has_made_some() {
    for is_needed in [true, false] {
        let fixture = Fixture::with(1, IndexKind::Linear, SIZES);
        let others: Vec<_> = (10..15).map(|number| fixture.another(number, SIZES)).collect();
        let flushes = || others.iter().map(|keyspace| stat(&keyspace.stats(), "flushes")).sum::<u64>();
        for number in (0..).take_while(|_| used(&fixture) < most(&fixture) / 4 * 3) {
            others.iter().for_each(|keyspace| fixture.write_to(keyspace, &key(number), Some(&[number as u8; VALUE])));
        }
        assert_eq!(flushes(), 0, "none is full");
        if !is_needed {
            others.iter().for_each(|keyspace| keyspace.flush(u64::MAX).unwrap());
            others.iter().for_each(|keyspace| fixture.write_to(keyspace, b"key", Some(b"value")));
        }
        let before = flushes();
        while fixture.environment.scheduler.run_one() {}
        assert_eq!(flushes() - before, u64::from(is_needed));
    }
}

/// A cache that takes all free memory, and gives back as much as is requested.
struct Greedy {
    blocks: Arc<Mutex<Vec<Block>>>,
    share: Share,
}

impl Greedy {
    fn new(memory: &Arc<Memory>) -> Greedy {
        let blocks: Arc<Mutex<Vec<Block>>> = Arc::default();
        let cache = Arc::downgrade(&blocks);
        let shrink = move |bytes: usize| {
            let Some(cache) = cache.upgrade() else { return 0 };
            let mut cache = cache.lock();
            let keep = cache.len().saturating_sub(bytes.div_ceil(Size::Slab.bytes()));
            cache.drain(keep..).map(|block| block.len()).sum()
        };
        let greedy =
            Greedy { share: memory.join(CacheComponents::Components(&[Component::Other]), Box::new(shrink)), blocks };
        greedy.grow(memory);
        greedy
    }

    fn grow(&self, memory: &Memory) {
        self.blocks.lock().extend(std::iter::from_fn(|| memory.lease(Component::Other, Size::Slab)));
        self.share.count(100);
    }
}

#[test]
fn memtables_get_their_part_from_caches_and_leave_the_reserve() {
    let fixture = Fixture::with(1, IndexKind::Linear, SIZES);
    let memory = &fixture.environment.memory;
    let reserve = memory.budget() / 32;
    let greedy = Greedy::new(memory);
    let mut largest = 0;
    for number in 0..30_000 {
        fixture.write(&key(number), Some(&[number as u8; VALUE]));
        largest = largest.max(used(&fixture));
        // A rotation may take a slab of the reserve, so that a flush can begin.
        assert!(memory.used(&Component::ALL) <= memory.budget() - reserve + Size::Slab.bytes(), "write {number}");
        if number % 50 == 0 {
            greedy.grow(memory);
        }
    }
    assert!(largest >= 1 << 20 && largest < most(&fixture) / 2, "{largest}");
    assert!(fixture.stat("flushes") > 3);
    let mut value = Vec::new();
    for number in 0..30_000 {
        assert!(fixture.keyspace.get_into(&key(number), &mut value).unwrap() && value == [number as u8; VALUE]);
    }
}
