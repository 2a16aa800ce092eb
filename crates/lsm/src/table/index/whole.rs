//! An index with all of its partitions, for callers that read a whole table.

use crate::table::index::{Candidates, Index, IndexKind, Located, Partition};

/// An index, and its partitions if it has some.
#[derive(Debug)]
pub struct WholeIndex {
    index: Index,
    partitions: Vec<Partition>,
}

impl WholeIndex {
    /// An index with all of its partitions.
    pub(in super::super) fn new(index: Index, partitions: Vec<Partition>) -> WholeIndex {
        WholeIndex { index, partitions }
    }

    /// The blocks that can have a key, which must lie between the first and the last key of the table.
    ///
    /// # Panics
    /// If a partition is missing.
    pub fn locate(&self, key: &[u8]) -> Candidates {
        match self.index.locate(key) {
            Located::Blocks(blocks) => blocks,
            Located::Partition(number) => self.partitions[number as usize].locate(key),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> IndexKind {
        self.index.kind()
    }
}
