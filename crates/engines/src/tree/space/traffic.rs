//! How many pages go from and to a page file, by what they are for.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a page is read or written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A key that the cache does not hold.
    Get,
    /// A range.
    Scan,
    /// Dirty records; what is written goes in place.
    WriteOut,
    /// A new overflow page.
    Overflow,
    /// New segments; bulk loads as well.
    Reorganise,
    /// Nodes of the index.
    Index,
    /// A check of everything, or a look at a sample.
    Check,
}

/// Names of the numbers, by [`Cause`]; empty where nothing is read or written.
const READS: [&str; CAUSES] = [
    "pages_read_for_gets",
    "pages_read_for_scans",
    "pages_read_for_write_out",
    "",
    "pages_read_for_reorganisation",
    "pages_read_for_index",
    "pages_read_for_checks",
];
const WRITES: [&str; CAUSES] = [
    "",
    "",
    "pages_written_in_place",
    "pages_written_for_overflow",
    "pages_written_for_reorganisation",
    "pages_written_for_index",
    "",
];
const CAUSES: usize = 7;

/// Pages so far.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    read: [AtomicU64; CAUSES],
    written: [AtomicU64; CAUSES],
}

impl Traffic {
    /// Counts pages that are read.
    pub(crate) fn read(&self, cause: Cause, pages: usize) {
        self.read[cause as usize].fetch_add(pages as u64, Relaxed);
    }

    /// Counts pages that are written.
    pub(crate) fn written(&self, cause: Cause, pages: usize) {
        self.written[cause as usize].fetch_add(pages as u64, Relaxed);
    }

    /// All that was written.
    pub(crate) fn written_pages(&self) -> u64 {
        self.written.iter().map(|pages| pages.load(Relaxed)).sum()
    }

    /// The numbers as statistics show them.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let numbers = READS.into_iter().zip(&self.read).chain(WRITES.into_iter().zip(&self.written));
        numbers.filter(|(name, _)| !name.is_empty()).map(|(name, number)| (name, number.load(Relaxed)))
    }
}
