//! The search in fences, compared with the hashes themselves.

use rand::SeedableRng;

use super::{super::fences::FencesBuilder, *};

/// Sorted first hashes: spread, in clusters, many equal, or at both ends.
fn firsts(random: &mut SmallRng, count: usize, kind: u32) -> Vec<u64> {
    let mut firsts: Vec<u64> = (0..count)
        .map(|_| match kind {
            0 => random.random(),
            1 => random.random_range(0..3_u64) << 61 | random.random_range(0..1_000),
            2 => random.random_range(0..4_u64) << 40,
            3 => {
                if random.random_bool(0.5) {
                    u64::MAX - random.random_range(0..9)
                } else {
                    random.random_range(0..9)
                }
            }
            _ => 1 << random.random_range(0..64),
        })
        .collect();
    firsts.sort_unstable();
    firsts
}

#[test]
fn every_block_that_can_have_a_hash_is_a_candidate() {
    for seed in 0..300 {
        let mut random = SmallRng::seed_from_u64(seed);
        let (count, memory) = (random.random_range(1..6_000), Memory::new(16 << 20));
        let firsts = firsts(&mut random, count, seed as u32 % 5);
        let mut builder = FencesBuilder::default();
        firsts.iter().for_each(|first| builder.push(&memory, *first).unwrap());
        let fences = builder.finish(&memory).unwrap();
        for _ in 0..1_000 {
            let first = firsts[random.random_range(0..count)];
            let hash = match random.random_range(0..4) {
                0 => random.random(),
                1 => first,
                2 => first.saturating_add(1),
                _ => first.saturating_sub(1),
            };
            let end = firsts.partition_point(|first| *first <= hash);
            let start = if end == 0 { 0 } else { firsts.partition_point(|first| *first < hash).saturating_sub(1) };
            let found = fences.candidates(hash);
            let (low, high) = (found.start as usize, found.end as usize);
            assert!(low <= start && end <= high, "seed {seed}, hash {hash}: {found:?} has not {start}..{end}");
            assert!(end > 0 || found.is_empty(), "seed {seed}: nothing begins that low");
            assert!((low..high).skip(1).all(|block| fences.fits(block as u32, firsts[block])));
        }
    }
}

/// Of spread hashes, few share a number with the first hash of a block.
#[test]
fn of_spread_hashes_one_block_is_enough() {
    let mut random = SmallRng::seed_from_u64(1);
    for count in [64, 100, 2_240, 20_000] {
        let memory = Memory::new(16 << 20);
        let mut builder = FencesBuilder::default();
        firsts(&mut random, count, 0).iter().for_each(|first| builder.push(&memory, *first).unwrap());
        let fences = builder.finish(&memory).unwrap();
        let several = (0..50_000).filter(|_| fences.candidates(random.random()).len() > 1).count();
        assert!(several * 500 < 50_000, "{several} of 50,000 searches have two blocks");
    }
}
