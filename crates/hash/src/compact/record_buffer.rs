//! A buffer of live records that were read from segments, until they are written in hash order (H4, the tail of the
//! cold tier).

use ecotone_substrate::{
    Result,
    memory::{Component, Memory},
    storage::Block,
};
use ecotone_sys::{chunk::Size, words::WORD};

use super::record::RecordCopy;

/// Bytes before the key: the lengths of key and value, and whether there is a value.
const HEAD: usize = 5;

/// Records in slabs, none of which spans two slabs.
#[derive(Debug, Default)]
pub(super) struct RecordBuffer {
    slabs: Vec<Block>,
    /// End of the used words.
    end: usize,
}

/// Words of a slab.
const WORDS: usize = Size::Slab.bytes() / WORD;

impl RecordBuffer {
    /// Adds a record. Returns its place, which is above all places before.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(super) fn push(&mut self, memory: &Memory, key: &[u8], value: Option<&[u8]>) -> Result<u64> {
        let bytes = value.unwrap_or_default();
        let words = (HEAD + key.len() + bytes.len()).div_ceil(WORD);
        if self.end % WORDS + words > WORDS || self.end == self.slabs.len() * WORDS {
            self.end = self.slabs.len() * WORDS;
            self.slabs.push(memory.lease_essential(Component::Frames, Size::Slab)?);
        }
        let place = self.end;
        let record = &mut self.slabs[place / WORDS][place % WORDS * WORD..];
        record[..2].copy_from_slice(&(key.len() as u16).to_le_bytes());
        record[2..4].copy_from_slice(&(bytes.len() as u16).to_le_bytes());
        record[4] = u8::from(value.is_some());
        record[HEAD..][..key.len()].copy_from_slice(key);
        record[HEAD + key.len()..][..bytes.len()].copy_from_slice(bytes);
        self.end += words;
        Ok(place as u64)
    }

    /// Leased bytes.
    pub(super) fn bytes(&self) -> usize {
        self.slabs.len() * Size::Slab.bytes()
    }

    /// Copies the record at a place.
    pub(super) fn read(&self, place: u64, copied: &mut RecordCopy) {
        let place = place as usize;
        let record = &self.slabs[place / WORDS][place % WORDS * WORD..];
        let len = |at: usize| usize::from(u16::from_le_bytes([record[at], record[at + 1]]));
        let (key, rest) = record[HEAD..].split_at(len(0));
        copied.set(key, (record[4] == 1).then(|| &rest[..len(2)]));
    }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use super::*;

    #[test]
    fn what_was_copied_is_read_back_also_where_a_slab_ends() {
        let memory = Memory::new(8 << 20);
        let (mut copies, mut places) = (RecordBuffer::default(), Vec::new());
        let value = |number: usize| (!number.is_multiple_of(5)).then(|| vec![number as u8; number * 7 % 1800]);
        for number in 0..300usize {
            places.push(copies.push(&memory, &number.to_le_bytes(), value(number).as_deref()).unwrap());
        }
        assert!(places.is_sorted() && copies.bytes() > 3 * Size::Slab.bytes());
        let mut copied = RecordCopy::default();
        for (number, place) in places.into_iter().enumerate() {
            copies.read(place, &mut copied);
            assert_eq!((copied.key(), copied.value()), (&number.to_le_bytes()[..], value(number).as_deref()));
        }
    }
}
