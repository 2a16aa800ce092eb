//! Many keys at once.

use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::SliceRandom};

use super::world::{Model, World, key};
use crate::{
    engine::Engine,
    lsm::{family::Sizes, table::Kind},
};

/// What is told of keys, each once.
fn ask(world: &World, keys: &[[u8; 4]]) -> Vec<Option<Vec<u8>>> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut told: Vec<Option<Option<Vec<u8>>>> = vec![None; keys.len()];
    let tell = &mut |number: usize, value: Option<&[u8]>| {
        assert!(told[number].replace(value.map(<[u8]>::to_vec)).is_none(), "a key is told twice");
    };
    world.keyspace.multi_get(&keys, tell).expect("everything can be read");
    told.into_iter().map(|told| told.expect("each key is told")).collect()
}

/// Keys in memory, in runs and in levels, keys that were deleted and keys that never were, some of them several times in a batch.
#[test]
fn each_key_of_a_batch_has_its_newest_value() {
    for (seed, kind) in (1..).zip(Kind::ALL) {
        let (world, mut model, mut random) = (World::new(seed, kind), Model::new(), SmallRng::seed_from_u64(seed));
        for _ in 0..60 {
            for _ in 0..100 {
                let (key, value) = (key(random.random_range(0..2000)), vec![random.random(); random.random_range(0..300)]);
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
    let sizes = Sizes { table: 256 << 10, ..Sizes::TINY };
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
