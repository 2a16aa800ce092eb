//! How the dirty index reaches records.

use super::{super::handle::Address, entry::Key};

/// Access to the records that entries refer to.
pub(in crate::cache) trait Cells {
    /// Reads the key of the record at an entry's address. The leaf of the entry is locked.
    fn with_key<T>(&self, address: Address, look: impl FnOnce(Key<'_>) -> T) -> T;
}
