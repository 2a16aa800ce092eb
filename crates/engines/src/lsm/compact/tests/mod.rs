//! Which tables are compacted, where those that come end, and which tombstones they keep.

#[cfg(not(feature = "loom"))]
mod merges;
mod pieces;
