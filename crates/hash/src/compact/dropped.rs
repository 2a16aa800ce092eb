//! Records of the hot log that a compaction drops. They are reported as superseded just before the log ends above them
//! (superseded.md, invariants 2 and 6).

use super::Compactor;
use crate::log::Address;

/// A version that leaves the hot log.
#[derive(Debug)]
struct DroppedRecord {
    address: Address,
    key: Vec<u8>,
    old: Vec<u8>,
}

/// The records that a compaction drops; none without a listener.
#[derive(Debug, Default)]
pub(super) struct DroppedRecords(Vec<DroppedRecord>);

impl DroppedRecords {
    /// The number of records.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes the last records back.
    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

impl Compactor<'_> {
    /// Adds a record that is dropped for a newer one of its key. A record with an equal newer one is a copy, but what
    /// was appended again may change before the old record goes.
    pub(super) fn add_dropped(
        &self,
        dropped: &mut DroppedRecords,
        (address, key, old): (Address, &[u8], Option<&[u8]>),
        newer: impl FnOnce() -> Option<Vec<u8>>,
    ) {
        let Some(old) = old.filter(|_| self.hash.chains.reports.is_on()) else { return };
        if self.hash.chains.tail_copies.has(address) || newer().as_deref() != Some(old) {
            dropped.0.push(DroppedRecord { address, key: key.to_vec(), old: old.to_vec() });
        }
    }

    /// Reports the records. They are about to leave the log, below `begin`.
    pub(super) fn report_dropped(&self, dropped: &DroppedRecords, begin: Address) {
        if !self.hash.chains.reports.is_on() {
            return;
        }
        for DroppedRecord { address, key, old } in &dropped.0 {
            self.hash.chains.report_unless_copied(*address, key, old);
        }
        self.hash.chains.tail_copies.forget_below(begin);
    }
}
