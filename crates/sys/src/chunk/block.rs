//! A leased piece of memory.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    slice,
    sync::Arc,
};

use super::{Arena, cells::cells_for, places::Place};

/// A block leased from an [`Arena`], given back on drop. Aligned to 4096 bytes, unless it was [cut](Self::cut), and
/// always initialised: zero if the memory is new, else whatever the last holder left.
pub struct Block {
    start: NonNull<u8>,
    arena: Arc<Arena>,
    place: Place,
    tag: u8,
}

// SAFETY: a block owns its bytes alone (the arena leases no byte twice and touches none), so it may move between
// threads.
unsafe impl Send for Block {}
// SAFETY: through a shared block the bytes can only be read.
unsafe impl Sync for Block {}

impl Block {
    /// `start` must be the first byte of the place in a mapping that stays until the place is given back.
    pub(super) fn new(arena: Arc<Arena>, start: NonNull<u8>, place: Place, tag: u8) -> Self {
        Block { start, arena, place, tag }
    }

    /// The first byte, without a reference to any byte: for callers that let others change the bytes meanwhile.
    #[cfg(not(any(feature = "shuttle", feature = "loom")))]
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length in bytes, also without a reference to any byte.
    #[cfg(not(any(feature = "shuttle", feature = "loom")))]
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.place.bytes()
    }

    /// The tag under which the block is counted.
    pub fn tag(&self) -> u8 {
        self.tag
    }

    /// Counts the block under another tag from now on.
    ///
    /// # Panics
    /// If `tag` is not below [`TAGS`](super::TAGS).
    pub fn retag(&mut self, tag: u8) {
        self.arena.retag(self.place.bytes(), self.tag, tag);
        self.tag = tag;
    }

    /// Keeps only the first `bytes`, rounded up to cells of [`CELL_BYTES`](super::CELL_BYTES), and gives the others
    /// back. The kept cells move to a frame that was cut before if one has space, else they stay where they are. A
    /// block that is no frame, or that is used to its end, is unchanged.
    #[must_use]
    pub fn cut(mut self, bytes: usize) -> Block {
        let Some(cells) = cells_for(bytes).filter(|_| self.place.is_frame()) else { return self };
        if let Some(mut cut) = self.arena.lease_cells(cells, self.tag) {
            let kept = cut.len();
            cut.copy_from_slice(&self[..kept]);
            return cut;
        }
        self.place = self.arena.cut(self.place, cells, self.tag);
        self
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the place's bytes are mapped until the drop of this block, initialised by the system (zeros), leased
        // to this block alone, and borrowed as the block is.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.place.bytes()) }
    }
}

impl DerefMut for Block {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the unique borrow of the block makes the borrow of its bytes unique.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.place.bytes()) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.arena.give_back(self.place, self.tag);
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("place", &self.place).field("tag", &self.tag).finish_non_exhaustive()
    }
}
