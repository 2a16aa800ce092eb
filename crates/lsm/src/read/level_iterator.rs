//! The level iterator: one source of a merge on disk, for scans and compactions. It is a run or level of tables, or the
//! pages of the page tier.

use ecotone_substrate::{Result, Seq};

use crate::{
    pages::tier::PageCursor,
    read::{merging_iterator::RecordIterator, run_iterator::RunIterator},
};

/// A source of records on disk, on its next record.
#[expect(clippy::large_enum_variant, reason = "all but the last are tables")]
pub(crate) enum LevelIterator {
    Tables(RunIterator),
    Pages(PageCursor),
}

impl LevelIterator {
    /// The current record; no value is a tombstone.
    pub(crate) fn record(&self) -> Option<(&[u8], Option<&[u8]>)> {
        match self {
            LevelIterator::Tables(stored) => stored.record(),
            LevelIterator::Pages(based) => based.record().map(|(key, value)| (key, Some(value))),
        }
    }

    /// Whether the block of the current record is in the block cache, for readers that read ahead.
    pub(crate) fn is_cached(&self) -> bool {
        matches!(self, LevelIterator::Tables(stored) if stored.is_cached())
    }

    /// The smallest and the largest sequence that the current record may have. Pages keep no sequences, and are older
    /// than all tables.
    pub(crate) fn sequences(&self) -> (Seq, Seq) {
        match self {
            LevelIterator::Tables(stored) => stored.sequences(),
            LevelIterator::Pages(_) => (0, 0),
        }
    }
}

impl RecordIterator for LevelIterator {
    fn key(&self) -> Option<&[u8]> {
        match self {
            LevelIterator::Tables(stored) => stored.key(),
            LevelIterator::Pages(based) => based.key(),
        }
    }

    fn step(&mut self) -> Result<()> {
        match self {
            LevelIterator::Tables(stored) => stored.step(),
            LevelIterator::Pages(based) => based.step(),
        }
    }
}
