//! Number of entries of an index, estimated from a sample.

use ecotone_sys::primitive::{
    atomic::{AtomicI64, Ordering},
    unless_shuttle,
};

use super::entry::Entry;

/// One tag in this many is counted, so that few inserts write the shared counter. Under shuttle there are few tags, and
/// all are counted.
const SAMPLE: u64 = unless_shuttle(16, 1);

/// The counter. It is below zero for a moment when an entry is removed before its insert was counted.
#[derive(Debug, Default)]
pub(super) struct Load(AtomicI64);

impl Load {
    /// Estimated number of entries.
    pub(super) fn entries(&self) -> u64 {
        self.0.load(Ordering::Relaxed).max(0) as u64 * SAMPLE
    }

    /// Counts an entry that was inserted.
    pub(super) fn came(&self, entry: Entry) {
        self.count(entry, 1);
    }

    /// Counts an entry that was removed.
    pub(super) fn went(&self, entry: Entry) {
        self.count(entry, -1);
    }

    fn count(&self, entry: Entry, change: i64) {
        if entry.tag().is_multiple_of(SAMPLE) {
            self.0.fetch_add(change, Ordering::Relaxed);
        }
    }
}
