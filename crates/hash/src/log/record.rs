//! A record of the hot log in memory: its words, its lock, its seal (hash-protocol.md, "The record").

use ecotone_substrate::{
    limits,
    record_header::{self, HeaderKind, RecordHeader, RecordHeaderWord},
};
use ecotone_sys::{
    prefetch::prefetch_read,
    primitive::atomic::{AtomicU64, Ordering},
    words::{WORD, Words, begin_with, copy_in, copy_out},
};

use super::address::Link;

/// Indexes of words, one in each cache line of a record of a hundred bytes, wherever it begins.
pub(crate) const IN_ITS_LINES: [usize; 3] = [0, 8, 15];
/// Words before the key.
const HEADER_WORDS: usize = 2;

/// The first word of a record: the link to the record before it in its chain, and its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chain(u64);

const CAPACITY_SHIFT: u32 = Link::BITS;
const CAPACITY: u64 = (1 << 8) - 1;

impl Chain {
    fn new(capacity: usize, link: Link) -> Chain {
        Chain((capacity as u64) << CAPACITY_SHIFT | link.bits())
    }

    /// From the word.
    pub(super) const fn from_word(word: u64) -> Chain {
        Chain(word)
    }

    /// The link to the record before it.
    pub(super) const fn link(self) -> Link {
        Link::from_bits(self.0)
    }

    /// Words for key and value; 0 if there is no record.
    pub(super) const fn capacity(self) -> usize {
        (self.0 >> CAPACITY_SHIFT & CAPACITY) as usize
    }

    /// Whether the word may be in a file: it names a record of the log or none, and its reserved bits are zero.
    pub(super) fn is_storable(self) -> bool {
        let capacity = self.capacity();
        capacity <= Record::capacity_for(limits::MAX_RECORD)
            && !self.link().is_cached()
            && self == Chain::new(capacity, self.link())
    }
}

/// A record's words in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    /// From the record's first word to the end of its frame.
    words: &'a [AtomicU64],
}

impl<'a> Record<'a> {
    /// Words that a key and a value of `bytes` bytes together need.
    pub(crate) const fn capacity_for(bytes: usize) -> usize {
        bytes.div_ceil(WORD)
    }

    /// Bytes of a record with this capacity.
    pub(crate) const fn bytes(capacity: usize) -> u64 {
        ((HEADER_WORDS + capacity) * WORD) as u64
    }

    /// The record that begins at word `at`.
    #[inline]
    pub(super) fn new(words: &'a Words, at: usize) -> Record<'a> {
        Record { words: &words[at..] }
    }

    /// Fills a raw record, which no other thread may know yet. Without a value it is a tombstone. The link is set
    /// before the record is made known.
    pub(super) fn fill(&self, key: &[u8], value: Option<&[u8]>) {
        let capacity = Self::capacity_for(key.len() + value.map_or(0, <[u8]>::len));
        copy_in(&self.words[HEADER_WORDS..], key);
        self.set_value(key.len(), value.unwrap_or_default());
        self.state_word().set(RecordHeader::live(key.len(), value.map(<[u8]>::len)));
        self.chain_word().store(Chain::new(capacity, Link::NONE).0, Ordering::Relaxed);
    }

    /// Sets the link of a raw record.
    pub(super) fn set_link(&self, link: Link) {
        let chain = Chain::new(self.capacity(), link);
        self.chain_word().store(chain.0, Ordering::Relaxed);
    }

    /// Gives a raw record up.
    pub(super) fn invalidate(&self) {
        let state = self.state_word();
        state.set(state.peek().with_kind(HeaderKind::Invalid));
    }

    /// The link to the record before it in its chain.
    #[inline]
    pub(crate) fn link(&self) -> Link {
        self.chain().link()
    }

    /// Words for key and value; 0 if there is no record.
    pub(crate) fn capacity(&self) -> usize {
        self.chain().capacity()
    }

    /// Current lengths, kind and seal. The record may be locked.
    pub(crate) fn state(&self) -> RecordHeader {
        self.state_word().load()
    }

    /// Whether the record has this key. The key never changes once the record is live, so that needs no lock.
    #[inline]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        self.state_word().peek().key_len() == key.len() && begin_with(&self.words[HEADER_WORDS..], key)
    }

    /// Copies the key.
    pub(crate) fn read_key(&self, key: &mut Vec<u8>) {
        key.resize(self.state().key_len(), 0);
        copy_out(&self.words[HEADER_WORDS..], key);
    }

    /// Prefetches the record's first cache lines, as far as the frame goes on.
    #[inline]
    pub(crate) fn prefetch(&self) {
        IN_ITS_LINES.iter().filter_map(|word| self.words.get(*word)).for_each(prefetch_read);
    }

    /// Copies a consistent value to `value`, and returns the header that belongs to it.
    #[inline]
    pub(crate) fn read(&self, value: &mut Vec<u8>) -> RecordHeader {
        self.state_word().read(|state| {
            value.resize(state.value_len(), 0);
            self.copy_value(state.key_len(), value);
        })
    }

    /// Locks the record against writers and readers.
    pub(crate) fn lock(&self) -> Locked<'a> {
        Locked { record: *self, lock: self.state_word().lock() }
    }

    /// Locks the record if its header is still `state`.
    pub(crate) fn lock_from(&self, state: RecordHeader) -> Option<Locked<'a>> {
        Some(Locked { record: *self, lock: self.state_word().lock_from(state)? })
    }

    fn chain(&self) -> Chain {
        Chain(self.chain_word().load(Ordering::Relaxed))
    }

    fn chain_word(&self) -> &'a AtomicU64 {
        &self.words[0]
    }

    fn state_word(&self) -> RecordHeaderWord<'a> {
        RecordHeaderWord::new(&self.words[1])
    }

    /// Copies the bytes behind a key of this length.
    #[inline]
    fn copy_value(&self, key_len: usize, value: &mut [u8]) {
        let (words, within) = (&self.words[HEADER_WORDS + key_len / WORD..], key_len % WORD);
        if within == 0 {
            return copy_out(words, value);
        }
        let (head, rest) = value.split_at_mut((WORD - within).min(value.len()));
        let word = words[0].load(Ordering::Relaxed).to_le_bytes();
        head.copy_from_slice(&word[within..][..head.len()]);
        copy_out(&words[1..], rest);
    }

    /// Writes the bytes behind a key of this length. The word in which the key ends keeps the key's bytes.
    fn set_value(&self, key_len: usize, value: &[u8]) {
        let (words, within) = (&self.words[HEADER_WORDS + key_len / WORD..], key_len % WORD);
        if within == 0 {
            return copy_in(words, value);
        }
        let (head, rest) = value.split_at((WORD - within).min(value.len()));
        let mut word = words[0].load(Ordering::Relaxed).to_le_bytes();
        word[within..][..head.len()].copy_from_slice(head);
        words[0].store(u64::from_le_bytes(word), Ordering::Relaxed);
        copy_in(&words[1..], rest);
    }
}

/// A locked record. Dropping it unlocks it.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    record: Record<'a>,
    lock: record_header::Locked<'a>,
}

impl Locked<'_> {
    /// The header when the record was locked.
    pub(crate) fn state(&self) -> RecordHeader {
        self.lock.state()
    }

    /// Whether a value of this length fits.
    pub(crate) fn has_room(&self, value_len: usize) -> bool {
        Record::capacity_for(self.state().key_len() + value_len) <= self.record.capacity()
    }

    /// Copies the value.
    pub(crate) fn read(&self, value: &mut Vec<u8>) {
        value.resize(self.state().value_len(), 0);
        self.record.copy_value(self.state().key_len(), value);
    }

    /// Replaces the value by one that fits, or by none. The record is not sealed, and its address was not below
    /// READ_ONLY under the pin of this change.
    pub(crate) fn replace(&mut self, value: Option<&[u8]>) {
        assert!(!self.state().sealed() && self.has_room(value.map_or(0, <[u8]>::len)));
        self.record.set_value(self.state().key_len(), value.unwrap_or_default());
        self.lock.changed(value.map(<[u8]>::len));
    }

    /// Seals the record: it does not change again.
    pub(crate) fn seal(&mut self) {
        self.lock.seal();
    }
}
