//! An index that was learned, as the builder of a table writes it.

use crate::table::index::kind::IndexKind;

/// An index that was learned.
#[derive(Debug)]
pub(in crate::table) struct Built {
    pub(in crate::table) kind: IndexKind,
    pub(in crate::table) bytes: Vec<u8>,
    /// The pages of its partitions, which lie before it in the file. Their checksums are missing.
    pub(in crate::table) partitions: Vec<Vec<u8>>,
    /// The mean number of blocks that a search reads without finding the key there, over all keys, as far as the
    /// boundaries tell.
    pub(super) in_vain: f64,
}

impl Built {
    pub(super) fn whole(kind: IndexKind, bytes: Vec<u8>, in_vain: f64) -> Built {
        Built { kind, bytes, partitions: Vec::new(), in_vain }
    }
}
