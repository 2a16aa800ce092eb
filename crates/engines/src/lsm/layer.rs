//! What is stored, as scans and jobs merge it: tables, and what is below them.

use ecotone_substrate::{Result, Seq};

use super::{base::Based, merged::Source, stored::Stored};

/// A source of stored records, on its next one.
#[expect(clippy::large_enum_variant, reason = "all but the last are tables")]
pub(super) enum Layer {
    Tables(Stored),
    Below(Based),
}

impl Layer {
    /// The present record; no value is a tombstone.
    pub(super) fn record(&self) -> Option<(&[u8], Option<&[u8]>)> {
        match self {
            Layer::Tables(stored) => stored.record(),
            Layer::Below(based) => based.record().map(|(key, value)| (key, Some(value))),
        }
    }

    /// Whether the block of the record is in the block cache, for who reads ahead.
    pub(super) fn is_cached(&self) -> bool {
        matches!(self, Layer::Tables(stored) if stored.is_cached())
    }

    /// The smallest and the largest sequence that the record may have. What is below the tables does not tell, and is
    /// older than all of them.
    pub(super) fn sequences(&self) -> (Seq, Seq) {
        match self {
            Layer::Tables(stored) => stored.sequences(),
            Layer::Below(_) => (0, 0),
        }
    }
}

impl Source for Layer {
    fn key(&self) -> Option<&[u8]> {
        match self {
            Layer::Tables(stored) => stored.key(),
            Layer::Below(based) => based.key(),
        }
    }

    fn step(&mut self) -> Result<()> {
        match self {
            Layer::Tables(stored) => stored.step(),
            Layer::Below(based) => based.step(),
        }
    }
}
