//! The log as a whole.

#[cfg(not(feature = "loom"))]
pub(in crate::hash) mod files;
#[cfg(not(feature = "loom"))]
mod growth;
#[cfg(feature = "loom")]
mod orders;
#[cfg(not(feature = "loom"))]
mod pages;
#[cfg(not(feature = "loom"))]
mod records;

use std::sync::Arc;

use ecotone_sys::chunk::{Arena, Block, CHUNK_BYTES, Size};

use super::*;

/// Memory for frames.
pub(in crate::hash) fn arena() -> Arc<Arena> {
    Arena::new(8 * CHUNK_BYTES)
}

/// Memory of a frame.
pub(in crate::hash) fn block(arena: &Arc<Arena>) -> Block {
    // A model of loom has few words, whatever the block.
    let size = if cfg!(feature = "loom") { Size::Frame } else { Size::Slab };
    arena.lease(size, 0).expect("the tests need little")
}

/// An empty log with all of its frames in memory.
pub(in crate::hash) fn log(arena: &Arc<Arena>, frames: usize) -> (Arc<Domain>, HotLog) {
    let domain = Domain::new();
    let log = HotLog::new(&domain, Address::FIRST, frames);
    (0..frames as u64).for_each(|number| log.enter(number, block(arena)).expect("the ring is empty"));
    (domain, log)
}
