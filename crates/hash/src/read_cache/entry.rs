//! A read-cache entry: a copy of a record that is not in memory, as one word, the key and the value (hash-protocol.md,
//! "Read cache").
//!
//! The word holds the link to the next record of the chain (bits 0 to 40), the key's length less one (41 to 50), the
//! value's length (51 to 61), and the number of recent uses (62 and 63). Key and value begin at a word each. Once an
//! entry is known, readers count uses, eviction changes the link, and nothing else changes.

use ecotone_sys::{
    prefetch::prefetch_read,
    primitive::atomic::{AtomicU64, Ordering},
    words::{WORD, Words},
};

use crate::log::{IN_ITS_LINES, Link};

const KEY_LEN_SHIFT: u32 = Link::BITS;
const KEY_LEN: u64 = (1 << 10) - 1;
const VALUE_LEN_SHIFT: u32 = KEY_LEN_SHIFT + 10;
const VALUE_LEN: u64 = (1 << 11) - 1;
const USES_SHIFT: u32 = VALUE_LEN_SHIFT + 11;
/// Largest number of uses that is counted.
const MOST_USES: u64 = 3;

/// The words of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedRecord<'a> {
    words: &'a Words,
    at: usize,
}

/// The first word.
#[derive(Debug, Clone, Copy)]
struct Header(u64);

impl Header {
    fn new(key_len: usize, value_len: usize, link: Link, uses: u64) -> Header {
        let lengths = (key_len as u64 - 1) << KEY_LEN_SHIFT | (value_len as u64) << VALUE_LEN_SHIFT;
        Header(lengths | uses << USES_SHIFT | link.bits())
    }

    fn link(self) -> Link {
        Link::from_bits(self.0)
    }

    fn with_link(self, link: Link) -> Header {
        Header(self.0 >> Link::BITS << Link::BITS | link.bits())
    }

    fn uses(self) -> u64 {
        self.0 >> USES_SHIFT
    }

    fn with_use(self) -> Header {
        Header(self.0 + (1 << USES_SHIFT))
    }

    fn key_len(self) -> usize {
        (self.0 >> KEY_LEN_SHIFT & KEY_LEN) as usize + 1
    }

    fn value_len(self) -> usize {
        (self.0 >> VALUE_LEN_SHIFT & VALUE_LEN) as usize
    }
}

impl<'a> CachedRecord<'a> {
    /// Words that an entry takes.
    pub(super) const fn words(key_len: usize, value_len: usize) -> u64 {
        (1 + key_len.div_ceil(WORD) + value_len.div_ceil(WORD)) as u64
    }

    /// The entry at word `at`, which must exist.
    #[inline]
    pub(super) fn new(words: &'a Words, at: usize) -> CachedRecord<'a> {
        CachedRecord { words, at }
    }

    /// The entry at word `at`. `None` if the word is zero: no entry begins there, since no link is zero.
    pub(super) fn at(words: &'a Words, at: usize) -> Option<CachedRecord<'a>> {
        (words[at].load(Ordering::Acquire) != 0).then_some(CachedRecord { words, at })
    }

    /// Fills an entry that no other thread knows yet.
    pub(super) fn fill(&self, key: &[u8], value: &[u8], link: Link, uses: u64) {
        self.words.copy_in(self.at + 1, key);
        self.words.copy_in(self.at + 1 + key.len().div_ceil(WORD), value);
        self.word().store(Header::new(key.len(), value.len(), link, uses).0, Ordering::Release);
    }

    /// Prefetches the entry's first cache lines, as far as the frame goes on.
    #[inline]
    pub(super) fn prefetch(&self) {
        IN_ITS_LINES.iter().filter_map(|word| self.words.get(self.at + word)).for_each(prefetch_read);
    }

    /// The link to the next record of the chain. That record may be read.
    pub(super) fn link(&self) -> Link {
        self.header().link()
    }

    /// Replaces the link `from` by `to`. Returns whether the link was `from`. Only eviction calls this.
    pub(super) fn relink(&self, from: Link, to: Link) -> bool {
        let mut header = self.header();
        while header.link() == from {
            // Readers may count a use meanwhile.
            let changed = header.with_link(to);
            match self.word().compare_exchange(header.0, changed.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => header = Header(now),
            }
        }
        false
    }

    /// Number of recent uses.
    pub(super) fn uses(&self) -> u64 {
        self.header().uses()
    }

    /// Counts a use. Of simultaneous uses one is counted.
    pub(super) fn mark_use(&self) {
        let header = Header(self.word().load(Ordering::Relaxed));
        if header.uses() < MOST_USES {
            let _ = self.word().compare_exchange(header.0, header.with_use().0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether the entry has this key.
    #[inline]
    pub(super) fn has_key(&self, key: &[u8]) -> bool {
        self.header().key_len() == key.len() && self.words.begin_with(self.at + 1, key)
    }

    /// Copies the key.
    pub(super) fn read_key(&self, key: &mut Vec<u8>) {
        key.resize(self.header().key_len(), 0);
        self.words.copy_out(self.at + 1, key);
    }

    /// Copies the value.
    #[inline]
    pub(crate) fn read(&self, value: &mut Vec<u8>) {
        let header = self.header();
        value.resize(header.value_len(), 0);
        self.words.copy_out(self.at + 1 + header.key_len().div_ceil(WORD), value);
    }

    /// Words that the entry takes.
    pub(super) fn len(&self) -> u64 {
        let header = self.header();
        Self::words(header.key_len(), header.value_len())
    }

    fn header(&self) -> Header {
        Header(self.word().load(Ordering::Acquire))
    }

    fn word(&self) -> &'a AtomicU64 {
        &self.words[self.at]
    }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use super::*;
    use crate::log::{
        Address, PAGE,
        tests::{arena, block},
    };

    #[test]
    fn a_copy_is_what_was_put_into_it_whatever_its_lengths() {
        let words = Words::new(block(&arena()));
        let links = [Link::NONE, Link::to_cached(u64::MAX), Link::to(Address::new(PAGE + 16))];
        let lengths = [(1, 0), (1, 1899), (8, 100), (1024, 876), (1024, 0), (17, 9)];
        for ((key_len, value_len), link) in lengths.into_iter().zip(links.into_iter().cycle()) {
            let (key, value) = (vec![7; key_len], vec![9; value_len]);
            let copy = CachedRecord::new(&words, 3);
            copy.fill(&key, &value, link, 1);
            let (mut read_key, mut read_value) = (vec![1], vec![2; 3]);
            copy.read_key(&mut read_key);
            copy.read(&mut read_value);
            assert_eq!((&read_key, &read_value, copy.link(), copy.uses()), (&key, &value, link, 1));
            assert_eq!(copy.len(), CachedRecord::words(key_len, value_len));
            assert!(copy.has_key(&key) && !copy.has_key(&key[1..]) && !copy.has_key(&[&key[..], &[0]].concat()));
        }
        assert_eq!(CachedRecord::words(8, 100) * WORD as u64, 120, "bytes of a copy of 8 and 100");
        assert!(CachedRecord::at(&words, 2).is_none() && CachedRecord::at(&words, 3).is_some());
    }

    #[test]
    fn uses_are_counted_up_to_three_and_a_change_of_the_link_keeps_them() {
        let words = Words::new(block(&arena()));
        let copy = CachedRecord::new(&words, 0);
        copy.fill(b"key", b"value", Link::NONE, 0);
        for uses in [1, 2, 3, 3] {
            copy.mark_use();
            assert_eq!(copy.uses(), uses);
        }
        let link = Link::to_cached(5);
        assert!(!copy.relink(link, Link::NONE) && copy.relink(Link::NONE, link));
        assert_eq!((copy.link(), copy.uses(), copy.len()), (link, 3, 3));
    }
}
