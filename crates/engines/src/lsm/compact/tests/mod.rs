//! Which tables are compacted, where those that come end, and which tombstones they keep.

#[cfg(not(feature = "loom"))]
mod merges;
#[cfg(feature = "loom")]
mod orders;
#[cfg(not(feature = "loom"))]
mod parts;
mod pieces;
mod split;
