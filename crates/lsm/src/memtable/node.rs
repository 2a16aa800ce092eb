//! A node of the skip list: a key, the links to the next nodes, and the address of the key's present record. A record
//! that a new value does not fit into is replaced by another one elsewhere in the arena (lsm.md, "Memtable").
//!
//! ```text
//! node:   front | links, one for each level | key | its first record
//! record: state | sequence | value
//! ```

use std::cmp::Ordering as Order;

use ecotone_substrate::{
    Seq,
    record_header::{RecordHeader, RecordHeaderWord},
    table::Answer,
};
use ecotone_sys::{
    prefetch::prefetch_read,
    primitive::atomic::{AtomicU64, Ordering},
    words::{WORD, compare, copy_in, copy_out},
};

use crate::memtable::arena::Address;

/// Offsets of the words that begin a node's first cache lines. A short record lies in these lines too.
const LINES: [usize; 3] = [0, 8, 16];
/// Words of a record before its value.
const RECORD: usize = 2;
/// Placeholder for the key length in a record's header: the key is in the node, so the header describes the value
/// alone.
const NO_KEY: usize = 1;

/// The first word of a node: the address of its record, the words that the record has for a value, the node's height,
/// and the length of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeHeader(u64);

const ROOM_SHIFT: u32 = 32;
const HEIGHT_SHIFT: u32 = 40;
const KEY_SHIFT: u32 = 44;

impl NodeHeader {
    fn new(record: Address, room: usize, height: usize, key_len: usize) -> NodeHeader {
        let (record, room) = (u64::from(record.bits()), (room as u64) << ROOM_SHIFT);
        NodeHeader(record | room | (height as u64) << HEIGHT_SHIFT | (key_len as u64) << KEY_SHIFT)
    }

    fn record(self) -> Address {
        Address::from_bits(self.0 as u32)
    }

    fn room(self) -> usize {
        (self.0 >> ROOM_SHIFT & 0xff) as usize
    }

    fn height(self) -> usize {
        (self.0 >> HEIGHT_SHIFT & 0xf) as usize
    }

    fn key_len(self) -> usize {
        (self.0 >> KEY_SHIFT) as usize
    }

    fn with_record(self, record: Address, room: usize) -> NodeHeader {
        NodeHeader::new(record, room, self.height(), self.key_len())
    }
}

/// Words that a value takes.
pub(super) fn room_for(value: Option<&[u8]>) -> usize {
    value.map_or(0, <[u8]>::len).div_ceil(WORD)
}

/// Words of a record with `room` words for the value.
pub(super) fn record_words(room: usize) -> usize {
    RECORD + room
}

/// Words of a node with its first record.
pub(super) fn node_words(height: usize, key: &[u8], room: usize) -> usize {
    1 + height + key.len().div_ceil(WORD) + record_words(room)
}

/// The words of a node, to the end of its slab.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a>(pub(super) &'a [AtomicU64]);

impl<'a> Node<'a> {
    /// Fills a node that is not published yet, except its links.
    pub(super) fn fill(self, at: Address, height: usize, key: &[u8], value: Option<&[u8]>, seq: Seq) {
        let (before, room) = (1 + height + key.len().div_ceil(WORD), room_for(value));
        copy_in(&self.0[1 + height..], key);
        Record(&self.0[before..]).fill(value, seq);
        self.0[0].store(NodeHeader::new(at.plus(before), room, height, key.len()).0, Ordering::Relaxed);
    }

    /// The link to the next node of a level, which is below the height.
    #[inline]
    pub(super) fn link(self, level: usize) -> &'a AtomicU64 {
        &self.0[1 + level]
    }

    #[inline]
    fn front(self) -> NodeHeader {
        // Acquire: the record was filled before its address was stored.
        NodeHeader(self.0[0].load(Ordering::Acquire))
    }

    /// Compares its key with this one.
    #[inline]
    pub(super) fn compare(self, key: &[u8]) -> Order {
        let front = NodeHeader(self.0[0].load(Ordering::Relaxed));
        compare(&self.0[1 + front.height()..], front.key_len(), key)
    }

    /// Prefetches its first cache lines, as far as its slab reaches.
    #[inline]
    pub(super) fn prefetch(self) {
        LINES.iter().filter_map(|word| self.0.get(*word)).for_each(prefetch_read);
    }

    /// Copies its key.
    pub(super) fn read_key(self, key: &mut Vec<u8>) {
        let front = self.front();
        key.resize(front.key_len(), 0);
        copy_out(&self.0[1 + front.height()..], key);
    }

    /// The address of its present record, and the words that the record has for a value.
    pub(super) fn record(self) -> (Address, usize) {
        let front = self.front();
        (front.record(), front.room())
    }

    /// Sets its record, which has been filled. Only the thread that holds the key's stripe calls this.
    pub(super) fn set_record(self, record: Address, room: usize) {
        let front = NodeHeader(self.0[0].load(Ordering::Relaxed)).with_record(record, room);
        self.0[0].store(front.0, Ordering::Release);
    }
}

/// The words of a record, to the end of its slab.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a>(pub(super) &'a [AtomicU64]);

impl<'a> Record<'a> {
    fn state(self) -> RecordHeaderWord<'a> {
        RecordHeaderWord::new(&self.0[0])
    }

    /// Fills a record that is not published yet. A value of `None` is a tombstone.
    pub(super) fn fill(self, value: Option<&[u8]>, seq: Seq) {
        self.write(value, seq);
        self.state().set(RecordHeader::live(NO_KEY, value.map(<[u8]>::len)));
    }

    /// Replaces its value by another one that fits, or by a tombstone.
    pub(super) fn replace(self, value: Option<&[u8]>, seq: Seq) {
        let mut locked = self.state().lock();
        self.write(value, seq);
        locked.changed(value.map(<[u8]>::len));
    }

    fn write(self, value: Option<&[u8]>, seq: Seq) {
        self.0[1].store(seq, Ordering::Relaxed);
        copy_in(&self.0[RECORD..], value.unwrap_or_default());
    }

    /// Copies the value and the sequence of one moment, though writers may replace them meanwhile.
    pub(super) fn read(self, value: &mut Vec<u8>) -> (Answer, Seq) {
        let mut seq = 0;
        let state = self.state().read(|state| {
            value.resize(state.value_len(), 0);
            copy_out(&self.0[RECORD..], value);
            seq = self.0[1].load(Ordering::Relaxed);
        });
        (if state.has_value() { Answer::Value } else { Answer::Deleted }, seq)
    }
}
