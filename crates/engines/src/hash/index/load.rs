//! How many entries an index has, by a sample of them.

use ecotone_sys::primitive::atomic::{AtomicI64, Ordering};

use super::entry::Entry;

/// One tag in so many is counted, so that few who insert write the same word. With shuttle there are few, and all are.
const SAMPLE: u64 = if cfg!(feature = "shuttle") { 1 } else { 16 };

/// The count. It is below zero for a moment when an entry goes before it was counted.
#[derive(Debug, Default)]
pub(super) struct Load(AtomicI64);

impl Load {
    /// How many entries there are, more or less.
    pub(super) fn entries(&self) -> u64 {
        self.0.load(Ordering::Relaxed).max(0) as u64 * SAMPLE
    }

    /// An entry has come.
    pub(super) fn came(&self, entry: Entry) {
        self.count(entry, 1);
    }

    /// An entry has gone.
    pub(super) fn went(&self, entry: Entry) {
        self.count(entry, -1);
    }

    fn count(&self, entry: Entry, change: i64) {
        if entry.tag().is_multiple_of(SAMPLE) {
            self.0.fetch_add(change, Ordering::Relaxed);
        }
    }
}
