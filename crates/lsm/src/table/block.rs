//! A block: sorted records with prefix-compressed keys. Every sixteenth record is a restart and has its whole key
//! (`docs/format/lsm.md`, "Block").

use std::{cmp::Ordering, result};

use ecotone_substrate::{
    codec::{Malformed, Reader, is_zero},
    table::BlockAddress,
};

use crate::table::{
    block_format::{HEADER, PACKED, PLAIN, RESTART, RESTART_INTERVAL},
    compression,
    decoded::DecodedInterval,
    entry::{Entries, Entry},
    prefix_compare::{PrefixComparer, common_prefix_len},
};

/// The result of a search for a key in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockSearch<'a> {
    /// The block has the key: its value, or `None` for a tombstone.
    Found(Option<&'a [u8]>),
    /// The key lies before the block's first.
    Before,
    /// The key is absent and lies between two keys of the block.
    Within,
    /// The key lies behind the block's last.
    After,
}

/// A block with a verified checksum and a plausible header. Its records are checked when they are read.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    bytes: &'a [u8],
    count: usize,
    end: usize,
}

impl<'a> Block<'a> {
    /// Parses the bytes of a block and verifies them against its address.
    ///
    /// # Errors
    /// If they are not a block of this address.
    pub fn parse(bytes: &'a [u8], place: BlockAddress) -> result::Result<Block<'a>, Malformed> {
        verify(bytes, place)?;
        Self::reparse(bytes)
    }

    /// Parses a block whose entries may be packed. They are unpacked into `room`, which has
    /// [`plain_room`](super::plain_room) bytes, or none where no block is packed.
    ///
    /// # Errors
    /// If the bytes are not a block of this address.
    pub fn unpack(bytes: &'a [u8], place: BlockAddress, room: &'a mut [u8]) -> result::Result<Block<'a>, Malformed> {
        verify(bytes, place)?;
        Self::unpack_verified(bytes, room)
    }

    /// The same for a block whose checksum was verified before.
    pub(super) fn unpack_verified(bytes: &'a [u8], room: &'a mut [u8]) -> result::Result<Block<'a>, Malformed> {
        Self::reparse(if bytes.get(4) == Some(&PACKED) { compression::unpack(bytes, room)? } else { bytes })
    }

    /// Takes the plain bytes of a block that was parsed before.
    ///
    /// # Errors
    /// If they are not a plain block.
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

    /// The number of its records, at least one.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The number of its runs.
    pub fn runs(&self) -> usize {
        self.count.div_ceil(RESTART_INTERVAL)
    }

    fn restarts_at(&self) -> usize {
        self.bytes.len().saturating_sub(RESTART * self.runs())
    }

    /// The offset of a run; for the number behind the last run, the end of the entries.
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
            Some(bytes) => Ok(Entries::new(bytes, start, RESTART_INTERVAL.min(self.count - run * RESTART_INTERVAL))),
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

    /// The last run whose first key is at or below a key; `None` if the key lies before all runs.
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
    /// If a record on the search path is malformed.
    pub fn find(&self, key: &[u8]) -> result::Result<BlockSearch<'a>, Malformed> {
        let Some(run) = self.run_of(key)? else { return Ok(BlockSearch::Before) };
        let mut rank = PrefixComparer::new(key);
        for entry in self.entries(run)? {
            let entry = entry?;
            match rank.step(entry.shared, entry.rest) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(BlockSearch::Found(entry.value)),
                Ordering::Greater => return Ok(BlockSearch::Within),
            }
        }
        Ok(if run + 1 < self.runs() { BlockSearch::Within } else { BlockSearch::After })
    }

    /// Gives all records to `take`, in order.
    ///
    /// # Errors
    /// If one is malformed, or `take` refuses it.
    pub fn each(
        &self,
        mut take: impl FnMut(&[u8], Option<&'a [u8]>) -> result::Result<(), Malformed>,
    ) -> result::Result<(), Malformed> {
        let mut records = DecodedInterval::default();
        for run in 0..self.runs() {
            records.take(self.entries(run)?)?;
            for number in 0..records.len() {
                take(records.key(number), records.value(number).map(|place| &self.bytes[place]))?;
            }
        }
        Ok(())
    }

    /// Checks everything that parsing leaves out.
    ///
    /// # Errors
    /// If the block differs from what the builder would write for its records.
    pub fn check(&self) -> result::Result<(), Malformed> {
        let (mut at, mut number, mut last) = (HEADER, 0, Vec::new());
        self.each(|key, value| {
            let shared = if number % RESTART_INTERVAL == 0 { 0 } else { common_prefix_len(&last, key) };
            if number % RESTART_INTERVAL == 0 && self.restart(number / RESTART_INTERVAL) != at {
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
        if at != self.end || !is_zero(gap) {
            return Err(Malformed::new(
                8,
                "the entries end elsewhere, or keys leave out less than they can, or the gap is not zero",
            ));
        }
        Ok(())
    }
}

/// Whether the checksum of a block is right.
fn verify(bytes: &[u8], place: BlockAddress) -> result::Result<(), Malformed> {
    if Reader::new(bytes).u32()? != place.checksum(bytes) {
        return Err(Malformed::new(0, "the checksum of the block does not match"));
    }
    Ok(())
}
