//! Cursors, while ranges become pages under them.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::world::{ALL, World, step};
use crate::{adaptive::AdaptiveOptions, engine::Ordered, tree::TreeOptions};

const KEYS: u32 = 800;

fn key(number: u32) -> Vec<u8> {
    [&b"key "[..], &number.to_be_bytes()].concat()
}

/// What each key said since the cursor was made.
type Said = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

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

/// One of the keys that change, which are every seventh.
fn change(world: &mut World, said: &mut Said, random: &mut SmallRng) {
    let number = random.random_range(0..KEYS / 7) * 7;
    let value = random.random_bool(0.7).then(|| vec![random.random(); random.random_range(0..200)]);
    world.write(&key(number), value.as_deref());
    said.entry(key(number)).or_insert_with(|| vec![None]).push(value);
}

/// Trap 2: both ends are held at any point, while what is behind them moves from memory into tables, and from there into pages that were read before.
#[test]
fn trap_02_a_cursor_gives_each_key_once_with_what_it_said_since_it_was_made() {
    for seed in 0..30 {
        let mut random = SmallRng::seed_from_u64(seed);
        let tree = TreeOptions { segment_pages: [1, 16][seed as usize % 2], ..TreeOptions::default() };
        let mut world = World::new(seed, AdaptiveOptions { tree, ..AdaptiveOptions::default() });
        let mut said = settled(&mut world, &mut random);
        let mut cursor = world.keyspace.clone().cursor(ALL);
        let (mut front, mut back) = (Vec::new(), Vec::new());
        loop {
            match random.random_range(0..60) {
                0..12 => change(&mut world, &mut said, &mut random),
                12 => world.flush(),
                13 => absorb(&world, &mut random),
                14 => _ = world.environment.scheduler.run_one(),
                _ => {
                    let reverse = seed % 3 == 1 || (seed % 3 == 2 && random.random());
                    let Some(record) = step(&mut *cursor, reverse) else { break };
                    if reverse { back.push(record) } else { front.push(record) }
                }
            }
        }
        assert_eq!(step(&mut *cursor, false), None);
        back.reverse();
        front.extend(back);
        assert!(front.is_sorted_by(|a, b| a.0 < b.0), "seed {seed}: out of order, or twice");
        let given: BTreeMap<_, _> = front.into_iter().collect();
        for (key, said) in &said {
            assert!(said.contains(&given.get(key).cloned()), "seed {seed}: {key:?}");
        }
        assert!(given.keys().all(|key| said.contains_key(key)) && given.len() > 400, "seed {seed}");
    }
}
