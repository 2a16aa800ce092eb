//! A block: sorted records, every sixteenth with its whole key (`docs/format/lsm.md`, "Block").

use std::{cmp::Ordering, result};

use ecotone_substrate::{
    Result,
    codec::{Malformed, Reader},
    limits::{MAX_KEY, MAX_RECORD},
    memory::{Component, Memory},
    storage,
    table::Place,
};
use ecotone_sys::chunk::Size;

use super::{
    entry::Entry,
    rank::{Rank, common},
    records::Records,
};

const HEADER: usize = 16;
/// Records from one whole key to the next: a *run*.
const RUN: usize = 16;
/// Bytes of a restart.
const RESTART: usize = 2;
/// The form whose entries stand as they are.
const PLAIN: u8 = 1;

/// What a block says about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Find<'a> {
    /// It has the key: its value, or none if the key was deleted.
    Found(Option<&'a [u8]>),
    /// The key lies before the block's first.
    Before,
    /// It lies between two keys of the block.
    Within,
    /// It lies behind the block's last.
    After,
}

/// A block whose checksum is right and whose header makes sense. Its records are checked as they are met.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    bytes: &'a [u8],
    count: usize,
    end: usize,
}

impl<'a> Block<'a> {
    /// Takes the bytes of a block that belongs to a place.
    ///
    /// # Errors
    /// If they are not such a block.
    pub fn parse(bytes: &'a [u8], place: Place) -> result::Result<Block<'a>, Malformed> {
        if Reader::new(bytes).u32()? != place.checksum(bytes) {
            return Err(Malformed::new(0, "the checksum of the block does not match"));
        }
        Self::reparse(bytes)
    }

    /// Takes the bytes of a block that was parsed before.
    ///
    /// # Errors
    /// If they never were.
    pub fn reparse(bytes: &'a [u8]) -> result::Result<Block<'a>, Malformed> {
        let mut r = Reader::new(bytes);
        r.u32()?;
        if r.u8()? != PLAIN {
            return Err(Malformed::new(4, "there is no such form of a block"));
        }
        let reserved = r.u8()?;
        let (count, end) = (usize::from(r.u16()?), usize::from(r.u16()?));
        if reserved != 0 || r.array()? != [0; 6] {
            return Err(Malformed::new(5, "reserved bytes are not zero"));
        }
        let block = Block { bytes, count, end };
        if count == 0 || end < HEADER || end > block.restarts_at() {
            return Err(Malformed::new(6, "the block has no records, or they end where they cannot"));
        }
        Ok(block)
    }

    /// How many records it has, never none.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// How many runs its records are in.
    pub fn runs(&self) -> usize {
        self.count.div_ceil(RUN)
    }

    fn restarts_at(&self) -> usize {
        self.bytes.len().saturating_sub(RESTART * self.runs())
    }

    /// Where a run begins; behind the last one, where the entries end.
    fn restart(&self, run: usize) -> usize {
        if run == self.runs() {
            return self.end;
        }
        let bytes = self.bytes.get(self.restarts_at() + RESTART * run..).and_then(<[u8]>::first_chunk);
        bytes.map_or(usize::MAX, |bytes| u16::from_le_bytes(*bytes).into())
    }

    /// The entries of a run.
    pub(super) fn entries(&self, run: usize) -> result::Result<Entries<'a>, Malformed> {
        let (start, end) = (self.restart(run), self.restart(run + 1).min(self.end));
        match self.bytes.get(start..end).filter(|_| start >= HEADER) {
            Some(bytes) => Ok(Entries { r: Reader::new(bytes), start, left: RUN.min(self.count - run * RUN), shares: false }),
            None => Err(Malformed::new(self.restarts_at() + RESTART * run, "a run lies outside of the entries")),
        }
    }

    /// The first key of a run.
    fn first_key(&self, run: usize) -> result::Result<&'a [u8], Malformed> {
        match self.entries(run)?.next() {
            Some(entry) => Ok(entry?.rest),
            None => Err(Malformed::new(6, "a run has no entries")),
        }
    }

    /// The last run whose first key is not above a key; `None` if the key lies before all of them.
    pub(super) fn run_of(&self, key: &[u8]) -> result::Result<Option<usize>, Malformed> {
        let (mut low, mut high) = (0, self.runs());
        while low < high {
            let middle = low.midpoint(high);
            if self.first_key(middle)? <= key { low = middle + 1 } else { high = middle }
        }
        Ok(low.checked_sub(1))
    }

    /// Looks for a key.
    ///
    /// # Errors
    /// If a record that has to be looked at is malformed.
    pub fn find(&self, key: &[u8]) -> result::Result<Find<'a>, Malformed> {
        let Some(run) = self.run_of(key)? else { return Ok(Find::Before) };
        let mut rank = Rank::new(key);
        for entry in self.entries(run)? {
            let entry = entry?;
            match rank.step(entry.shared, entry.rest) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(Find::Found(entry.value)),
                Ordering::Greater => return Ok(Find::Within),
            }
        }
        Ok(if run + 1 < self.runs() { Find::Within } else { Find::After })
    }

    /// Gives all records to `take`, in order.
    ///
    /// # Errors
    /// If one is malformed, or `take` refuses it.
    pub fn each(
        &self,
        mut take: impl FnMut(&[u8], Option<&'a [u8]>) -> result::Result<(), Malformed>,
    ) -> result::Result<(), Malformed> {
        let mut records = Records::default();
        for run in 0..self.runs() {
            records.take(self, run)?;
            for number in 0..records.len() {
                take(records.key(number), records.value(number).map(|place| &self.bytes[place]))?;
            }
        }
        Ok(())
    }

    /// Checks all that parsing leaves out.
    ///
    /// # Errors
    /// If the builder would not have made the block so.
    pub fn check(&self) -> result::Result<(), Malformed> {
        let (mut at, mut number, mut last) = (HEADER, 0, Vec::new());
        self.each(|key, value| {
            let shared = if number % RUN == 0 { 0 } else { common(&last, key) };
            if number % RUN == 0 && self.restart(number / RUN) != at {
                return Err(Malformed::new(at, "a run does not begin where the one before ends"));
            }
            if *last >= *key {
                return Err(Malformed::new(at, "the records are out of order"));
            }
            at += Entry { shared, rest: &key[shared..], value }.len();
            (number, last) = (number + 1, key.to_vec());
            Ok(())
        })?;
        let gap = self.bytes.get(self.end..self.restarts_at()).unwrap_or_default();
        if at != self.end || gap.iter().any(|&byte| byte != 0) {
            return Err(Malformed::new(
                8,
                "the entries end elsewhere, or keys leave out less than they can, or the gap is not zero",
            ));
        }
        Ok(())
    }
}

/// The entries of a run, one by one.
#[derive(Debug)]
pub(super) struct Entries<'a> {
    r: Reader<'a>,
    /// Where the run begins in the block.
    start: usize,
    left: usize,
    /// Whether the next may share bytes: all but the first.
    shares: bool,
}

impl Entries<'_> {
    /// Where in the block the last one ended, and the next one begins.
    pub(super) fn offset(&self) -> usize {
        self.start + self.r.position()
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = result::Result<Entry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let at = self.offset();
        let entry = Entry::read(&mut self.r).map_err(|e| Malformed::new(self.start + e.offset, e.what));
        Some(entry.and_then(|entry| {
            if entry.shared > 0 && !self.shares {
                return Err(Malformed::new(at, "a run begins with a part of a key"));
            }
            self.shares = true;
            Ok(entry)
        }))
    }
}

/// Fills one block after the other, in one piece of memory.
#[derive(Debug)]
pub struct BlockBuilder {
    piece: storage::Block,
    size: usize,
    count: usize,
    end: usize,
    restarts: Vec<u16>,
    last: Vec<u8>,
}

impl BlockBuilder {
    /// For blocks of `size` bytes: 4096, 8192 or 16384.
    ///
    /// # Errors
    /// If there is no memory for one.
    pub fn new(memory: &Memory, size: usize) -> Result<BlockBuilder> {
        assert!((4096..=16384).contains(&size) && size.is_power_of_two());
        let mut piece =
            memory.lease_essential(Component::Frames, if size > Size::Frame.bytes() { Size::Slab } else { Size::Frame })?;
        piece.fill(0);
        Ok(BlockBuilder { piece, size, count: 0, end: HEADER, restarts: Vec::new(), last: Vec::new() })
    }

    /// How many records the block has so far.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The last key that was pushed.
    pub(super) fn last_key(&self) -> &[u8] {
        &self.last
    }

    /// Adds a record whose key is above the last one's, or gives `false` and changes nothing if it does not fit. No value is a tombstone.
    ///
    /// # Panics
    /// If a limit is exceeded.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> bool {
        let bytes = value.map_or(0, <[u8]>::len);
        assert!(!key.is_empty() && key.len() <= MAX_KEY && key.len() + bytes <= MAX_RECORD, "a record exceeds the limits");
        let begins = self.count.is_multiple_of(RUN);
        let shared = if begins { 0 } else { common(&self.last, key) };
        let entry = Entry { shared, rest: &key[shared..], value };
        let restarts = RESTART * (self.restarts.len() + usize::from(begins));
        if self.end + entry.len() + restarts > self.size {
            return false;
        }
        if begins {
            self.restarts.push(self.end as u16);
        }
        entry.write(&mut self.piece[self.end..]);
        self.end += entry.len();
        self.count += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
        true
    }

    /// Completes the block and gives its bytes to `take`; the next one begins.
    pub fn finish<T>(&mut self, place: Place, take: impl FnOnce(&[u8]) -> T) -> T {
        let block = &mut self.piece[..self.size];
        block[4] = PLAIN;
        block[6..8].copy_from_slice(&(self.count as u16).to_le_bytes());
        block[8..10].copy_from_slice(&(self.end as u16).to_le_bytes());
        let (restarts, _) = block[self.size - RESTART * self.restarts.len()..].as_chunks_mut();
        restarts.iter_mut().zip(&self.restarts).for_each(|(bytes, restart)| *bytes = restart.to_le_bytes());
        let sum = place.checksum(block);
        block[..4].copy_from_slice(&sum.to_le_bytes());
        let taken = take(block);
        block.fill(0);
        (self.count, self.end) = (0, HEADER);
        self.restarts.clear();
        taken
    }
}

const _: () = assert!(2 * (MAX_RECORD + 7 + RESTART) + HEADER <= 4096, "a block of 4096 bytes takes any record twice");
