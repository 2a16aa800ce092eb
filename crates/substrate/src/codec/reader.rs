//! Reads what [`Writer`](super::Writer) wrote, and anything else without a panic.

use std::fmt;

use super::MAX_VARINT;
use crate::Error;

/// Bytes that do not follow their format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// Offset in bytes from the start of the input.
    pub offset: usize,
    /// What is wrong there.
    pub what: &'static str,
    /// The version found and the latest known, if a later version wrote the bytes.
    pub newer: Option<(u64, u64)>,
}

impl Malformed {
    /// Bytes that make no sense.
    pub fn new(offset: usize, what: &'static str) -> Self {
        Malformed { offset, what, newer: None }
    }

    /// As an error of `file`, in which the bytes begin at offset `base`: `NewerFormat` for a later version, else
    /// `Corruption`.
    pub fn at(self, file: impl fmt::Display, base: u64) -> Error {
        match self.newer {
            Some((found, known)) => Error::NewerFormat { file: file.to_string(), found, known },
            None => Error::corruption(file, base.saturating_add(self.offset as u64), self.what),
        }
    }
}

/// Takes values from the front of a byte slice. A call that fails takes nothing.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from their start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes, position: 0 }
    }

    /// Bytes taken so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Fails, at the present position.
    pub fn fail<T>(&self, what: &'static str) -> Result<T, Malformed> {
        Err(Malformed::new(self.position, what))
    }

    /// The next `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                self.position += length;
                Ok(taken)
            }
            None => self.fail("the bytes end early"),
        }
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                self.position += N;
                Ok(*taken)
            }
            None => self.fail("the bytes end early"),
        }
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// One byte that is a version, from 1 to `known`. The caller has verified the checksum before, since only then a
    /// greater value is a later version and not damage (`docs/format/README.md`, "Versions").
    pub fn version(&mut self, known: u8) -> Result<u8, Malformed> {
        match self.clone().u8()? {
            0 => self.fail("there is no format version 0"),
            found if found <= known => self.u8(),
            found => {
                let newer = Some((found.into(), known.into()));
                Err(Malformed { newer, ..Malformed::new(self.position, "a later version wrote this") })
            }
        }
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A variable-length integer: seven bits a byte, lowest first, the top bit set on all bytes but the last. Only the
    /// shortest encoding is accepted, so that equal values have equal bytes.
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for (i, &byte) in self.rest.iter().take(MAX_VARINT).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if i == MAX_VARINT - 1 && byte > 1 {
                return self.fail("a variable-length integer exceeds 64 bits");
            }
            value |= bits << (7 * i);
            if byte & 0x80 == 0 {
                return self.end_varint(i, byte, value);
            }
        }
        self.fail("the bytes end early")
    }

    fn end_varint(&mut self, last: usize, byte: u8, value: u64) -> Result<u64, Malformed> {
        if last > 0 && byte == 0 {
            return self.fail("a variable-length integer is not the shortest");
        }
        self.bytes(last + 1)?;
        Ok(value)
    }

    /// Bytes with their length before them as a variable-length integer, of at most `limit` bytes.
    pub fn prefixed(&mut self, limit: usize) -> Result<&'a [u8], Malformed> {
        let mut ahead = self.clone();
        let length = usize::try_from(ahead.varint()?).unwrap_or(usize::MAX);
        if length > limit {
            return self.fail("a length exceeds its limit");
        }
        let taken = ahead.bytes(length)?;
        *self = ahead;
        Ok(taken)
    }

    /// A count as a variable-length integer, at most `most`, and that many items.
    pub fn list<T>(
        &mut self,
        most: usize,
        one: impl Fn(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.varint()?;
        if count > most as u64 {
            return self.fail("there are more than can be");
        }
        (0..count).map(|_| one(self)).collect()
    }

    /// Fails if bytes are left.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { self.fail("there are bytes after the end") }
    }
}
