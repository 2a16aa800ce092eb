//! Counts the pages read from and written to a page file, by purpose.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The purpose of a page read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IoPurpose {
    /// A point read of a key that the cache does not hold.
    Get,
    /// A scan of a range.
    Scan,
    /// Write-out of dirty records in place.
    WriteOut,
    /// A new overflow page.
    Overflow,
    /// New segments; bulk loads as well.
    Reorganise,
    /// Nodes of the index.
    Index,
    /// A full check, or sampled statistics.
    Check,
}

/// Names of the counters, by [`IoPurpose`]; empty where nothing is read or written.
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

/// Pages read and written so far.
#[derive(Debug, Default)]
pub(crate) struct PageIoStats {
    read: [AtomicU64; CAUSES],
    written: [AtomicU64; CAUSES],
}

impl PageIoStats {
    /// Counts pages that are read.
    pub(crate) fn read(&self, cause: IoPurpose, pages: usize) {
        self.read[cause as usize].fetch_add(pages as u64, Relaxed);
    }

    /// Counts pages that are written.
    pub(crate) fn written(&self, cause: IoPurpose, pages: usize) {
        self.written[cause as usize].fetch_add(pages as u64, Relaxed);
    }

    /// Number of all written pages.
    pub(crate) fn written_pages(&self) -> u64 {
        self.written.iter().map(|pages| pages.load(Relaxed)).sum()
    }

    /// The counters with their names in the statistics.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let numbers = READS.into_iter().zip(&self.read).chain(WRITES.into_iter().zip(&self.written));
        numbers.filter(|(name, _)| !name.is_empty()).map(|(name, number)| (name, number.load(Relaxed)))
    }
}
