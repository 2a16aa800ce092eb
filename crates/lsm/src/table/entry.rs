//! An entry of a block: a record whose key leaves out the prefix shared with the key before (`docs/format/lsm.md`,
//! "Entry").

use std::result;

use ecotone_substrate::{
    codec::{Malformed, Reader, put_length, varint_len},
    limits::{MAX_KEY, MAX_RECORD},
};

/// Kinds of records.
const VALUE: u8 = 1;
const TOMBSTONE: u8 = 2;
const KIND_BITS: u32 = 3;
const KIND: u8 = (1 << KIND_BITS) - 1;
/// Stands for the shared length if that follows as a number of its own.
const SHARED_FOLLOWS: usize = 31;

/// A record without the shared prefix of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// Bytes that the key shares with the key before.
    pub(super) shared: usize,
    /// The other bytes of the key.
    pub(super) rest: &'a [u8],
    /// `None` for a tombstone.
    pub(super) value: Option<&'a [u8]>,
}

impl<'a> Entry<'a> {
    /// Bytes of the encoded entry.
    pub(super) fn len(&self) -> usize {
        let many = self.shared.checked_sub(SHARED_FOLLOWS).map_or(0, |more| varint_len(more as u64));
        let value = self.value.map_or(0, |value| varint_len(value.len() as u64) + value.len());
        1 + many + varint_len(self.rest.len() as u64) + self.rest.len() + value
    }

    /// Writes the entry to the beginning of `bytes`, which is long enough.
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let kind = if self.value.is_some() { VALUE } else { TOMBSTONE };
        bytes[0] = kind | (self.shared.min(SHARED_FOLLOWS) as u8) << KIND_BITS;
        let mut at = 1;
        if let Some(more) = self.shared.checked_sub(SHARED_FOLLOWS) {
            at = put_length(bytes, at, more);
        }
        at = put_length(bytes, at, self.rest.len());
        if let Some(value) = self.value {
            at = put_length(bytes, at, value.len());
        }
        let parts = [self.rest, self.value.unwrap_or_default()];
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    }

    /// Reads the next entry.
    pub(super) fn read(r: &mut Reader<'a>) -> result::Result<Entry<'a>, Malformed> {
        let head = r.u8()?;
        let mut shared = usize::from(head >> KIND_BITS);
        if shared == SHARED_FOLLOWS {
            shared += length(r)?;
        }
        let rest = length(r)?;
        if rest == 0 || rest > MAX_KEY || shared > MAX_KEY - rest {
            return r.fail("a key is longer or shorter than keys are");
        }
        let value = match head & KIND {
            VALUE => Some(length(r)?),
            TOMBSTONE => None,
            _ => return r.fail("there is no such kind of record"),
        };
        if value.is_some_and(|value| value > MAX_RECORD - shared - rest) {
            return r.fail("a value exceeds its limit");
        }
        let rest = r.bytes(rest)?;
        let value = value.map(|value| r.bytes(value)).transpose()?;
        Ok(Entry { shared, rest, value })
    }
}

/// A length. The caller compares it with its limit; a too long one is cut to a value above all limits.
fn length(r: &mut Reader<'_>) -> result::Result<usize, Malformed> {
    Ok(r.varint()?.min(1 << 20) as usize)
}

/// The entries of a run, one by one.
#[derive(Debug)]
pub(super) struct Entries<'a> {
    r: Reader<'a>,
    /// The offset of the run in the block.
    start: usize,
    left: usize,
    /// Whether the next entry may share bytes with the one before: all but the first may.
    shares: bool,
}

impl<'a> Entries<'a> {
    /// The `count` entries of a run whose bytes begin at offset `start` of a block.
    pub(super) fn new(bytes: &'a [u8], start: usize, count: usize) -> Entries<'a> {
        Entries { r: Reader::new(bytes), start, left: count, shares: false }
    }

    /// The offset in the block where the last entry ended and the next one begins.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_its_length_told() {
        let bytes = vec![7; 1900];
        for (shared, rest, value) in [
            (0, 8, Some(100)),
            (30, 1, None),
            (31, 2, Some(0)),
            (500, 524, Some(876)),
            (0, 1024, None),
            (2, 1, Some(1897)),
        ] {
            let entry = Entry { shared, rest: &bytes[..rest], value: value.map(|value| &bytes[..value]) };
            let mut buffer = [0; 2000];
            entry.write(&mut buffer);
            let mut r = Reader::new(&buffer);
            assert_eq!(Entry::read(&mut r), Ok(entry));
            assert_eq!(r.position(), entry.len());
        }
        assert_eq!(Entry { shared: 2, rest: &[0; 6], value: Some(&[0; 100]) }.len(), 109);
    }

    #[test]
    fn lengths_above_the_limits_and_unknown_kinds_are_refused() {
        for bytes in [
            &[1, 0, 1, 9][..],
            &[0, 1, 0, 9],
            &[3, 1, 0, 9],
            &[7, 1, 0, 9],
            &[1, 0x81, 0x08, 0],
            &[0xf9, 0xe1, 0x07, 1, 1, 1],
            &[1, 1, 0xec, 0x0e, 1],
            &[1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1],
            &[2],
        ] {
            let mut long = bytes.to_vec();
            long.extend([0; 2000]);
            let whole = if bytes.len() > 1 { &long[..] } else { bytes };
            assert!(Entry::read(&mut Reader::new(whole)).is_err(), "{bytes:?}");
        }
    }
}
