//! Locations of a record: in its shard, in a hash chain, and in the whole cache.

/// A slot within a shard: 12 bits of slab, 12 bits of slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotHandle(u32);

/// Most slabs of a shard. One less than 12 bits allow, so that the handle of all ones is never used.
pub(super) const MAX_SLABS: usize = (1 << 12) - 1;

impl SlotHandle {
    pub(super) fn new(slab: usize, slot: u16) -> Self {
        debug_assert!(slab < MAX_SLABS && slot < 1 << 12);
        SlotHandle((slab as u32) << 12 | u32::from(slot))
    }

    pub(super) fn slab(self) -> usize {
        (self.0 >> 12) as usize
    }

    pub(super) fn slot(self) -> u16 {
        (self.0 & 0xFFF) as u16
    }
}

/// A link of a hash chain: the tag of the next record's hash above its handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link(pub(super) u32);

impl Link {
    /// The end of a chain.
    pub(super) const NONE: Link = Link(u32::MAX);

    pub(super) fn new(tag: u8, handle: SlotHandle) -> Self {
        Link(u32::from(tag) << 24 | handle.0)
    }

    /// The handle, unless the chain ends here.
    pub(super) fn handle(self) -> Option<SlotHandle> {
        (self != Link::NONE).then_some(SlotHandle(self.0 & 0xFF_FFFF))
    }

    pub(super) fn tag(self) -> u8 {
        (self.0 >> 24) as u8
    }
}

/// A slot within the cache: the shard above the handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address(pub(super) u32);

impl Address {
    pub(super) fn new(shard: u8, handle: SlotHandle) -> Self {
        Address(u32::from(shard) << 24 | handle.0)
    }

    pub(super) fn shard(self) -> usize {
        (self.0 >> 24) as usize
    }

    pub(super) fn handle(self) -> SlotHandle {
        SlotHandle(self.0 & 0xFF_FFFF)
    }
}
