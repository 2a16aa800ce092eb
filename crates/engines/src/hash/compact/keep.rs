//! A second chance for what is used: records that were changed in place since they were appended are appended once more
//! before compaction comes to them, so that what is written often stays in memory and in no delta (decision 9,
//! "Compaction").

use super::{Compactor, Region};
use crate::hash::{
    Hash,
    log::{Address, Record},
    lookup::{Newest, Reach},
};

/// The part of what is compacted that is kept at most, so that compaction always frees as much.
const KEPT_PART: u64 = 2;

impl Compactor<'_> {
    /// Appends once more what was changed in place in a region below SAFE, as long as there is room at once. Only where
    /// nothing is logged: what the database's log must keep is told by where records lie.
    pub(super) fn keep_used(&self, region: Region) {
        if self.install.is_logged() {
            return;
        }
        let mut left = region.bytes() / KEPT_PART;
        for page in region.pages() {
            if left == 0 || !self.hash.try_to_make_frames() {
                return;
            }
            left = left.saturating_sub(self.hash.keep_used_of(page));
        }
    }
}

impl Hash {
    /// Appends what was changed of a page again. How many bytes.
    fn keep_used_of(&self, page: Address) -> u64 {
        let (pin, mut key, mut value) = (self.domain.pin(), Vec::new(), Vec::new());
        let mut kept = 0;
        for (address, record) in self.log.page(page, &pin) {
            let state = record.state();
            if state.sealed() || !state.was_changed() || !state.has_value() {
                continue;
            }
            record.read_key(&mut key);
            record.read(&mut value);
            // The same as an update with the value that it has (decision 10, invariant 6).
            let reach = Reach::whole(self.log.bounds().begin());
            let other = |newest: Newest<'_>| !matches!(newest, Newest::Here(at, _) if at == address);
            match self.append_unless(&self.key(&key), Some(&value), reach, &pin, other) {
                Ok(Some(_)) => {
                    kept += Record::bytes(record.capacity());
                    self.counts.kept.increment();
                }
                Ok(None) => {}
                Err(_) => break,
            }
        }
        kept
    }
}
