//! Paged ranges, with all operations beside them.

use std::ops::Bound;

use ecotone_engine::contract::{Get, Ordered};
use ecotone_lsm::Split;
use ecotone_tree::{PageFill, TreeOptions};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::fixture::{Fixture, Model, key};
use crate::{AdaptiveOptions, Insert, task::conversion};

const KEYS: u32 = 900;

/// Writes some keys close together, or some of all keys.
fn write_some(fixture: &mut Fixture, model: &mut Model, random: &mut SmallRng) {
    let (first, width) = if random.random() { (0, KEYS) } else { (random.random_range(0..KEYS), 60) };
    for _ in 0..random.random_range(1..200) {
        let value = random.random_bool(0.7).then(|| vec![random.random(); random.random_range(0..250)]);
        fixture.put(model, first + random.random_range(0..width), value.as_deref());
    }
}

/// Converts a range to pages or to tables, or reactivates its tables.
fn reshape(fixture: &Fixture, random: &mut SmallRng) {
    let (lower, width) = (random.random_range(0..KEYS), random.random_range(1..300));
    let (lower, upper) = (key(lower), key(lower + width));
    match random.random_range(0..6) {
        0 => fixture.keyspace.reactivate(&lower, &upper).unwrap(),
        1 => fixture.keyspace.convert_to_tables(&lower, &upper).unwrap(),
        _ => fixture.keyspace.convert_to_pages(&lower, &upper).unwrap(),
    }
}

fn check_some(fixture: &Fixture, model: &Model, random: &mut SmallRng, seed: u64) {
    for _ in 0..20 {
        let key = key(random.random_range(0..KEYS + 60));
        assert_eq!(fixture.keyspace.get(&key).unwrap().as_ref(), model.get(&key), "seed {seed}: {key:?}");
    }
    let keys: Vec<_> = (0..random.random_range(1..50)).map(|_| key(random.random_range(0..KEYS + 60))).collect();
    assert!(
        fixture.multi_get(&keys).iter().zip(&keys).all(|(found, key)| found.as_ref() == model.get(key)),
        "seed {seed}"
    );
    let (lower, width) = (random.random_range(0..KEYS), random.random_range(1..100));
    let wanted: Vec<_> =
        model.range(key(lower)..key(lower + width)).map(|(key, value)| (key.clone(), value.clone())).collect();
    let range = || (Bound::Included(key(lower)), Bound::Excluded(key(lower + width)));
    assert_eq!(fixture.collect(range(), false), wanted, "seed {seed}");
    assert!(fixture.collect(range(), true).into_iter().rev().eq(wanted), "seed {seed}");
}

/// Trap 12: conversions, reactivations, compactions and flushes in any order, over several sessions. Flushed records go
/// into runs, into pages, or either at random.
#[test]
fn trap_12_what_was_written_is_read_whatever_shape_its_range_has() {
    let (mut converted, mut compacted, mut diverted) = (0, 0, 0);
    for seed in 0..30 {
        let mut random = SmallRng::seed_from_u64(seed);
        let tree = TreeOptions::default().segment_pages([1, 4, 16][seed as usize % 3]);
        let insert = [Insert::Batch, Insert::Tree, Insert::Auto][seed as usize / 3 % 3];
        let (split, page_fill) =
            ([Split::Side, Split::Down][seed as usize % 2], [PageFill::Even, PageFill::Spread][seed as usize / 2 % 2]);
        let options = AdaptiveOptions { tree, insert, split, page_fill, ..AdaptiveOptions::default() };
        let mut fixture =
            if insert == Insert::Auto { Fixture::restless(seed, options) } else { Fixture::new(seed, options) };
        let mut model = Model::new();
        for _ in 0..150 {
            match random.random_range(0..20) {
                0..7 => write_some(&mut fixture, &mut model, &mut random),
                7..11 => fixture.flush(),
                // A conversion before a compaction is a job of its own.
                11..14 => (0..random.random_range(1..6)).for_each(|_| _ = fixture.environment.scheduler.run_one()),
                14..17 => reshape(&fixture, &mut random),
                17 if random.random_bool(0.3) => {
                    diverted += fixture.stat("records_flushed_to_pages");
                    fixture.reopen();
                }
                _ => check_some(&fixture, &model, &mut random, seed),
            }
        }
        fixture.expect(&model);
        (converted, compacted) = (converted + fixture.stat("paged_ranges"), compacted + fixture.stat("compactions"));
        fixture.reopen();
        fixture.expect(&model);
    }
    assert!(converted > 20 && compacted > 20 && diverted > 1000, "{converted}, {compacted} and {diverted}");
}

/// All runs are gone, and with them the run that `superseded_from` named.
#[test]
fn what_is_flushed_when_all_tables_are_gone_counts() {
    let (mut fixture, mut model) = (Fixture::new(1, AdaptiveOptions::default()), Model::new());
    for round in 0..3_u8 {
        (0..KEYS).for_each(|number| fixture.put(&mut model, number, Some(&[round; 30])));
        fixture.flush();
        fixture.keyspace.convert_to_pages(b"a", b"z").unwrap();
        assert_eq!((fixture.stat("tables"), fixture.stat("paged_ranges")), (0, 1));
        fixture.expect(&model);
        fixture.reopen();
        fixture.expect(&model);
    }
    (0..KEYS).for_each(|number| fixture.put(&mut model, number, None));
    fixture.flush();
    fixture.expect(&model);
    fixture.keyspace.convert_to_pages(b"a", b"z").unwrap();
    assert_eq!(fixture.stat("tables"), 0);
    fixture.expect(&Model::new());
}

#[test]
fn a_bulk_load_into_what_is_covered_comes_above_it() {
    let (mut fixture, mut model) = (Fixture::new(1, AdaptiveOptions::default()), Model::new());
    (0..100).for_each(|number| fixture.put(&mut model, number, Some(&[1; 30])));
    fixture.flush();
    fixture.keyspace.convert_to_pages(b"a", b"z").unwrap();
    let records = (100..2000).map(|number| (key(number), vec![2; 60]));
    model.extend(records.clone());
    assert_eq!(fixture.keyspace.clone().bulk_load(&mut records.map(Ok)).unwrap(), 1900);
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

/// The part of an unfinished run that was converted meanwhile is superseded.
#[test]
fn a_bulk_load_whose_first_keys_are_converted_goes_on_above_them() {
    let (mut fixture, mut model) = (Fixture::new(1, AdaptiveOptions::default()), Model::new());
    // A tombstone behind all loaded keys makes the load write a run instead of the last level.
    fixture.write(b"z", Some(b""));
    fixture.flush();
    fixture.write(b"z", None);
    fixture.flush();
    let keyspace = fixture.keyspace.clone();
    let mut converted = false;
    let mut records = (0..2000).map(|number| {
        if number == 600 {
            assert!(keyspace.lsm.bounds().contains(&key(0)), "a table is there");
            keyspace.convert_to_pages(&key(50), b"y").unwrap();
            converted = keyspace.lsm.bounds().contains(&key(0));
        }
        Ok((key(number), vec![2; 60]))
    });
    assert_eq!(fixture.keyspace.clone().bulk_load(&mut records).unwrap(), 2000);
    assert!(converted, "a part of the run is left");
    model.extend((0..2000).map(|number| (key(number), vec![2; 60])));
    fixture.expect(&model);
    fixture.reopen();
    fixture.expect(&model);
}

/// The same holds after the keyspace is opened again.
#[test]
fn reorganisation_stays_between_the_bounds_of_covers() {
    let (mut fixture, mut model) = (Fixture::new(1, AdaptiveOptions::default()), Model::new());
    (0..KEYS).for_each(|number| fixture.put(&mut model, number, Some(&[1; 90])));
    fixture.flush();
    fixture.keyspace.convert_to_pages(&key(300), &key(330)).unwrap();
    let reorganise = |fixture: &Fixture| {
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        assert!(fixture.keyspace.tree.reorganise(&keys, false).unwrap().is_any);
        assert_eq!(fixture.stat("segments"), 3);
    };
    reorganise(&fixture);
    fixture.expect(&model);
    fixture.reopen();
    reorganise(&fixture);
    fixture.expect(&model);
}

#[test]
fn what_no_table_has_any_more_is_not_converted_again() {
    let (mut fixture, mut model) = (Fixture::new(1, AdaptiveOptions::default()), Model::new());
    (0..KEYS).for_each(|number| fixture.put(&mut model, number, Some(&[1; 30])));
    fixture.flush();
    fixture.keyspace.convert_to_pages(&key(300), &key(600)).unwrap();
    [650, 700].into_iter().for_each(|number| fixture.put(&mut model, number, Some(&[2; 30])));
    fixture.flush();
    let tail = fixture.tail();
    fixture.keyspace.convert_to_pages(&key(300), &key(600)).unwrap();
    assert_eq!(fixture.tail(), tail);
    fixture.expect(&model);
}

/// Segments on both sides of a former bound may be joined.
#[test]
fn bounds_between_covers_that_became_one_are_none_any_more() {
    let (mut fixture, mut model) = (Fixture::new(1, AdaptiveOptions::default()), Model::new());
    (0..KEYS).for_each(|number| fixture.put(&mut model, number, Some(&[1; 30])));
    fixture.flush();
    fixture.keyspace.convert_to_pages(&key(300), &key(330)).unwrap();
    fixture.keyspace.convert_to_pages(&key(330), &key(360)).unwrap();
    assert_eq!((fixture.stat("paged_ranges"), fixture.stat("segments")), (1, 4));
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    assert!(fixture.keyspace.tree.reorganise(&keys, false).unwrap().is_any);
    assert_eq!(fixture.stat("segments"), 3);
    fixture.expect(&model);
}

/// One read of more keys than one lookup batch, in pages, in tables above pages, and in tables alone.
#[test]
fn many_keys_are_found_at_once_whatever_shape_their_ranges_have() {
    let (mut fixture, mut model) = (Fixture::new(2, AdaptiveOptions::default()), Model::new());
    (0..KEYS).for_each(|number| fixture.put(&mut model, number, (number % 5 > 0).then_some(&[1; 90][..])));
    fixture.flush();
    [(50, 350), (400, 700), (710, 790)]
        .into_iter()
        .for_each(|(from, to)| fixture.keyspace.convert_to_pages(&key(from), &key(to)).unwrap());
    (0..KEYS).step_by(3).for_each(|number| fixture.put(&mut model, number, (number % 2 > 0).then_some(&[2; 90][..])));
    fixture.flush();
    let keys: Vec<_> = (0..KEYS + 60).chain(0..KEYS).map(key).collect();
    assert!(fixture.multi_get(&keys).iter().zip(&keys).all(|(found, key)| found.as_ref() == model.get(key)));
}

/// The job lock is not held while all pages of a large range are rewritten for a few records.
#[test]
fn a_piece_has_few_pages_however_little_counts_above_them() {
    let insert = Insert::Batch;
    let (mut fixture, mut model) =
        (Fixture::new(6, AdaptiveOptions { insert, ..AdaptiveOptions::default() }), Model::new());
    (0..4 * KEYS).for_each(|number| fixture.put(&mut model, number, Some(&[1; 100])));
    fixture.flush();
    let (lower, upper) = (key(0), key(4 * KEYS));
    fixture.keyspace.convert_to_pages(&lower, &upper).unwrap();
    [10, 4 * KEYS - 10].into_iter().for_each(|number| fixture.put(&mut model, number, Some(&[2; 100])));
    fixture.flush();
    let (lsm, mut from, mut pieces) = (fixture.keyspace.lsm.lsm().clone(), lower, 0);
    while from < upper {
        from = conversion(&lsm).convert_next_to_pages(Split::Side, (&from, &upper), || ()).unwrap();
        pieces += 1;
    }
    assert!(pieces >= 4, "{pieces} pieces of 64 KiB for {} bytes", model.len() * 108);
    fixture.expect(&model);
}
