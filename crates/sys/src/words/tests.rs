use std::{panic::AssertUnwindSafe, panic::catch_unwind, thread};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;
use crate::chunk::{Arena, CHUNK_BYTES, Size};

fn words(size: Size) -> Words {
    Words::new(Arena::new(CHUNK_BYTES).lease(size, 0).unwrap())
}

#[test]
fn a_block_of_any_size_becomes_aligned_words_of_zero_and_comes_back() {
    let arena = Arena::new(2 * CHUNK_BYTES);
    for size in [Size::Frame, Size::Slab, Size::Chunk] {
        let mut block = arena.lease(size, 3).unwrap();
        block.fill(0xff);
        let words = Words::new(block);
        assert_eq!((words.len(), words.as_ptr().addr() % 4096), (size.bytes() / WORD, 0));
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        words[words.len() - 1].store(1 << 56, Ordering::Relaxed);
        let block = words.into_block();
        assert_eq!((block.len(), block.tag(), block[size.bytes() - 1]), (size.bytes(), 3, 1));
        assert_eq!(arena.tagged_bytes(3), size.bytes());
    }
    assert_eq!(arena.tagged_bytes(3), 0);
}

#[test]
fn bytes_go_in_and_out_as_in_an_array() {
    let mut random = SmallRng::seed_from_u64(3);
    let (words, mut model) = (words(Size::Frame), vec![0u8; 4096]);
    for _ in 0..3_000 {
        let first = random.random_range(0..512);
        let len = random.random_range(0..=(4096 - first * WORD).min(100));
        let (from, until) = (first * WORD, first * WORD + len);
        if random.random_bool(0.5) {
            let bytes: Vec<u8> = (0..len).map(|_| random.random()).collect();
            words.copy_in(first, &bytes);
            model[from..until].copy_from_slice(&bytes);
            model[until..until.next_multiple_of(WORD)].fill(0);
        } else {
            let mut bytes = vec![0; len];
            words.copy_out(first, &mut bytes);
            assert_eq!(bytes, model[from..until]);
            assert!(words.begin_with(first, &bytes));
            if let Some(byte) = bytes.last_mut() {
                *byte ^= 1;
                assert!(!words.begin_with(first, &bytes));
            }
        }
    }
    assert_eq!(words.into_block()[..], model);
}

#[test]
fn bytes_in_words_compare_as_bytes_do() {
    let (mut random, words) = (SmallRng::seed_from_u64(4), words(Size::Frame));
    for _ in 0..20_000 {
        let key = |random: &mut SmallRng| {
            (0..random.random_range(0..20)).map(|_| random.random::<u8>() & 0x81).collect::<Vec<_>>()
        };
        let (one, mut other) = (key(&mut random), key(&mut random));
        let shared = if random.random_bool(0.5) { random.random_range(0..=one.len().min(other.len())) } else { 0 };
        other[..shared].copy_from_slice(&one[..shared]);
        words.copy_in(3, &one);
        assert_eq!(compare(&words[3..], one.len(), &other), one.cmp(&other), "{one:?}, {other:?}");
    }
}

#[test]
fn what_is_out_of_bounds_panics_and_changes_nothing() {
    let words = words(Size::Frame);
    words.copy_in(511, &[1; 8]);
    words.copy_in(512, &[]);
    let refused = |work: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    refused(&|| words.copy_in(511, &[2; 9]));
    refused(&|| words.copy_in(512, &[2]));
    refused(&|| words.copy_in(513, &[]));
    refused(&|| words.copy_in(usize::MAX, &[2]));
    refused(&|| words.copy_out(511, &mut [0; 9]));
    refused(&|| words.copy_out(usize::MAX, &mut [0]));
    refused(&|| _ = words.begin_with(511, &[1; 9]));
    refused(&|| words[512].store(2, Ordering::Relaxed));
    assert_eq!(words[511].load(Ordering::Relaxed), 0x0101_0101_0101_0101);
}

#[test]
fn threads_add_to_the_same_words() {
    let words = words(Size::Frame);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for turn in 0..4_096 {
                    words[turn % 512].fetch_add(1, Ordering::Relaxed);
                    words.copy_out(turn % 500, &mut [0; 90]);
                }
            });
        }
    });
    assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 32));
}
