//! The memory of memtables, beside that of others.

use std::{iter, sync::Arc};

use ecotone_substrate::{
    Error,
    limits::PAGE,
    memory::{Component, Held, Memory, Share},
    storage::FileId,
};
use ecotone_sys::{
    chunk::{Block, Size},
    primitive::Mutex,
};

use super::world::{Model, World, expect, key};
use crate::{
    engine::Engine,
    lsm::{family::Sizes, keyspace::LsmKeyspace, table::Kind},
    tests::stat,
};

/// Memtables that are full by their part of the budget alone.
const SIZES: Sizes = Sizes { memtable: 64 << 20, table: 1 << 20, level_0: 32 << 20, part: 4 << 20, ..Sizes::TINY };
const VALUE: usize = 1500;

fn used(world: &World) -> usize {
    world.environment.memory.used(&[Component::Memtable])
}

/// What all memtables may have at most.
fn most(world: &World) -> usize {
    world.environment.memory.budget() / 8 * 3
}

#[test]
fn memtables_of_all_keyspaces_stay_within_the_write_cache() {
    let world = World::with(1, Kind::Linear, SIZES);
    let others: Vec<_> = (10..15).map(|number| world.another(number, SIZES)).collect();
    let records = (most(&world) / 3 / (VALUE + 50)) as u32;
    for keyspace in &others {
        for number in 0..records {
            world.write_to(keyspace, &key(number), Some(&[number as u8; VALUE]));
            assert!(used(&world) <= most(&world));
        }
    }
    let flushes = |keyspace: &LsmKeyspace| stat(&keyspace.stats(), "flushes");
    assert!(others.iter().any(|keyspace| flushes(keyspace) > 0), "nobody's memtable was full");
    assert!(used(&world) > most(&world) / 3);
    let model: Model = (0..records).map(|number| (key(number).to_vec(), vec![number as u8; VALUE])).collect();
    others.iter().for_each(|keyspace| expect(keyspace, &model));
    others.iter().for_each(|keyspace| keyspace.flush(u64::MAX).unwrap());
    assert_eq!(used(&world), 0, "idle keyspaces have no slab");
}

/// Who has no memory for a check knows nothing of damage.
#[test]
fn a_check_without_memory_finds_no_damage() {
    let world = World::new(1, Kind::Linear);
    (0..3000).for_each(|number| world.write(&key(number), Some(&[number as u8; 100])));
    world.flush();
    let memory = &world.environment.memory;
    let rest = |size| iter::from_fn(move || memory.lease_essential(Component::Other, size).ok());
    let taken: Vec<_> = [Size::Slab, Size::Frame].into_iter().flat_map(rest).collect();
    let refused = world.keyspace.verify();
    assert!(refused.as_ref().is_err_and(Error::is_shortage), "{refused:?}");
    drop(taken);
    assert_eq!(world.keyspace.verify().unwrap().problems, Vec::<String>::new());
}

/// No memtable is full, and what would be flushed stands.
#[test]
fn writers_of_many_keyspaces_are_slowed_down_before_memtables_are_refused_memory() {
    let world = World::threaded_with(1, 2, SIZES);
    let others: Vec<_> = (10..15).map(|number| world.another(number, SIZES)).collect();
    let tables = (10..15).map(|keyspace| FileId::Table { keyspace, number: 1 });
    tables.clone().for_each(|table| world.disk.hold(table, PAGE as u64));
    let delays = || others.iter().map(|keyspace| stat(&keyspace.stats(), "writer_delays")).sum::<u64>();
    let mut before = 0;
    for number in 0.. {
        others.iter().for_each(|keyspace| world.write_to(keyspace, &key(number), Some(&[number as u8; VALUE])));
        if used(&world) < most(&world) / 4 * 3 {
            before = delays();
        } else if used(&world) > most(&world) / 16 * 15 {
            break;
        }
    }
    assert_eq!(before, 0, "where there is memory nobody is slowed down");
    assert!(delays() > 100, "{} delays", delays());
    tables.for_each(|table| world.disk.release(table, PAGE as u64));
    world.environment.scheduler.wait_until("the flush that stood", || used(&world) < most(&world) / 16 * 14).unwrap();
}

/// A flush for memory that was called and is not needed any more leaves memtables that have just begun.
#[test]
fn a_flush_for_memory_is_left_when_another_has_made_some() {
    for is_needed in [true, false] {
        let world = World::with(1, Kind::Linear, SIZES);
        let others: Vec<_> = (10..15).map(|number| world.another(number, SIZES)).collect();
        let flushes = || others.iter().map(|keyspace| stat(&keyspace.stats(), "flushes")).sum::<u64>();
        for number in (0..).take_while(|_| used(&world) < most(&world) / 4 * 3) {
            others.iter().for_each(|keyspace| world.write_to(keyspace, &key(number), Some(&[number as u8; VALUE])));
        }
        assert_eq!(flushes(), 0, "none is full");
        if !is_needed {
            others.iter().for_each(|keyspace| keyspace.flush(u64::MAX).unwrap());
            others.iter().for_each(|keyspace| world.write_to(keyspace, b"key", Some(b"value")));
        }
        let before = flushes();
        while world.environment.scheduler.run_one() {}
        assert_eq!(flushes() - before, u64::from(is_needed));
    }
}

/// A cache that takes all the memory there is, and gives back what is asked for.
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
        let greedy = Greedy { share: memory.join(Held::Components(&[Component::Other]), Box::new(shrink)), blocks };
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
    let world = World::with(1, Kind::Linear, SIZES);
    let memory = &world.environment.memory;
    let reserve = memory.budget() / 32;
    let greedy = Greedy::new(memory);
    let mut largest = 0;
    for number in 0..30_000 {
        world.write(&key(number), Some(&[number as u8; VALUE]));
        largest = largest.max(used(&world));
        // A switch may take a slab of it, so that there can be a flush.
        assert!(memory.used(&Component::ALL) <= memory.budget() - reserve + Size::Slab.bytes(), "write {number}");
        if number % 50 == 0 {
            greedy.grow(memory);
        }
    }
    assert!(largest >= 1 << 20 && largest < most(&world) / 2, "{largest}");
    assert!(world.stat("flushes") > 3);
    let mut value = Vec::new();
    for number in 0..30_000 {
        assert!(world.keyspace.get_into(&key(number), &mut value).unwrap() && value == [number as u8; VALUE]);
    }
}
