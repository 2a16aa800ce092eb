//! Second chance for records in use: records that were changed in place since they were appended are appended again
//! before compaction, so that keys that are written often stay in memory and out of deltas (hash.md, "Compaction").

use super::{Compactor, Region};
use crate::{
    chains::{Newest, SearchDepth},
    log::{Address, Record},
};

/// At most one part in this many of a compacted region is kept, so that compaction always frees as much.
const KEPT_PART: u64 = 2;

impl Compactor<'_> {
    /// Appends again the records of a region below SAFE that were changed in place, as long as there is memory at once.
    /// Only in unlogged keyspaces: the addresses of records tell which part of the database's log is still needed.
    pub(super) fn copy_updated_to_tail(&self, region: Region) {
        if self.install.is_logged() {
            return;
        }
        let mut left = region.bytes() / KEPT_PART;
        for page in region.pages() {
            if left == 0 || !self.hash.reservations.try_to_make_frames(&self.hash.chains) {
                return;
            }
            left = left.saturating_sub(self.keep_used_of(page));
        }
    }

    /// Appends the changed records of a page again. Returns their bytes. Promised records go into the delta anyway.
    fn keep_used_of(&self, page: Address) -> u64 {
        let (pin, mut key, mut value) = (self.hash.chains.domain.pin(), Vec::new(), Vec::new());
        let (mut kept, floor) = (0, self.install.durable_floor());
        for (address, record) in self.hash.chains.log.page(page, &pin) {
            let state = record.state();
            if address < floor || state.sealed() || !state.was_changed() || !state.has_value() {
                continue;
            }
            record.read_key(&mut key);
            record.read(&mut value);
            // This is an update with the current value (hash-protocol.md, invariant 6).
            let reach = SearchDepth::whole(self.hash.chains.log.bounds().begin());
            let other = |newest: Newest<'_>| !matches!(newest, Newest::Here(at, _) if at == address);
            match self.hash.chains.append_unless(&self.hash.chains.key(&key), Some(&value), reach, &pin, other) {
                Ok(Some(copy)) => {
                    if self.hash.chains.reports.is_on() {
                        self.note_copy(address, copy, &value);
                    }
                    kept += Record::bytes(record.capacity());
                    self.hash.counts.kept.increment();
                }
                Ok(None) => {}
                Err(_) => break,
            }
        }
        kept
    }

    /// Notes that two records have one version now. Under the lock of the copy, which changes with the lock held.
    fn note_copy(&self, record: Address, copy: Address, value: &[u8]) {
        let (pin, mut now) = (self.hash.chains.domain.pin(), Vec::new());
        let locked = self.hash.chains.log.record(copy, &pin).map(|record| record.lock());
        locked.iter().for_each(|locked| locked.read(&mut now));
        // If the copy has changed already, the version was reported.
        let is_changed = locked.as_ref().is_some_and(|_| now != value);
        self.hash.chains.tail_copies.note(record, if is_changed { record } else { copy });
        drop(locked);
    }
}
