//! A block of a run: records in hash order, with a slot array that narrows the search (`docs/format/hash.md`, "Run").

use std::{cmp::Ordering, ops::Range, result};

use ecotone_substrate::{
    Result,
    codec::{Malformed, Reader, is_zero, put_length, varint_len},
    limits::{MAX_KEY, MAX_RECORD},
    memory::{Component, Memory},
    storage,
    table::BlockAddress,
};
use ecotone_sys::chunk::Size;

const HEADER: usize = 16;
const SLOT: usize = 4;
/// Kinds of records.
const VALUE: u8 = 1;
const TOMBSTONE: u8 = 2;

/// Bytes of a record in a block, including its slot.
pub fn record_bytes(key: usize, value: usize) -> usize {
    SLOT + 1 + varint_len(key as u64) + varint_len(value as u64) + key + value
}

/// A record of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value; `None` for a tombstone.
    pub value: Option<&'a [u8]>,
}

/// Positions of a record's key and value, from the beginning of its block.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) key: Range<usize>,
    /// `None` for a tombstone.
    pub(super) value: Option<Range<usize>>,
}

/// The bits of a hash that its slot keeps.
#[inline]
fn slot_bits(hash: u64) -> u16 {
    (hash >> 24) as u16
}

/// A block whose checksum is right and whose header is plausible. Its records are checked when they are read.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    bytes: &'a [u8],
    slots: &'a [[u8; SLOT]],
    heap: usize,
    first: u64,
}

impl<'a> Block<'a> {
    /// Parses the bytes of the block at `place`.
    ///
    /// # Errors
    /// If the bytes are not that block.
    pub fn parse(bytes: &'a [u8], place: BlockAddress) -> result::Result<Block<'a>, Malformed> {
        let mut r = Reader::new(bytes);
        if r.u32()? != place.checksum(bytes) {
            return Err(Malformed::new(0, "the checksum of the block does not match"));
        }
        let (count, heap, first) = (usize::from(r.u16()?), usize::from(r.u16()?), r.u64()?);
        let (slots, _) = r.bytes(count * SLOT)?.as_chunks();
        if count == 0 || heap < r.position() || heap > bytes.len() {
            return Err(Malformed::new(4, "the block has no records, or its heap is not behind the slots"));
        }
        Ok(Block { bytes, slots, heap, first })
    }

    /// Number of records, never 0.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The hash of the first record.
    pub fn first_hash(&self) -> u64 {
        self.first
    }

    /// The record of a key.
    ///
    /// # Errors
    /// If a record that the search reads is malformed.
    pub fn find(&self, hash: u64, key: &[u8]) -> result::Result<Option<Entry<'a>>, Malformed> {
        let bits = slot_bits(hash).to_le_bytes();
        for slot in self.slots.iter().filter(|slot| slot[..2] == bits) {
            let (entry, _) = self.at(slot)?;
            if entry.key == key {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// The records, in the order of their hashes and keys.
    pub fn entries(&self) -> impl Iterator<Item = result::Result<Entry<'a>, Malformed>> + use<'a> {
        let block = *self;
        block.slots.iter().map(move |slot| Ok(block.at(slot)?.0))
    }

    /// The records and the positions of their keys and values, in the order of their hashes and keys.
    pub(super) fn places(&self) -> impl Iterator<Item = result::Result<(Entry<'a>, Places), Malformed>> + use<'a> {
        let block = *self;
        block.slots.iter().map(move |slot| {
            let (entry, end) = block.at(slot)?;
            let value = end - entry.value.map_or(0, <[u8]>::len)..end;
            let key = value.start - entry.key.len()..value.start;
            Ok((entry, Places { key, value: entry.value.is_some().then_some(value) }))
        })
    }

    /// The record of a slot, and where it ends.
    fn at(&self, slot: &[u8; SLOT]) -> result::Result<(Entry<'a>, usize), Malformed> {
        let [.., low, high] = *slot;
        let start = usize::from(u16::from_le_bytes([low, high]));
        if start < self.heap {
            return Err(Malformed::new(start, "a record lies before the heap"));
        }
        let mut r = Reader::new(self.bytes.get(start..).unwrap_or_default());
        let entry = entry(&mut r).map_err(|e| Malformed::new(start + e.offset, e.what))?;
        Ok((entry, start + r.position()))
    }

    /// Checks everything that parsing leaves out; `hash_of` hashes a key.
    ///
    /// # Errors
    /// If the builder would not have made this block.
    pub fn check(&self, hash_of: &dyn Fn(&[u8]) -> u64) -> result::Result<(), Malformed> {
        let mut end = self.bytes.len();
        let mut before: Option<(u64, &[u8])> = None;
        for (number, slot) in self.slots.iter().enumerate() {
            let fail = |what| Err(Malformed::new(HEADER + number * SLOT, what));
            let (entry, its_end) = self.at(slot)?;
            if its_end != end {
                return fail("a record does not end where the one before begins");
            }
            end -= record_bytes(entry.key.len(), entry.value.map_or(0, <[u8]>::len)) - SLOT;
            let hash = hash_of(entry.key);
            if slot[..2] != slot_bits(hash).to_le_bytes() || (number == 0 && hash != self.first) {
                return fail("a hash is not that of its key");
            }
            if before.is_some_and(|before| before.cmp(&(hash, entry.key)) != Ordering::Less) {
                return fail("the records are out of order");
            }
            before = Some((hash, entry.key));
        }
        let gap = self.bytes.get(HEADER + self.len() * SLOT..self.heap).unwrap_or_default();
        if end != self.heap || !is_zero(gap) {
            return Err(Malformed::new(6, "the heap has bytes of no record, or the gap is not zero"));
        }
        Ok(())
    }
}

fn entry<'a>(r: &mut Reader<'a>) -> result::Result<Entry<'a>, Malformed> {
    let (kind, key, value) = (r.u8()?, r.varint()?, r.varint()?);
    let (Ok(key_len), Ok(value_len)) = (usize::try_from(key), usize::try_from(value)) else {
        return r.fail("a length exceeds its limit");
    };
    if key_len == 0 || key_len > MAX_KEY || value_len > MAX_RECORD - key_len {
        return r.fail("a length exceeds its limit");
    }
    let (key, value) = (r.bytes(key_len)?, r.bytes(value_len)?);
    match kind {
        VALUE => Ok(Entry { key, value: Some(value) }),
        TOMBSTONE if value.is_empty() => Ok(Entry { key, value: None }),
        _ => r.fail("there is no such kind of record"),
    }
}

/// Builds one block after the other, in one frame.
#[derive(Debug)]
pub struct BlockBuilder {
    frame: storage::Block,
    size: usize,
    count: usize,
    heap: usize,
}

impl BlockBuilder {
    /// A builder for blocks of `size` bytes, from 1024 to 4096.
    ///
    /// # Errors
    /// If there is no memory for a frame.
    pub fn new(memory: &Memory, size: usize) -> Result<BlockBuilder> {
        assert!((1024..=Size::Frame.bytes()).contains(&size) && size.is_power_of_two());
        let mut frame = memory.lease_essential(Component::Frames, Size::Frame)?;
        frame.fill(0);
        Ok(BlockBuilder { frame, size, count: 0, heap: size })
    }

    /// The largest record of a block of `size` bytes, by [`record_bytes`].
    pub(super) fn room(size: usize) -> usize {
        size - HEADER
    }

    /// The hash of the first record in the block.
    pub(super) fn first_hash(&self) -> u64 {
        u64::from_le_bytes(*self.frame[8..].first_chunk().expect("a frame is longer"))
    }

    /// Adds a record whose hash and key are above those of the last. Returns `false` and changes nothing if it does not
    /// fit. No value is a tombstone.
    ///
    /// # Panics
    /// If a limit is exceeded.
    pub fn push(&mut self, hash: u64, key: &[u8], value: Option<&[u8]>) -> bool {
        let bytes = value.unwrap_or_default();
        assert!(
            !key.is_empty() && key.len() <= MAX_KEY && key.len() + bytes.len() <= MAX_RECORD,
            "a record exceeds the limits"
        );
        let (slot, length) = (HEADER + self.count * SLOT, record_bytes(key.len(), bytes.len()));
        if slot + length > self.heap {
            return false;
        }
        if self.count == 0 {
            self.frame[8..16].copy_from_slice(&hash.to_le_bytes());
        }
        self.heap -= length - SLOT;
        self.frame[slot..][..2].copy_from_slice(&slot_bits(hash).to_le_bytes());
        self.frame[slot + 2..][..2].copy_from_slice(&(self.heap as u16).to_le_bytes());
        let record = &mut self.frame[self.heap..];
        record[0] = if value.is_some() { VALUE } else { TOMBSTONE };
        let at = put_length(record, 1, key.len());
        let at = put_length(record, at, bytes.len());
        record[at..][..key.len()].copy_from_slice(key);
        record[at + key.len()..][..bytes.len()].copy_from_slice(bytes);
        self.count += 1;
        true
    }

    /// Completes the block, passes its bytes to `take`, and begins the next one.
    pub fn finish<T>(&mut self, place: BlockAddress, take: impl FnOnce(&[u8]) -> T) -> T {
        self.frame[4..6].copy_from_slice(&(self.count as u16).to_le_bytes());
        self.frame[6..8].copy_from_slice(&(self.heap as u16).to_le_bytes());
        let sum = place.checksum(&self.frame[..self.size]);
        self.frame[..4].copy_from_slice(&sum.to_le_bytes());
        let taken = take(&self.frame[..self.size]);
        self.frame[..self.size].fill(0);
        (self.count, self.heap) = (0, self.size);
        taken
    }
}
