//! Batched reads of many keys.

use std::{sync::Arc, thread};

use ecotone_engine::contract::{Compactable, Engine};
use ecotone_substrate::{limits::PAGE, memory::Component};
use ecotone_testkit::engine::stat;
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};

use crate::{
    keyspace::LsmKeyspace,
    table::IndexKind,
    tests::fixture::{Fixture, Model, key},
    tuning::Tuning,
    version::TableMeta,
};

/// The answers for keys, each given once.
fn ask(fixture: &Fixture, keys: &[[u8; 4]]) -> Vec<Option<Vec<u8>>> {
    ask_of(&fixture.keyspace, keys)
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

/// Keys in memtables, in runs and in levels, deleted keys and absent keys, some of them several times in a batch.
#[test]
fn each_key_of_a_batch_has_its_newest_value() {
    for (seed, kind) in (1..).zip(IndexKind::ALL) {
        let (fixture, mut model, mut random) = (Fixture::new(seed, kind), Model::new(), SmallRng::seed_from_u64(seed));
        for _ in 0..60 {
            for _ in 0..100 {
                let (key, value) =
                    (key(random.random_range(0..2000)), vec![random.random(); random.random_range(0..300)]);
                fixture.write_both(&mut model, &key, (!random.random_bool(0.2)).then_some(value));
            }
            if random.random_bool(0.5) {
                fixture.environment.scheduler.run_one();
            }
            let count = random.random_range(0..600);
            let keys: Vec<_> = (0..count).map(|_| key(random.random_range(0..2200))).collect();
            let wanted: Vec<_> = keys.iter().map(|key| model.get(&key[..]).cloned()).collect();
            assert_eq!(ask(&fixture, &keys), wanted);
        }
        assert!(
            fixture.stat("flushes") > 5 && fixture.stat("compactions") > 0,
            "there is more than one place to look at"
        );
    }
}

#[test]
fn a_block_is_read_once_for_all_of_its_keys() {
    const KEYS: u32 = 8000;
    let sizes = Tuning { table: 256 << 10, part: 1 << 20, ..Tuning::TINY };
    let fixture = Fixture::with(1, IndexKind::Single, sizes);
    let mut keys: Vec<_> = (0..KEYS).map(key).collect();
    keys.iter().for_each(|key| fixture.write(key, Some(&[7; 100])));
    fixture.keyspace.compact(&mut |_, _| ()).unwrap();
    // Now the indexes are in memory.
    assert!(ask(&fixture, &keys).iter().all(Option::is_some));
    keys.sort_unstable();
    let before = fixture.reads();
    ask(&fixture, &keys);
    let (ordered, before) = (fixture.reads() - before, fixture.reads());
    keys.shuffle(&mut SmallRng::seed_from_u64(1));
    ask(&fixture, &keys);
    let shuffled = fixture.reads() - before;
    // Each batch has at most one block in common with the next one; a shuffled one has several keys of most blocks.
    let batches = u64::from(KEYS).div_ceil(256);
    let blocks = u64::from(KEYS / 45)..=u64::from(KEYS / 35) + batches;
    assert!(blocks.contains(&ordered) && shuffled < u64::from(KEYS) * 3 / 4, "{ordered} {shuffled}");
}

#[test]
fn a_failed_read_of_a_batch_is_told_and_the_next_one_goes_well() {
    let (fixture, keys) = (Fixture::new(1, IndexKind::Linear), (0..2000).map(key).collect::<Vec<_>>());
    keys.iter().for_each(|key| fixture.write(key, Some(&[7; 100])));
    fixture.keyspace.compact(&mut |_, _| ()).unwrap();
    assert!(ask(&fixture, &keys).iter().all(Option::is_some));
    for after in [0, 1, 17] {
        fixture.fail_io(after);
        let borrowed: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let mut told = 0;
        assert!(fixture.keyspace.multi_get(&borrowed, &mut |_, value| told += u32::from(value.is_some())).is_err());
        assert!(told < 2000, "{told}");
        assert!(ask(&fixture, &keys).iter().all(Option::is_some));
    }
}

/// Keys, and a reopened keyspace that has them in small tables of one level, with no index in memory.
fn reopened(fixture: &Fixture, count: u32) -> (Vec<[u8; 4]>, Arc<LsmKeyspace>) {
    let keys: Vec<_> = (0..count).map(key).collect();
    keys.iter().for_each(|key| fixture.write(key, Some(&[7; 100])));
    fixture.keyspace.compact(&mut |_, _| ()).unwrap();
    let keyspace = fixture.reopened();
    assert_eq!(stat(&keyspace.stats(), "index_bytes"), 0);
    (keys, keyspace)
}

/// A key of each table.
fn of_each_table(keyspace: &LsmKeyspace) -> Vec<[u8; 4]> {
    let version = keyspace.lsm().version();
    version.tables().map(|table| table.last().try_into().expect("keys have four bytes")).collect()
}

/// While the read of one index is held, all other indexes of a batch are read.
#[test]
fn indexes_that_are_absent_are_loaded_together_and_once() {
    for kind in [IndexKind::Linear, IndexKind::Single] {
        let fixture = Fixture::new(1, kind);
        let (_, keyspace) = reopened(&fixture, 2500);
        let (tables, batch) = (stat(&keyspace.stats(), "tables"), of_each_table(&keyspace));
        assert!((15..60).contains(&tables), "{tables}");
        let version = keyspace.lsm().version();
        let table = version.tables().next().expect("there are tables").table();
        let (file, offset) = (table.name().file(), table.index_at());
        let before = fixture.reads();
        fixture.disk.hold(file, offset);
        thread::scope(|scope| {
            let reader = scope.spawn(|| ask_of(&keyspace, &batch));
            fixture.disk.wait_blocked(file, offset);
            let reads = fixture.reads() - before;
            fixture.disk.release(file, offset);
            assert_eq!(reads, tables - 1, "{kind:?}");
            assert!(reader.join().unwrap().iter().all(Option::is_some));
        });
        assert_eq!(stat(&keyspace.stats(), "index_loads"), tables);
    }
}

/// The cache has room for a part of the indexes of a batch. Concurrent readers find all keys nevertheless, and each
/// exceeds the capacity by one index at most.
#[test]
fn batches_find_all_with_little_memory_for_indexes() {
    const THREADS: usize = 3;
    for (kind, pages) in [(IndexKind::Linear, 5), (IndexKind::Linear, 0), (IndexKind::Partitioned, 7)] {
        let fixture = Fixture::with_table_cache(1, kind, Tuning::TINY, pages * PAGE);
        let (keys, keyspace) = reopened(&fixture, 2500);
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
        let resident = fixture.environment.memory.used(&[Component::TableIndex, Component::Filter]) / PAGE;
        assert!(resident <= pages + 2 * THREADS, "{resident} of {pages} pages");
    }
}

#[test]
fn an_index_that_cannot_be_read_fails_the_batch_and_not_the_next_one() {
    for after in [0, 1, 9] {
        let fixture = Fixture::new(1, IndexKind::Linear);
        let (keys, keyspace) = reopened(&fixture, 2500);
        fixture.fail_io(after);
        let batch = of_each_table(&keyspace);
        let batch: Vec<&[u8]> = batch.iter().map(|key| &key[..]).collect();
        assert!(keyspace.multi_get(&batch, &mut |_, _| ()).is_err());
        assert!(ask_of(&keyspace, &keys).iter().all(Option::is_some));
        assert_eq!(stat(&keyspace.stats(), "index_loads"), stat(&keyspace.stats(), "tables"), "none is loaded twice");
    }
}
