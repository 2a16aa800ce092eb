//! Many keys at once.

use std::{sync::Arc, thread};

use ecotone_substrate::{limits::PAGE, memory::Component};
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};

use super::world::{Model, World, key};
use crate::{
    engine::Engine,
    lsm::{family::Sizes, keyspace::LsmKeyspace, table::Kind, version::Ranged},
    tests::stat,
};

/// What is told of keys, each once.
fn ask(world: &World, keys: &[[u8; 4]]) -> Vec<Option<Vec<u8>>> {
    ask_of(&world.keyspace, keys)
}

fn ask_of(keyspace: &LsmKeyspace, keys: &[[u8; 4]]) -> Vec<Option<Vec<u8>>> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut told: Vec<Option<Option<Vec<u8>>>> = vec![None; keys.len()];
    let tell = &mut |number: usize, value: Option<&[u8]>| {
        assert!(told[number].replace(value.map(<[u8]>::to_vec)).is_none(), "a key is told twice");
    };
    keyspace.multi_get(&keys, tell).expect("everything can be read");
    told.into_iter().map(|told| told.expect("each key is told")).collect()
}

/// Keys in memory, in runs and in levels, keys that were deleted and keys that never were, some of them several times
/// in a batch.
#[test]
fn each_key_of_a_batch_has_its_newest_value() {
    for (seed, kind) in (1..).zip(Kind::ALL) {
        let (world, mut model, mut random) = (World::new(seed, kind), Model::new(), SmallRng::seed_from_u64(seed));
        for _ in 0..60 {
            for _ in 0..100 {
                let (key, value) =
                    (key(random.random_range(0..2000)), vec![random.random(); random.random_range(0..300)]);
                world.write_both(&mut model, &key, (!random.random_bool(0.2)).then_some(value));
            }
            if random.random_bool(0.5) {
                world.environment.scheduler.run_one();
            }
            let count = random.random_range(0..600);
            let keys: Vec<_> = (0..count).map(|_| key(random.random_range(0..2200))).collect();
            let wanted: Vec<_> = keys.iter().map(|key| model.get(&key[..]).cloned()).collect();
            assert_eq!(ask(&world, &keys), wanted);
        }
        assert!(world.stat("flushes") > 5 && world.stat("compactions") > 0, "there is more than one place to look at");
    }
}

#[test]
fn a_block_is_read_once_for_all_of_its_keys() {
    const KEYS: u32 = 8000;
    let sizes = Sizes { table: 256 << 10, part: 1 << 20, ..Sizes::TINY };
    let world = World::with(1, Kind::Single, sizes);
    let mut keys: Vec<_> = (0..KEYS).map(key).collect();
    keys.iter().for_each(|key| world.write(key, Some(&[7; 100])));
    world.keyspace.compact(&mut |_, _| ()).unwrap();
    // Now the indexes are there.
    assert!(ask(&world, &keys).iter().all(Option::is_some));
    keys.sort_unstable();
    let before = world.reads();
    ask(&world, &keys);
    let (ordered, before) = (world.reads() - before, world.reads());
    keys.shuffle(&mut SmallRng::seed_from_u64(1));
    ask(&world, &keys);
    let shuffled = world.reads() - before;
    // Each batch has at most one block in common with the next one; a shuffled one has several keys of most blocks.
    let batches = u64::from(KEYS).div_ceil(256);
    let blocks = u64::from(KEYS / 45)..=u64::from(KEYS / 35) + batches;
    assert!(blocks.contains(&ordered) && shuffled < u64::from(KEYS) * 3 / 4, "{ordered} {shuffled}");
}

#[test]
fn a_failed_read_of_a_batch_is_told_and_the_next_one_goes_well() {
    let (world, keys) = (World::new(1, Kind::Linear), (0..2000).map(key).collect::<Vec<_>>());
    keys.iter().for_each(|key| world.write(key, Some(&[7; 100])));
    world.keyspace.compact(&mut |_, _| ()).unwrap();
    assert!(ask(&world, &keys).iter().all(Option::is_some));
    for after in [0, 1, 17] {
        world.fail_io(after);
        let borrowed: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let mut told = 0;
        assert!(world.keyspace.multi_get(&borrowed, &mut |_, value| told += u32::from(value.is_some())).is_err());
        assert!(told < 2000, "{told}");
        assert!(ask(&world, &keys).iter().all(Option::is_some));
    }
}

/// Keys, and a keyspace of small tables in one level that has them, without any index in memory.
fn reopened(world: &World, count: u32) -> (Vec<[u8; 4]>, Arc<LsmKeyspace>) {
    let keys: Vec<_> = (0..count).map(key).collect();
    keys.iter().for_each(|key| world.write(key, Some(&[7; 100])));
    world.keyspace.compact(&mut |_, _| ()).unwrap();
    let keyspace = world.reopened();
    assert_eq!(stat(&keyspace.stats(), "index_bytes"), 0);
    (keys, keyspace)
}

/// A key of each table.
fn of_each_table(keyspace: &LsmKeyspace) -> Vec<[u8; 4]> {
    let version = keyspace.lsm().version();
    version.tables().map(|table| table.last().try_into().expect("keys have four bytes")).collect()
}

/// One index cannot be read for the time being: all others that a batch needs are.
#[test]
fn indexes_that_are_absent_are_loaded_together_and_once() {
    for kind in [Kind::Linear, Kind::Single] {
        let world = World::new(1, kind);
        let (_, keyspace) = reopened(&world, 2500);
        let (tables, batch) = (stat(&keyspace.stats(), "tables"), of_each_table(&keyspace));
        assert!((15..60).contains(&tables), "{tables}");
        let version = keyspace.lsm().version();
        let table = version.tables().next().expect("there are tables").table();
        let (file, offset) = (table.name().file(), table.index_at());
        let before = world.reads();
        world.disk.hold(file, offset);
        thread::scope(|scope| {
            let reader = scope.spawn(|| ask_of(&keyspace, &batch));
            world.disk.wait_blocked(file, offset);
            let reads = world.reads() - before;
            world.disk.release(file, offset);
            assert_eq!(reads, tables - 1, "{kind:?}");
            assert!(reader.join().unwrap().iter().all(Option::is_some));
        });
        assert_eq!(stat(&keyspace.stats(), "index_loads"), tables);
    }
}

/// There is room for a part of what a batch needs. Whoever reads beside, each finds all, and the capacity is kept but
/// for an index of each.
#[test]
fn batches_find_all_with_little_memory_for_indexes() {
    const THREADS: usize = 3;
    for (kind, pages) in [(Kind::Linear, 5), (Kind::Linear, 0), (Kind::Partitioned, 7)] {
        let world = World::with_table_cache(1, kind, Sizes::TINY, pages * PAGE);
        let (keys, keyspace) = reopened(&world, 2500);
        let (keys, keyspace) = (&keys, &*keyspace);
        thread::scope(|scope| {
            for seed in 0..THREADS as u64 {
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(seed);
                    for _ in 0..10 {
                        let count = random.random_range(1..400);
                        let batch: Vec<_> = (0..count).map(|_| keys[random.random_range(0..keys.len())]).collect();
                        assert!(ask_of(keyspace, &batch).iter().all(|value| value.as_deref() == Some(&[7; 100][..])));
                    }
                });
            }
        });
        let resident = world.environment.memory.used(&[Component::TableIndex, Component::Filter]) / PAGE;
        assert!(resident <= pages + 2 * THREADS, "{resident} of {pages} pages");
    }
}

#[test]
fn an_index_that_cannot_be_read_fails_the_batch_and_not_the_next_one() {
    for after in [0, 1, 9] {
        let world = World::new(1, Kind::Linear);
        let (keys, keyspace) = reopened(&world, 2500);
        world.fail_io(after);
        let batch = of_each_table(&keyspace);
        let batch: Vec<&[u8]> = batch.iter().map(|key| &key[..]).collect();
        assert!(keyspace.multi_get(&batch, &mut |_, _| ()).is_err());
        assert!(ask_of(&keyspace, &keys).iter().all(Option::is_some));
        assert_eq!(stat(&keyspace.stats(), "index_loads"), stat(&keyspace.stats(), "tables"), "none is loaded twice");
    }
}
