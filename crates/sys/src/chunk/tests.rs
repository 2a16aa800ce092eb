use std::{collections::BTreeMap, thread};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;

const SIZES: [Size; 3] = [Size::Frame, Size::Slab, Size::Chunk];

/// Blocks with the byte that each was filled with.
type Leased = Vec<(Block, u8)>;

fn check_counters(arena: &Arena, leased: &Leased) {
    let mut tagged = BTreeMap::new();
    for (block, _) in leased {
        *tagged.entry(block.tag()).or_insert(0) += block.len();
    }
    let total: usize = tagged.values().sum();
    for tag in 0..TAGS as u8 {
        assert_eq!(arena.tagged_bytes(tag), tagged.get(&tag).copied().unwrap_or(0), "tag {tag}");
    }
    assert_eq!(arena.free_bytes(), arena.capacity_bytes() - total);
    assert!(arena.held_bytes() >= total && arena.held_bytes() <= arena.capacity_bytes());
    assert_eq!(arena.held_bytes() == 0, total == 0, "what is wholly free is unmapped");
}

fn check_places(leased: &Leased) {
    let mut ranges: Vec<_> = leased.iter().map(|(block, _)| (block.as_ptr().addr(), block.len())).collect();
    ranges.sort_unstable();
    assert!(ranges.iter().all(|(start, len)| start.is_multiple_of(if *len < 4096 { CELL_BYTES } else { 4096 })));
    assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "two blocks overlap");
}

fn lease_and_fill(arena: &Arc<Arena>, random: &mut SmallRng, leased: &mut Leased) {
    let size = SIZES[[0, 0, 0, 0, 0, 0, 1, 1, 1, 2][random.random_range(0..10)]];
    let tag = random.random_range(0..TAGS as u8);
    match arena.lease(size, tag) {
        Some(mut block) => {
            assert_eq!((block.len(), block.tag()), (size.bytes(), tag));
            let fill = random.random();
            block.fill(fill);
            leased.push((if random.random_bool(0.5) { cut(block, random) } else { block }, fill));
        }
        None => assert_eq!(arena.held_bytes(), arena.capacity_bytes(), "refused with chunks left"),
    }
}

/// Cuts a block, if it is a frame, to some of its bytes.
fn cut(block: Block, random: &mut SmallRng) -> Block {
    let (before, bytes, tag) = (block.len(), random.random_range(0..=Size::Frame.bytes()), block.tag());
    let block = block.cut(bytes);
    let left = if before == Size::Frame.bytes() { cut_bytes(bytes) } else { before };
    assert_eq!((block.len(), block.tag()), (left, tag), "{before} {bytes}");
    block
}

fn drop_one(random: &mut SmallRng, leased: &mut Leased) {
    if !leased.is_empty() {
        let (block, fill) = leased.swap_remove(random.random_range(0..leased.len()));
        assert!(block.iter().all(|byte| *byte == fill), "somebody else wrote into a leased block");
    }
}

#[test]
fn random_leases_follow_the_model() {
    let mut random = SmallRng::seed_from_u64(2);
    let (arena, mut leased) = (Arena::new(6 * CHUNK_BYTES), Leased::new());
    for round in 0..4_000 {
        // Growing and shrinking phases, so that the arena is both full and empty at times.
        let grow = if round / 500 % 2 == 0 { 0.7 } else { 0.3 };
        match random.random_bool(grow) {
            true => lease_and_fill(&arena, &mut random, &mut leased),
            false => drop_one(&mut random, &mut leased),
        }
        if let Some((block, _)) = leased.first_mut() {
            block.retag(random.random_range(0..TAGS as u8));
        }
        check_counters(&arena, &leased);
        if round % 50 == 0 {
            check_places(&leased);
        }
    }
    leased.clear();
    check_counters(&arena, &leased);
}

#[test]
fn the_capacity_holds_for_every_size() {
    for size in SIZES {
        let arena = Arena::new(2 * CHUNK_BYTES + CHUNK_BYTES / 2);
        assert_eq!(arena.capacity_bytes(), 2 * CHUNK_BYTES);
        let mut leased: Vec<_> = std::iter::from_fn(|| arena.lease(size, 0)).collect();
        assert_eq!(leased.len() * size.bytes(), arena.capacity_bytes(), "{size:?}");
        assert_eq!((arena.held_bytes(), arena.free_bytes()), (arena.capacity_bytes(), 0));
        leased.pop();
        assert!(arena.lease(size, 0).is_some());
    }
    assert!(Arena::new(CHUNK_BYTES - 1).lease(Size::Frame, 0).is_none());
    assert!(Arena::new(0).lease(Size::Frame, 0).is_none());
}

#[test]
fn small_blocks_share_chunks_and_the_upper_chunks_come_free() {
    let arena = Arena::new(8 * CHUNK_BYTES);
    let mut frames: Vec<_> = std::iter::from_fn(|| arena.lease(Size::Frame, 0)).take(4 * 256).collect();
    assert_eq!(arena.held_bytes(), 4 * CHUNK_BYTES);
    // One frame of each chunk is left. New frames fill the lowest chunk, so that an upper chunk becomes free when its
    // own frame is given back.
    let mut number = 0;
    frames.retain(|_| {
        number += 1;
        number % 256 == 1
    });
    assert_eq!(arena.held_bytes(), 4 * CHUNK_BYTES);
    frames.extend(std::iter::from_fn(|| arena.lease(Size::Frame, 0)).take(255));
    frames.drain(1..4);
    assert_eq!(arena.held_bytes(), 2 * CHUNK_BYTES, "the lower two, which are mapped together");
}

#[test]
fn chunks_are_mapped_in_aligned_pairs_and_an_odd_one_alone() {
    let arena = Arena::new(5 * CHUNK_BYTES);
    let mut chunks: Vec<_> = std::iter::from_fn(|| arena.lease(Size::Chunk, 0)).collect();
    let address = |chunks: &[Block], i: usize| chunks[i].as_ptr().addr();
    for pair in [0, 2] {
        assert_eq!(address(&chunks, pair) % (2 * CHUNK_BYTES), 0);
        assert_eq!(address(&chunks, pair + 1), address(&chunks, pair) + CHUNK_BYTES);
    }
    assert_eq!((chunks.len(), arena.held_bytes()), (5, 5 * CHUNK_BYTES));
    for (left, held) in [(4, 4), (3, 4), (2, 2), (1, 2), (0, 0)] {
        chunks.pop();
        assert_eq!((chunks.len(), arena.held_bytes()), (left, held * CHUNK_BYTES));
    }
}

#[test]
fn a_slab_of_frames_is_a_slab_again_when_they_are_gone() {
    let arena = Arena::new(CHUNK_BYTES);
    let frames: Vec<_> = std::iter::from_fn(|| arena.lease(Size::Frame, 0)).take(16).collect();
    let slabs: Vec<_> = std::iter::from_fn(|| arena.lease(Size::Slab, 0)).collect();
    assert_eq!(slabs.len(), 15);
    drop(frames);
    assert!(arena.lease(Size::Slab, 0).is_some());
    assert!(arena.lease(Size::Chunk, 0).is_none());
    drop(slabs);
    assert!(arena.lease(Size::Chunk, 0).is_some());
}

#[test]
fn new_memory_is_zero_and_used_memory_is_not_lost() {
    let arena = Arena::new(CHUNK_BYTES);
    let mut first = arena.lease(Size::Slab, 0).unwrap();
    let second = arena.lease(Size::Frame, 0).unwrap();
    assert!(first.iter().chain(second.iter()).all(|byte| *byte == 0));
    first.fill(7);
    drop(first);
    assert!(arena.lease(Size::Slab, 0).unwrap().iter().all(|byte| *byte == 7), "the chunk stayed mapped");
}

#[test]
fn what_is_cut_shares_frames_and_a_frame_is_whole_again_when_all_of_it_is_gone() {
    let arena = Arena::new(CHUNK_BYTES);
    let cut = |fill: u8| {
        let mut block = arena.lease(Size::Frame, 0).unwrap();
        block.fill(fill);
        block.cut(5 * CELL_BYTES)
    };
    // Three of these fit a frame.
    let blocks: Vec<_> = (0..9).map(cut).collect();
    assert_eq!((arena.free_bytes(), arena.tagged_bytes(0)), (CHUNK_BYTES - 45 * CELL_BYTES, 45 * CELL_BYTES));
    let mut frames: Vec<_> = std::iter::from_fn(|| arena.lease(Size::Frame, 1)).collect();
    assert_eq!(frames.len(), 253);
    assert!(blocks.iter().zip(0..).all(|(block, fill)| block.iter().all(|byte| *byte == fill)));
    // A hole is used before another frame is cut; a block that fits a hole needs no new frame.
    let mut blocks: Vec<_> =
        blocks.into_iter().enumerate().filter(|(number, _)| number % 3 != 1).map(|(_, block)| block).collect();
    frames.pop();
    blocks.extend((9..12).map(cut));
    assert!(arena.lease(Size::Frame, 1).is_some());
    assert_eq!(blocks.remove(0).cut(1).len(), 5 * CELL_BYTES, "what is cut is no frame any more");
    drop(blocks);
    frames.extend(std::iter::from_fn(|| arena.lease(Size::Frame, 1)));
    assert_eq!((frames.len(), arena.free_bytes()), (256, 0));
}

#[test]
fn what_is_kept_stays_whole() {
    let arena = Arena::new(4 * CHUNK_BYTES);
    let elastic = || arena.lease_keeping(Size::Frame, 0, CHUNK_BYTES);
    let mut frames: Vec<_> = std::iter::from_fn(elastic).collect();
    assert_eq!(frames.len(), 3 * 256);
    // Half of the bytes are free now, in fragments; they do not touch the kept chunk.
    let mut number = 0;
    frames.retain(|_| {
        number += 1;
        number % 2 == 0
    });
    assert!(arena.lease_keeping(Size::Slab, 0, CHUNK_BYTES).is_none());
    let essential = arena.lease(Size::Chunk, 1).unwrap();
    assert!(elastic().is_some());
    let rest: Vec<_> = std::iter::from_fn(elastic).collect();
    assert_eq!(arena.free_bytes(), CHUNK_BYTES, "the bytes kept are free, in whatever pieces");
    drop((essential, rest));
}

#[test]
fn a_wrong_tag_takes_nothing() {
    let arena = Arena::new(CHUNK_BYTES);
    let lease = std::panic::AssertUnwindSafe(|| arena.lease(Size::Frame, TAGS as u8));
    assert!(std::panic::catch_unwind(lease).is_err());
    assert_eq!((arena.held_bytes(), arena.free_bytes()), (0, CHUNK_BYTES));
}

#[test]
fn threads_share_an_arena() {
    let arena = Arena::new(8 * CHUNK_BYTES);
    thread::scope(|scope| {
        for seed in 0..4 {
            let arena = &arena;
            scope.spawn(move || {
                let (mut random, mut leased) = (SmallRng::seed_from_u64(seed), Leased::new());
                for _ in 0..2_000 {
                    match random.random_bool(0.5) && leased.len() < 40 {
                        true => lease_and_fill_any(arena, &mut random, &mut leased),
                        false => drop_one(&mut random, &mut leased),
                    }
                }
            });
        }
    });
    assert_eq!((arena.held_bytes(), arena.free_bytes()), (0, arena.capacity_bytes()));
}

/// As `lease_and_fill`, but other threads may cause a refusal, and may change its reason before this thread can look.
fn lease_and_fill_any(arena: &Arc<Arena>, random: &mut SmallRng, leased: &mut Leased) {
    let size = if random.random_bool(0.9) { Size::Frame } else { Size::Slab };
    if let Some(mut block) = arena.lease(size, 3) {
        let fill = random.random();
        block.fill(fill);
        leased.push((block, fill));
    }
}
