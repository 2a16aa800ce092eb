//! One block of memory, cut into slots of one size.

use ecotone_sys::chunk::Block;

use super::{
    class::Class,
    handle::Link,
    record::{self, Meta},
};

/// A slab. Free slots are chained through their first word.
#[derive(Debug)]
pub(super) struct Slab {
    block: Block,
    class: Class,
    /// Bytes of a slot.
    size: usize,
    /// The first free slot that was used before.
    free: Link,
    /// Slots from here on were never used.
    fresh: u16,
    used: u16,
    reserved: u16,
    chained: u16,
    /// Whether the list of slabs with room names it.
    pub(super) listed: bool,
}

impl Slab {
    pub(super) fn new(block: Block, class: Class) -> Self {
        Slab { block, class, size: class.bytes(), free: Link::NONE, fresh: 0, used: 0, reserved: 0, chained: 0, listed: false }
    }

    pub(super) fn class(&self) -> Class {
        self.class
    }

    /// Free slots.
    pub(super) fn vacant(&self) -> usize {
        self.class.slots() - usize::from(self.used)
    }

    /// Slots that hold nothing but must not move: a writer has their handle.
    pub(super) fn reserved(&self) -> usize {
        usize::from(self.reserved)
    }

    /// Records that are dirty or being written.
    pub(super) fn chained(&self) -> usize {
        usize::from(self.chained)
    }

    /// Slots that were ever used: those that are worth looking at.
    pub(super) fn fresh(&self) -> u16 {
        self.fresh
    }

    #[inline]
    pub(super) fn slot(&self, slot: u16) -> &[u8] {
        let start = usize::from(slot) * self.size;
        &self.block[start..start + self.size]
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, slot: u16) -> &mut [u8] {
        let start = usize::from(slot) * self.size;
        &mut self.block[start..start + self.size]
    }

    /// Changes the state of a slot and counts.
    pub(super) fn set_meta(&mut self, slot: u16, meta: Meta) {
        let bytes = self.slot_mut(slot);
        let before = record::meta(bytes);
        record::set_meta(bytes, meta);
        self.chained = self.chained + u16::from(meta.chained()) - u16::from(before.chained());
        self.reserved = self.reserved + u16::from(meta.reserved()) - u16::from(before.reserved());
    }

    /// Takes a free slot.
    pub(super) fn take(&mut self) -> Option<u16> {
        let slot = match self.free.handle() {
            Some(handle) => {
                self.free = record::next(self.slot(handle.slot()));
                handle.slot()
            }
            None if usize::from(self.fresh) < self.class.slots() => {
                self.fresh += 1;
                let slot = self.fresh - 1;
                record::set_meta(self.slot_mut(slot), Meta::FREE);
                slot
            }
            None => return None,
        };
        self.used += 1;
        Some(slot)
    }

    /// Gives a slot back, which holds nothing any more.
    pub(super) fn give(&mut self, slot: u16, as_link: Link) {
        let free = self.free;
        self.set_meta(slot, Meta::FREE);
        record::set_next(self.slot_mut(slot), free);
        self.free = as_link;
        self.used -= 1;
    }

    /// The memory, of a slab that nobody uses any more.
    pub(super) fn into_block(self) -> Block {
        debug_assert!(self.chained == 0 && self.reserved == 0);
        self.block
    }
}
