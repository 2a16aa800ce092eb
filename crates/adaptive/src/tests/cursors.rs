//! Cursors over ranges that are converted meanwhile.

use ecotone_engine::contract::Ordered;
use ecotone_testkit::engine::cursors::{Said, change, go_through};
use ecotone_tree::TreeOptions;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::fixture::{ALL, Fixture, key};
use crate::{AdaptiveOptions, Insert};

const KEYS: u32 = 800;

/// Keys in pages, tables and memtables, some deleted.
fn settled(fixture: &mut Fixture, random: &mut SmallRng) -> Said {
    let mut said = Said::new();
    for round in 0..4 {
        for number in 0..KEYS {
            if random.random_bool(0.6) {
                let value = random.random_bool(0.8).then(|| vec![number as u8 ^ round; 100]);
                fixture.write(&key(number), value.as_deref());
                said.insert(key(number), vec![value]);
            }
        }
        if round < 3 {
            fixture.flush();
            convert(fixture, random);
        }
    }
    said
}

fn convert(fixture: &Fixture, random: &mut SmallRng) {
    let lower = random.random_range(0..KEYS);
    fixture.keyspace.convert_to_pages(&key(lower), &key(lower + random.random_range(1..300))).unwrap();
}

fn reshape(fixture: &Fixture, random: &mut SmallRng) {
    let lower = random.random_range(0..KEYS);
    let (lower, upper) = (key(lower), key(lower + random.random_range(1..300)));
    match random.random_range(0..4) {
        0 => fixture.keyspace.reactivate(&lower, &upper).unwrap(),
        1 => fixture.keyspace.convert_to_tables(&lower, &upper).unwrap(),
        _ => convert(fixture, random),
    }
}

/// Trap 2: a cursor pauses at any point from both ends, while the records ahead move from memory into tables, into
/// pages that it has read before, and back.
#[test]
fn trap_02_a_cursor_gives_each_key_once_with_what_it_said_since_it_was_made() {
    for seed in 0..30 {
        let mut random = SmallRng::seed_from_u64(seed);
        let tree = TreeOptions::default().segment_pages([1, 16][seed as usize % 2]);
        let insert = [Insert::Tree, Insert::Batch][seed as usize / 2 % 2];
        let mut fixture = Fixture::new(seed, AdaptiveOptions { tree, insert, ..AdaptiveOptions::default() });
        let mut said = settled(&mut fixture, &mut random);
        let cursor = fixture.keyspace.clone().cursor(ALL);
        let given = go_through(cursor, seed, &mut random, &mut said, |random, said| {
            match random.random_range(0..60) {
                0..12 => change(said, KEYS, random, |key, value| fixture.write(key, value)),
                12 => fixture.flush(),
                13 => reshape(&fixture, random),
                14 => _ = fixture.environment.scheduler.run_one(),
                _ => return true,
            }
            false
        });
        assert!(given > 400, "seed {seed}");
    }
}
