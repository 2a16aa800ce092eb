//! A slab: one block of memory with records of any size. Cells grow from the bottom; a slot table that locates them
//! grows from the top. A slot number stays valid when its cell moves.

use ecotone_sys::chunk::{Block, Size};

use super::record::{self, Meta};

/// Bytes of a slab.
pub(super) const SLAB: usize = Size::Slab.bytes();
/// Bytes of an entry of the slot table.
pub(super) const PLACE: usize = 2;
/// Most slots of a slab: a handle has 12 bits for them.
const MAX_SLOTS: usize = 1 << 12;
/// Flag of a free slot; below it is the number of the next free slot.
const FREE: u16 = 1 << 15;
/// The end of the list of free slots.
const END: u16 = FREE - 1;

/// A slab. The size of a cell follows from the state of its record ([`Meta::cell`]).
#[derive(Debug)]
pub(super) struct Slab {
    block: Block,
    /// Slots in the table, including free ones.
    slots: usize,
    /// The first free slot.
    free: u16,
    /// Where the next cell begins.
    top: usize,
    /// Bytes of the cells in use.
    used: usize,
    /// Reserved cells: a writer holds their handle, and they have no content yet.
    reserved: usize,
}

impl Slab {
    pub(super) fn new(block: Block) -> Self {
        Slab { block, slots: 0, free: END, top: 0, used: 0, reserved: 0 }
    }

    /// Bytes available for new cells and slots, some of them only after [`compact`](Self::compact).
    pub(super) fn vacant(&self) -> usize {
        SLAB - self.slots * PLACE - self.used
    }

    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// The slots in use are below this.
    pub(super) fn slots(&self) -> u16 {
        self.slots as u16
    }

    #[inline]
    fn place(&self, slot: u16) -> u16 {
        let at = SLAB - (usize::from(slot) + 1) * PLACE;
        u16::from_le_bytes([self.block[at], self.block[at + 1]])
    }

    fn set_place(&mut self, slot: u16, place: u16) {
        let at = SLAB - (usize::from(slot) + 1) * PLACE;
        self.block[at..at + PLACE].copy_from_slice(&place.to_le_bytes());
    }

    #[inline]
    fn start(&self, slot: u16) -> usize {
        usize::from(self.place(slot)) * 2
    }

    /// Whether a slot exists and has a cell; its number may be stale.
    #[inline]
    pub(super) fn is_used(&self, slot: u16) -> bool {
        slot < self.slots() && self.place(slot) & FREE == 0
    }

    /// The cell of a used slot, and the bytes after it.
    #[inline]
    pub(super) fn cell(&self, slot: u16) -> &[u8] {
        &self.block[self.start(slot)..]
    }

    #[inline]
    pub(super) fn cell_mut(&mut self, slot: u16) -> &mut [u8] {
        let start = self.start(slot);
        &mut self.block[start..]
    }

    /// Allocates a slot and a reserved cell for a record of `bytes`, if there is space at the top.
    pub(super) fn take(&mut self, bytes: usize) -> Option<u16> {
        let meta = Meta::reserved_for(bytes);
        let fresh = self.free == END;
        let end = SLAB - (self.slots + usize::from(fresh)) * PLACE;
        if self.top + meta.cell() > end || (fresh && self.slots == MAX_SLOTS) {
            return None;
        }
        let slot = if fresh { self.slots as u16 } else { self.free };
        if fresh {
            self.slots += 1;
        } else {
            self.free = self.place(slot) & END;
        }
        self.set_place(slot, (self.top / 2) as u16);
        record::set_meta(self.cell_mut(slot), meta);
        self.top += meta.cell();
        self.used += meta.cell();
        self.reserved += 1;
        Some(slot)
    }

    /// Changes the state of a record, which may become shorter, and updates the counters.
    pub(super) fn set_meta(&mut self, slot: u16, meta: Meta) {
        let before = record::meta(self.cell(slot));
        debug_assert!(meta.cell() <= before.cell(), "a record does not fit into its cell");
        self.uncount(slot, before);
        self.used += meta.cell();
        self.top = self.top.max(self.start(slot) + meta.cell());
        self.reserved += usize::from(meta.reserved());
        record::set_meta(self.cell_mut(slot), meta);
    }

    /// Removes a cell from all counters.
    fn uncount(&mut self, slot: u16, meta: Meta) {
        self.used -= meta.cell();
        self.reserved -= usize::from(meta.reserved());
        if self.start(slot) + meta.cell() == self.top {
            self.top = self.start(slot);
        }
    }

    /// Frees a slot and its cell.
    pub(super) fn give(&mut self, slot: u16) {
        let meta = record::meta(self.cell(slot));
        self.uncount(slot, meta);
        self.set_place(slot, FREE | self.free);
        self.free = slot;
    }

    /// Moves all cells together, so that all free space is at the top.
    pub(super) fn compact(&mut self) {
        let used = |slot: &u16| self.is_used(*slot);
        let mut cells: Vec<(u16, u16)> = (0..self.slots()).filter(used).map(|slot| (self.place(slot), slot)).collect();
        cells.sort_unstable();
        self.top = 0;
        for (place, slot) in &cells {
            let start = usize::from(*place) * 2;
            let bytes = record::meta(&self.block[start..]).cell();
            if self.top < start {
                self.block.copy_within(start..start + bytes, self.top);
                self.set_place(*slot, (self.top / 2) as u16);
            }
            self.top += bytes;
        }
        debug_assert_eq!(self.top, self.used);
        self.slots = cells.iter().map(|(_, slot)| usize::from(*slot) + 1).max().unwrap_or(0);
        self.free = END;
        for slot in (0..self.slots()).rev().filter(|slot| !self.is_used(*slot)).collect::<Vec<_>>() {
            self.set_place(slot, FREE | self.free);
            self.free = slot;
        }
    }

    /// The memory of a slab that is no longer used.
    pub(super) fn into_block(self) -> Block {
        debug_assert!(self.used == 0);
        self.block
    }
}
