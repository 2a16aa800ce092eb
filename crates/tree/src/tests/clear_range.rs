//! Cleared ranges, and their pinned boundaries.

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::fixture::{Fixture, Model, Records, over};
use crate::TreeOptions;

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A tree with many records.
fn filled(seed: u64, random: &mut SmallRng) -> (Fixture, Model) {
    let segment_pages = [1, 3, 16][random.random_range(0..3)];
    let (fixture, mut model) =
        (Fixture::new(seed, TreeOptions { segment_pages, ..TreeOptions::default() }), Model::new());
    let records: Records =
        (0..8000).map(|number| (key(number), Some(vec![number as u8; random.random_range(0..200)]))).collect();
    fixture.ingest(&records).unwrap();
    over(&mut model, &records);
    (fixture, model)
}

#[test]
fn a_range_that_was_carved_is_one_empty_segment_and_what_its_neighbours_had_in_common_with_it_is_gone() {
    for seed in 0..12 {
        let mut random = SmallRng::seed_from_u64(seed);
        let (fixture, mut model) = filled(seed, &mut random);
        for _ in 0..4 {
            let (lower, width) = (random.random_range(0..8000), random.random_range(1..4000));
            let (lower, upper) = (key(lower), (seed % 3 > 0).then(|| key(lower + width)));
            let before = fixture.fences();
            let first = before.iter().rfind(|fence| **fence <= lower).unwrap().clone();
            let end = upper.as_ref().and_then(|upper| before.iter().find(|fence| *fence >= upper)).cloned();
            fixture.tree.clear_range(&lower, upper.as_deref()).unwrap();
            model.retain(|key, _| *key < first || end.as_ref().is_some_and(|end| key >= end));
            fixture.expect(&model);
            let after = fixture.fences();
            assert!(after.contains(&lower) && upper.iter().all(|upper| after.contains(upper)));
            let next = after.iter().find(|fence| **fence > lower);
            assert_eq!(next, upper.as_ref(), "seed {seed}");
        }
    }
}

#[test]
fn what_is_ingested_into_a_range_that_was_carved_stays_between_its_walls() {
    for seed in 0..12 {
        let mut random = SmallRng::seed_from_u64(seed);
        let (fixture, mut model) = filled(seed, &mut random);
        let boundaries: Vec<Vec<u8>> = [1000, 2000, 3000, 5000].map(key).to_vec();
        for pair in boundaries.chunks(2) {
            let first = fixture.fences().into_iter().rfind(|fence| *fence <= pair[0]).unwrap();
            let end = fixture.fences().into_iter().find(|fence| *fence >= pair[1]).unwrap();
            fixture.tree.clear_range(&pair[0], Some(&pair[1])).unwrap();
            model.retain(|key, _| *key < first || *key >= end);
        }
        for _ in 0..12 {
            let range = [1000..2000, 3000..5000][random.random_range(0..2)].clone();
            let numbers =
                (0..random.random_range(1..1500)).map(|_| random.random_range(range.clone())).collect::<Vec<_>>();
            let is_deleting = random.random_bool(0.4);
            let value = || (!is_deleting).then(|| vec![seed as u8; 150]);
            let records: Records = numbers.into_iter().map(|number| (key(number), value())).collect();
            fixture.ingest(&records).unwrap();
            over(&mut model, &records);
            // Merges small pages and pages with overflow pages with their neighbours, except across a pinned boundary.
            fixture.tree.reorganise(&fixture.fences(), random.random()).unwrap();
            let fences = fixture.fences();
            assert!(boundaries.iter().all(|boundary| fences.contains(boundary)), "seed {seed}");
        }
        fixture.expect(&model);
    }
}
