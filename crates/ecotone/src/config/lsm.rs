//! Options of the lsm engine.

use ecotone_lsm::{Compression, IndexKind};

use super::settings::Settings;

/// Options of [`Engine::Lsm`](crate::Engine::Lsm), for [`KeyspaceOptions::lsm`](crate::KeyspaceOptions::lsm). Values
/// out of range are errors when the keyspace is created.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LsmOptions(pub(super) Settings);

/// The name of the index that is chosen for each table.
const AUTO: &str = "auto";

impl LsmOptions {
    /// Sets how the blocks of a table are found. Default [`IndexKind::Linear`]. `None` chooses the cheapest kind for
    /// each table, by its size and read frequency. Keys that lines cannot tell apart get [`IndexKind::Single`]
    /// (SpongeKV).
    pub fn index(self, kind: impl Into<Option<IndexKind>>) -> Self {
        LsmOptions(self.0.with("index", kind.into().map_or(AUTO, IndexKind::name)))
    }

    /// Sets the error bound of [`IndexKind::Plr`] in bytes, 400 to 16384. Default 2000.
    pub fn error(self, bytes: u32) -> Self {
        LsmOptions(self.0.with("error", bytes))
    }

    /// Sets the filter bits per key in a table of the last level, 0 (no filters) to 32. Default 10. Other levels have 4
    /// more.
    pub fn filter_bits(self, bits: u8) -> Self {
        LsmOptions(self.0.with("filter_bits", bits))
    }

    /// Sets the compression of blocks. Default [`Compression::None`]. [`Compression::Lz4`] is for cold data that
    /// repeats itself. Unpacking takes a few microseconds (computed, not measured) at each access to a block.
    pub fn compression(self, compression: Compression) -> Self {
        LsmOptions(self.0.with("compression", compression.name()))
    }

    /// Sets the size of a memtable in bytes, 1 to 64 MiB. Default an eighth of the memory budget, within these bounds.
    /// Less where memory is short.
    pub fn memtable(self, bytes: u64) -> Self {
        LsmOptions(self.0.with("memtable", bytes))
    }

    /// Sets the size of a table in bytes, 64 KiB to 64 MiB. Default half a memtable, and at least 8 MiB. A table has at
    /// least a 4096th of the memory budget, whatever is set.
    pub fn table(self, bytes: u64) -> Self {
        LsmOptions(self.0.with("table", bytes))
    }
}
