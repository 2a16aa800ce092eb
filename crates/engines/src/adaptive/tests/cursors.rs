//! Cursors, while ranges become pages under them.

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::world::{ALL, World, key};
use crate::{
    adaptive::{AdaptiveOptions, Insert},
    engine::Ordered,
    tests::cursors::{Said, change, go_through},
    tree::TreeOptions,
};

const KEYS: u32 = 800;

/// Keys in pages, tables and memtables, some deleted.
fn settled(world: &mut World, random: &mut SmallRng) -> Said {
    let mut said = Said::new();
    for round in 0..4 {
        for number in 0..KEYS {
            if random.random_bool(0.6) {
                let value = random.random_bool(0.8).then(|| vec![number as u8 ^ round; 100]);
                world.write(&key(number), value.as_deref());
                said.insert(key(number), vec![value]);
            }
        }
        if round < 3 {
            world.flush();
            absorb(world, random);
        }
    }
    said
}

fn absorb(world: &World, random: &mut SmallRng) {
    let lower = random.random_range(0..KEYS);
    world.keyspace.absorb(&key(lower), &key(lower + random.random_range(1..300))).unwrap();
}

fn reshape(world: &World, random: &mut SmallRng) {
    let lower = random.random_range(0..KEYS);
    let (lower, upper) = (key(lower), key(lower + random.random_range(1..300)));
    match random.random_range(0..4) {
        0 => world.keyspace.open(&lower, &upper).unwrap(),
        1 => world.keyspace.uncover(&lower, &upper).unwrap(),
        _ => absorb(world, random),
    }
}

/// Trap 2: both ends are held at any point, while what is behind them moves from memory into tables, from there into
/// pages that were read before, and back.
#[test]
fn trap_02_a_cursor_gives_each_key_once_with_what_it_said_since_it_was_made() {
    for seed in 0..30 {
        let mut random = SmallRng::seed_from_u64(seed);
        let tree = TreeOptions { segment_pages: [1, 16][seed as usize % 2], ..TreeOptions::default() };
        let insert = [Insert::Tree, Insert::Batch][seed as usize / 2 % 2];
        let mut world = World::new(seed, AdaptiveOptions { tree, insert, ..AdaptiveOptions::default() });
        let mut said = settled(&mut world, &mut random);
        let cursor = world.keyspace.clone().cursor(ALL);
        let given = go_through(cursor, seed, &mut random, &mut said, |random, said| {
            match random.random_range(0..60) {
                0..12 => change(said, KEYS, random, |key, value| world.write(key, value)),
                12 => world.flush(),
                13 => reshape(&world, random),
                14 => _ = world.environment.scheduler.run_one(),
                _ => return true,
            }
            false
        });
        assert!(given > 400, "seed {seed}");
    }
}
