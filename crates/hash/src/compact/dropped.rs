//! Records of the hot log that a compaction drops. They are reported as superseded just before the log ends above them
//! (superseded.md, invariants 2 and 6).

use ecotone_sys::{epoch::Pin, primitive::atomic::Ordering, words::WORD};

use super::Compactor;
use crate::{
    chains::SearchDepth,
    key::Key,
    log::{Address, HeaderKind, Record},
};

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
    /// Adds a record that is dropped for a younger one of its key. A record with an equal younger one is a copy, but
    /// what was appended again may change before the old record goes.
    pub(super) fn add_dropped(
        &self,
        dropped: &mut DroppedRecords,
        (address, key, old): (Address, &[u8], Option<&[u8]>),
        younger: impl FnOnce() -> (Address, Option<Vec<u8>>),
    ) {
        let Some(old) = old.filter(|_| self.hash.chains.reports.is_on()) else { return };
        let (other, value) = younger();
        if self.hash.chains.tail_copies.is_pair(address, other) || value.as_deref() != Some(old) {
            dropped.0.push(DroppedRecord { address, key: key.to_vec(), old: old.to_vec() });
        }
    }

    /// The record with which a dropped one is compared, and its value: the adjacent younger one, as far as memory has
    /// it. For a record of an earlier life it is the newest one, since replay may have written an older version again.
    pub(super) fn younger(
        &self,
        key: &Key<'_>,
        address: Address,
        newest: (Address, Record<'_>),
        pin: &Pin<'_>,
    ) -> (Address, Option<Vec<u8>>) {
        let chains = &self.hash.chains;
        let reach = SearchDepth { begin: chains.log.bounds().begin(), floor: address.plus(WORD as u64) };
        let is_of_this_life = address.get() >= chains.recovered_at.load(Ordering::Relaxed);
        let (at, record) = if is_of_this_life { chains.oldest(key, newest, reach, pin) } else { newest };
        let mut value = Vec::new();
        (at, (record.read(&mut value).kind() == HeaderKind::Value).then_some(value))
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
