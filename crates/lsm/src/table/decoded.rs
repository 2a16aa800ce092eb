//! The decoded records of one run (restart interval) of a block. A cursor is positioned in one.

use std::{ops::Range, result};

use ecotone_substrate::codec::Malformed;

use crate::table::entry::{Entries, Entry};

/// Records with whole keys, ascending.
#[derive(Debug, Default)]
pub(super) struct DecodedInterval {
    /// The keys, one behind the other.
    keys: Vec<u8>,
    places: Vec<RecordOffsets>,
}

/// The places of a record's key and value.
#[derive(Debug, Clone)]
struct RecordOffsets {
    /// Within the keys.
    key: Range<usize>,
    /// Within the block; `None` for a tombstone.
    value: Option<Range<usize>>,
}

impl DecodedInterval {
    /// Replaces the records by those of a run, which has at least one.
    ///
    /// # Errors
    /// If one of them is malformed, or not above the one before.
    pub(super) fn take(&mut self, mut entries: Entries<'_>) -> result::Result<(), Malformed> {
        self.keys.clear();
        self.places.clear();
        let mut at = entries.offset();
        while let Some(entry) = entries.next() {
            let end = entries.offset();
            self.push(&entry?, end).map_err(|what| Malformed::new(at, what))?;
            at = end;
        }
        Ok(())
    }

    /// Adds a record, whose value ends at `end`.
    fn push(&mut self, entry: &Entry<'_>, end: usize) -> result::Result<(), &'static str> {
        let before = self.places.last().map_or(0..0, |place| place.key.clone());
        let Some(wanting) = self.keys[before.clone()].get(entry.shared..) else {
            return Err("a key shares more than there is");
        };
        if entry.rest <= wanting {
            return Err("the records are out of order");
        }
        let start = self.keys.len();
        self.keys.extend_from_within(before.start..before.start + entry.shared);
        self.keys.extend_from_slice(entry.rest);
        let value = entry.value.map(|value| end - value.len()..end);
        self.places.push(RecordOffsets { key: start..self.keys.len(), value });
        Ok(())
    }

    /// The number of records.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The key of a record.
    pub(super) fn key(&self, number: usize) -> &[u8] {
        &self.keys[self.places[number].key.clone()]
    }

    /// The place of a record's value in the block; `None` for a tombstone.
    pub(super) fn value(&self, number: usize) -> Option<Range<usize>> {
        self.places[number].value.clone()
    }

    /// The number of records below a key.
    pub(super) fn below(&self, key: &[u8]) -> usize {
        self.places.partition_point(|place| self.keys[place.key.clone()] < *key)
    }
}
