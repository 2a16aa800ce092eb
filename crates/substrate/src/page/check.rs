//! The full check of a page, for `verify` and for fuzzing.

use super::{
    layout::{HEADER, PageError, RecordKind, SLOT, head},
    read::{Page, slot_fields, slot_head},
};
use crate::{
    codec::is_zero,
    limits::{MAX_KEY, MAX_RECORD, PAGE},
};

impl Page<'_> {
    /// Checks everything that parsing leaves out: every record's position, order, fences and limits.
    pub fn check(&self) -> Result<(), PageError> {
        let fences = PAGE - self.lower().len() - self.upper().map_or(0, <[u8]>::len);
        let mut end = fences;
        for position in 0..self.len() {
            end = self.check_record(position, end)?;
        }
        if end != self.heap {
            return Err(PageError::Malformed("the heap has bytes of no record"));
        }
        self.check_order()?;
        let gap = self.bytes.get(HEADER + self.len() * SLOT..self.heap).unwrap_or_default();
        if !is_zero(gap) {
            return Err(PageError::Malformed("the gap is not zero"));
        }
        Ok(())
    }

    /// Checks one record, which must end at `end`, and returns its start.
    fn check_record(&self, position: usize, end: usize) -> Result<usize, PageError> {
        let malformed = PageError::Malformed;
        let slot = self.slots.get(position).ok_or(malformed("a slot is missing"))?;
        let entry = self.entry(position).ok_or(malformed("a record is out of bounds or of an unknown kind"))?;
        let (offset, suffix, value) = slot_fields(slot);
        if offset + 1 + suffix + value != end {
            return Err(malformed("a record is not in its place"));
        }
        if slot_head(slot) != head(entry.suffix) {
            return Err(malformed("a head is not that of its key"));
        }
        let key = self.prefix().len() + suffix;
        if key > MAX_KEY || key + value > MAX_RECORD || (entry.kind == RecordKind::Tombstone && value > 0) {
            return Err(malformed("a record exceeds a limit"));
        }
        Ok(offset)
    }

    fn check_order(&self) -> Result<(), PageError> {
        let suffixes = || self.iter().map(|entry| entry.suffix);
        if !suffixes().zip(suffixes().skip(1)).all(|(a, b)| a < b) {
            return Err(PageError::Malformed("the keys are out of order"));
        }
        let mut key = Vec::new();
        for position in [0, self.len().saturating_sub(1)] {
            if self.key_into(position, &mut key) && !self.covers(&key) {
                return Err(PageError::Malformed("a key is outside of the fences"));
            }
        }
        Ok(())
    }
}
