//! The iterator over one sorted run, for scans and compactions: the tables of a run or level, or the pages of the page
//! tier.

use ecotone_substrate::{Result, Seq};

use crate::{
    pages::tier::PageCursor,
    read::{merging_iterator::RecordIterator, run_iterator::RunIterator},
};

/// An iterator over a sorted run, on its next record.
#[expect(clippy::large_enum_variant, reason = "all but the last are tables")]
pub(crate) enum SortedRunIterator {
    Tables(RunIterator),
    Pages(PageCursor),
}

impl SortedRunIterator {
    /// The current record; no value is a tombstone.
    pub(crate) fn record(&self) -> Option<(&[u8], Option<&[u8]>)> {
        match self {
            SortedRunIterator::Tables(tables) => tables.record(),
            SortedRunIterator::Pages(pages) => pages.record().map(|(key, value)| (key, Some(value))),
        }
    }

    /// Deleted records that it has passed over. Tables return theirs, as tombstones.
    pub(crate) fn deletes_passed(&self) -> u64 {
        match self {
            SortedRunIterator::Tables(_) => 0,
            SortedRunIterator::Pages(pages) => pages.deletes_passed(),
        }
    }

    /// Whether the block of the current record is in the block cache, for readers that read ahead.
    pub(crate) fn is_cached(&self) -> bool {
        matches!(self, SortedRunIterator::Tables(tables) if tables.is_cached())
    }

    /// The smallest and the largest sequence that the current record may have. Pages keep no sequences, and are older
    /// than all tables.
    pub(crate) fn sequences(&self) -> (Seq, Seq) {
        match self {
            SortedRunIterator::Tables(tables) => tables.sequences(),
            SortedRunIterator::Pages(_) => (0, 0),
        }
    }
}

impl RecordIterator for SortedRunIterator {
    fn key(&self) -> Option<&[u8]> {
        match self {
            SortedRunIterator::Tables(tables) => tables.key(),
            SortedRunIterator::Pages(pages) => pages.key(),
        }
    }

    fn step(&mut self) -> Result<()> {
        match self {
            SortedRunIterator::Tables(tables) => tables.step(),
            SortedRunIterator::Pages(pages) => pages.step(),
        }
    }
}
