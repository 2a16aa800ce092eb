//! The log as a whole.

#[cfg(not(feature = "loom"))]
pub(crate) mod files;
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

#[cfg(not(feature = "loom"))]
use super::flush::NextSegment;
use super::*;

/// Memory for frames.
pub(crate) fn arena() -> Arc<Arena> {
    Arena::new(8 * CHUNK_BYTES)
}

/// Memory of a frame.
pub(crate) fn block(arena: &Arc<Arena>) -> Block {
    // A model of loom has few words, whatever the block.
    let size = if cfg!(feature = "loom") { Size::Frame } else { Size::Slab };
    arena.lease(size, 0).expect("the tests need little")
}

/// An empty log with all of its frames in memory.
pub(crate) fn log(arena: &Arc<Arena>, frames: usize) -> (Arc<Domain>, HotLog) {
    let domain = Domain::new();
    let log = HotLog::new(&domain, Address::FIRST, frames);
    (0..frames as u64).for_each(|number| log.enter(number, block(arena)).expect("the ring is empty"));
    (domain, log)
}

/// Replaces the engine's own reservation and background work.
#[cfg(not(feature = "loom"))]
impl HotLog {
    /// Writes and evicts frames wholly below page boundary `until`, which is not above TAIL.
    pub(crate) fn write_and_evict(
        &self,
        environment: &Environment,
        until: Address,
        next: &mut NextSegment<'_>,
    ) -> Result<()> {
        self.freeze(until);
        self.write_out(environment, until, next)?;
        self.evict(until, drop);
        Ok(())
    }

    /// Evicts the oldest frame if it is full, except perhaps for the end of its last page. That is the state when the
    /// log has no memory left.
    pub(crate) fn evict_oldest(&self, environment: &Environment, next: &mut NextSegment<'_>) -> Result<()> {
        let until = self.bounds.head().frame_end();
        if until > self.tail() {
            self.close_page();
        }
        // Otherwise another thread has made space meanwhile.
        if until <= self.tail() { self.write_and_evict(environment, until, next) } else { Ok(()) }
    }

    /// All segments, oldest first.
    pub(crate) fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments.all()
    }
}
