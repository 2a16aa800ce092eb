//! A leased block as atomic words, which many threads read and change at the same time (hash-protocol.md, "What
//! crates/sys offers").
//!
//! Words never take part in I/O themselves: they are copied, word by word, into a separate block before a write.

use std::{cmp, ops::Deref};

#[cfg(any(feature = "shuttle", feature = "loom"))]
use checked::Memory;
#[cfg(not(any(feature = "shuttle", feature = "loom")))]
use plain::Memory;

use crate::{
    chunk::Block,
    primitive::atomic::{AtomicU64, Ordering},
};

/// Bytes of a word.
pub const WORD: usize = size_of::<u64>();

/// The words of a block. Byte *n* of it is byte *n* modulo 8 of its word, the least significant first.
#[derive(Debug)]
pub struct Words(Memory);

impl Words {
    /// Takes the block and fills it with zero.
    pub fn new(block: Block) -> Words {
        Words::filled(block, 0)
    }

    /// Takes the block and sets each of its bytes.
    pub fn filled(mut block: Block, byte: u8) -> Words {
        block.fill(byte);
        Words(Memory::new(block))
    }

    /// Gives the block back. Its bytes are unspecified.
    pub fn into_block(self) -> Block {
        self.0.into_block()
    }

    /// Copies bytes from word `first` on, by relaxed loads. The copy shows one moment only if no thread changes these
    /// words meanwhile.
    ///
    /// # Panics
    /// If there are fewer words.
    #[inline]
    pub fn copy_out(&self, first: usize, bytes: &mut [u8]) {
        copy_out(&self[first..], bytes);
    }

    /// Whether the words from `first` on begin with these bytes, by relaxed loads.
    ///
    /// # Panics
    /// If there are fewer words.
    #[inline]
    pub fn begin_with(&self, first: usize, bytes: &[u8]) -> bool {
        begin_with(&self[first..], bytes)
    }

    /// Copies bytes to the words from `first` on, by relaxed stores. The last word is filled up with zeros.
    ///
    /// # Panics
    /// If there are fewer words; then none is changed.
    #[inline]
    pub fn copy_in(&self, first: usize, bytes: &[u8]) {
        copy_in(&self[first..], bytes);
    }
}

/// Copies bytes from the first of some words, as [`Words::copy_out`].
///
/// # Panics
/// If there are fewer words.
#[inline]
pub fn copy_out(words: &[AtomicU64], bytes: &mut [u8]) {
    let words = &words[..bytes.len().div_ceil(WORD)];
    let (whole, rest) = bytes.as_chunks_mut::<WORD>();
    for (word, bytes) in words.iter().zip(&mut *whole) {
        *bytes = word.load(Ordering::Relaxed).to_le_bytes();
    }
    if let Some(last) = words.get(whole.len()) {
        rest.copy_from_slice(&last.load(Ordering::Relaxed).to_le_bytes()[..rest.len()]);
    }
}

/// Whether some words begin with these bytes, as [`Words::begin_with`].
///
/// # Panics
/// If there are fewer words.
#[inline]
pub fn begin_with(words: &[AtomicU64], bytes: &[u8]) -> bool {
    let words = &words[..bytes.len().div_ceil(WORD)];
    let (whole, rest) = bytes.as_chunks::<WORD>();
    let word = |place: usize| words[place].load(Ordering::Relaxed).to_le_bytes();
    whole.iter().enumerate().all(|(place, part)| word(place) == *part)
        && (rest.is_empty() || word(whole.len())[..rest.len()] == *rest)
}

/// How the first `len` bytes of some words compare with these bytes, by relaxed loads.
///
/// # Panics
/// If there are fewer words.
#[inline]
pub fn compare(words: &[AtomicU64], len: usize, bytes: &[u8]) -> cmp::Ordering {
    let words = &words[..len.div_ceil(WORD)];
    // A word has its first byte lowest, while the order of bytes compares the first byte first.
    let (whole, rest) = bytes.as_chunks::<WORD>();
    let both = len.min(bytes.len()) / WORD;
    for (word, bytes) in words[..both].iter().zip(whole) {
        let order = word.load(Ordering::Relaxed).swap_bytes().cmp(&u64::from_be_bytes(*bytes));
        if order.is_ne() {
            return order;
        }
    }
    let ends = words.get(both).map_or([0; WORD], |word| word.load(Ordering::Relaxed).to_le_bytes());
    let other = whole.get(both).map_or(rest, |word| &word[..]);
    ends[..(len - both * WORD).min(WORD)].cmp(other).then(len.cmp(&bytes.len()))
}

/// Copies bytes to the first of some words, as [`Words::copy_in`].
///
/// # Panics
/// If there are fewer words; then none is changed.
#[inline]
pub fn copy_in(words: &[AtomicU64], bytes: &[u8]) {
    let words = &words[..bytes.len().div_ceil(WORD)];
    let (whole, rest) = bytes.as_chunks::<WORD>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    if let Some(last) = words.get(whole.len()) {
        let mut filled = [0; WORD];
        filled[..rest.len()].copy_from_slice(rest);
        last.store(u64::from_le_bytes(filled), Ordering::Relaxed);
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

#[cfg(not(any(feature = "shuttle", feature = "loom")))]
mod plain {
    use std::slice;

    use super::{AtomicU64, Block, WORD};

    /// A block whose bytes no thread reads as bytes while it is here.
    #[derive(Debug)]
    pub(super) struct Memory(Block);

    // The cast below relies on this.
    const _: () = assert!(size_of::<AtomicU64>() == WORD && align_of::<AtomicU64>() <= 4096);

    impl Memory {
        pub(super) fn new(block: Block) -> Memory {
            Memory(block)
        }

        pub(super) fn into_block(self) -> Block {
            self.0
        }

        #[inline]
        pub(super) fn words(&self) -> &[AtomicU64] {
            let count = self.0.bytes() / WORD;
            // SAFETY: a block starts at a multiple of 4096, and its `count` words are initialised, mapped until its
            // drop, and leased to it alone. An atomic word has size and bit validity of a `u64`, for which any bits
            // will do. No reference to the bytes exists while the block is in here (it came by value, leaves by value,
            // and `start` and `bytes` make none), so all who change a word meanwhile do it through these atomics. The
            // answer is borrowed as the block is.
            unsafe { slice::from_raw_parts(self.0.start().cast().as_ptr(), count) }
        }
    }
}

#[cfg(any(feature = "shuttle", feature = "loom"))]
mod checked {
    use super::{AtomicU64, Block, WORD};
    use crate::primitive::unless_loom;

    /// Words of the tool that chooses the orders, and the block, which is kept only for its accounting.
    #[derive(Debug)]
    pub(super) struct Memory {
        words: Box<[AtomicU64]>,
        block: Block,
    }

    impl Memory {
        pub(super) fn new(block: Block) -> Memory {
            // With loom so few that all orders can be tried.
            let count = unless_loom(block.len() / WORD, super::LOOM_WORDS);
            let filled = u64::from_ne_bytes([block[0]; WORD]);
            Memory { words: (0..count).map(|_| AtomicU64::new(filled)).collect(), block }
        }

        pub(super) fn into_block(self) -> Block {
            self.block
        }

        pub(super) fn words(&self) -> &[AtomicU64] {
            &self.words
        }
    }
}

/// Words of any block in a model of loom.
#[cfg(any(feature = "shuttle", feature = "loom"))]
pub const LOOM_WORDS: usize = 16;

#[cfg(test)]
#[cfg(not(any(feature = "shuttle", feature = "loom")))]
mod tests;
