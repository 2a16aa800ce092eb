//! The numbers of a block's format (`docs/format/lsm.md`, "Block").

/// Bytes of the header.
pub(super) const HEADER: usize = 16;
/// Records from one whole key to the next. The records of one restart interval are called a *run* here.
pub(super) const RESTART_INTERVAL: usize = 16;
/// Bytes of a restart offset.
pub(super) const RESTART: usize = 2;
/// The two forms of a block: entries as they are, and entries packed by LZ4.
pub(super) const PLAIN: u8 = 1;
pub(super) const PACKED: u8 = 2;
