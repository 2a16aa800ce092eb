//! The only allocator of budgeted memory.
//!
//! An [`Arena`] has chunks of 1 MiB up to a capacity and leases them as [`Block`]s: whole, as sixteenths (slabs), or as
//! sixteenths of slabs (frames). A frame can be cut to its used part, in sixteenths again (cells). The lowest chunk
//! with space is used first, so that the upper chunks become free. Two neighbouring chunks are mapped together, as one
//! huge page where the system has huge pages, and unmapped as soon as both are wholly free. Held memory is mapped
//! memory, so rounding and fragmentation cannot hide.

mod bits;
mod block;
mod cells;
mod map;
mod places;
#[cfg(test)]
mod tests;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use parking_lot::Mutex;

pub use block::Block;
pub use cells::cut_bytes;
use places::{Place, Places};

/// Bytes of a chunk, the largest block.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Cells of a frame.
const CELLS: usize = 16;
/// Bytes of a cell, the unit in which the rest of a cut frame is counted.
pub const CELL_BYTES: usize = Size::Frame.bytes() / CELLS;
/// Tags are below this.
pub const TAGS: usize = 32;

/// The sizes that can be leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// 4 KiB.
    Frame,
    /// 64 KiB.
    Slab,
    /// 1 MiB.
    Chunk,
}

impl Size {
    /// The size in bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            Size::Frame => CHUNK_BYTES / 256,
            Size::Slab => CHUNK_BYTES / 16,
            Size::Chunk => CHUNK_BYTES,
        }
    }
}

/// Budgeted memory, shared by all its lessees.
#[derive(Debug)]
pub struct Arena {
    capacity: usize,
    state: Mutex<State>,
    /// Bytes leased under each tag. They are written with the state locked and read without, because every write of a
    /// record reads them.
    tagged: [AtomicUsize; TAGS],
}

#[derive(Debug)]
struct State {
    places: Places,
    leased: usize,
}

impl Arena {
    /// An arena of at most `capacity_bytes`, rounded down to whole chunks. Nothing is mapped yet.
    pub fn new(capacity_bytes: usize) -> Arc<Arena> {
        let chunks = capacity_bytes / CHUNK_BYTES;
        let (state, tagged) = (State { places: Places::new(chunks), leased: 0 }, [const { AtomicUsize::new(0) }; TAGS]);
        Arc::new(Arena { capacity: chunks * CHUNK_BYTES, state: Mutex::new(state), tagged })
    }

    /// Leases a block under `tag`; `None` when the capacity is used up (or the system has no memory).
    ///
    /// # Panics
    /// If `tag` is not below [`TAGS`].
    pub fn lease(self: &Arc<Self>, size: Size, tag: u8) -> Option<Block> {
        self.lease_keeping(size, tag, 0)
    }

    /// As [`lease`](Self::lease), but `None` also if less than `keep` bytes would stay free, or if a new chunk were
    /// needed and fewer than `keep` bytes in whole chunks would stay unused. The kept bytes are thus usable for any
    /// size, however fragmented the rest is.
    pub fn lease_keeping(self: &Arc<Self>, size: Size, tag: u8, keep: usize) -> Option<Block> {
        assert!(usize::from(tag) < TAGS, "tag {tag} is not below {TAGS}");
        let mut state = self.state.lock();
        let left = (self.capacity - state.leased).checked_sub(size.bytes())?;
        if left < keep {
            return None;
        }
        let (place, start) = state.places.take(size, keep / CHUNK_BYTES)?;
        self.count(&mut state, size.bytes(), tag);
        Some(Block::new(self.clone(), start, place, tag))
    }

    /// Bytes mapped from the system, in pairs of chunks.
    pub fn held_bytes(&self) -> usize {
        self.state.lock().places.mapped_bytes()
    }

    /// The most that can be held, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.capacity
    }

    /// Bytes of the blocks that are leased under `tag`.
    pub fn tagged_bytes(&self, tag: u8) -> usize {
        self.tagged[usize::from(tag)].load(Relaxed)
    }

    /// Bytes that could still be leased if there were no fragmentation.
    pub fn free_bytes(&self) -> usize {
        self.capacity - self.state.lock().leased
    }

    fn retag(&self, bytes: usize, from: u8, to: u8) {
        assert!(usize::from(to) < TAGS, "tag {to} is not below {TAGS}");
        let _state = self.state.lock();
        self.tagged[usize::from(from)].fetch_sub(bytes, Relaxed);
        self.tagged[usize::from(to)].fetch_add(bytes, Relaxed);
    }

    /// Leases cells of a frame that is split, if one has space for them.
    fn lease_cells(self: &Arc<Self>, cells: u8, tag: u8) -> Option<Block> {
        let mut state = self.state.lock();
        let (place, start) = state.places.take_cells(cells)?;
        self.count(&mut state, place.bytes(), tag);
        Some(Block::new(self.clone(), start, place, tag))
    }

    /// Gives a frame back, except for so many cells at its front.
    fn cut(&self, frame: Place, cells: u8, tag: u8) -> Place {
        let mut state = self.state.lock();
        let place = state.places.cut(frame, cells);
        self.discount(&mut state, frame.bytes() - place.bytes(), tag);
        place
    }

    fn count(&self, state: &mut State, bytes: usize, tag: u8) {
        state.leased += bytes;
        self.tagged[usize::from(tag)].fetch_add(bytes, Relaxed);
    }

    fn discount(&self, state: &mut State, bytes: usize, tag: u8) {
        state.leased -= bytes;
        self.tagged[usize::from(tag)].fetch_sub(bytes, Relaxed);
    }

    fn give_back(&self, place: Place, tag: u8) {
        let mut state = self.state.lock();
        self.discount(&mut state, place.bytes(), tag);
        state.places.give_back(place);
    }
}
