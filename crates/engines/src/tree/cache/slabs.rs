//! The slabs of a shard, and which of them have room.

use ecotone_sys::chunk::Block;

use super::{
    class::{CLASSES, Class},
    handle::{Handle, Link, MAX_SLABS},
    record::{self, Meta},
    slab::Slab,
};

/// Slabs by number.
#[derive(Debug)]
pub(super) struct Slabs {
    slabs: Vec<Option<Slab>>,
    count: usize,
    slots: usize,
    /// By class: slabs that may have free slots.
    open: Box<[Vec<u16>]>,
    /// By class: free slots.
    vacant: Box<[usize]>,
}

impl Slabs {
    pub(super) fn new() -> Self {
        let open = (0..CLASSES).map(|_| Vec::new()).collect();
        Slabs { slabs: Vec::new(), count: 0, slots: 0, open, vacant: vec![0; CLASSES].into() }
    }

    /// Slabs held.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether there is no number left for another slab.
    pub(super) fn is_full(&self) -> bool {
        self.count == MAX_SLABS
    }

    /// Free slots of a class.
    pub(super) fn vacant(&self, class: Class) -> usize {
        self.vacant[usize::from(class.0)]
    }

    /// Steps of the clock that lead once round all slots, with one for each slab.
    pub(super) fn round(&self) -> usize {
        self.slots + self.slabs.len()
    }

    /// Numbers that may be in use are below this.
    pub(super) fn bound(&self) -> usize {
        self.slabs.len()
    }

    /// The slab of a number, if it is in use.
    #[inline]
    pub(super) fn slab(&self, number: usize) -> Option<&Slab> {
        self.slabs.get(number)?.as_ref()
    }

    #[inline]
    pub(super) fn slab_mut(&mut self, number: usize) -> Option<&mut Slab> {
        self.slabs.get_mut(number)?.as_mut()
    }

    /// The bytes of a slot that is in use.
    #[inline]
    pub(super) fn slot(&self, handle: Handle) -> &[u8] {
        self.slab(handle.slab()).expect("a handle in use has its slab").slot(handle.slot())
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, handle: Handle) -> &mut [u8] {
        self.slab_mut(handle.slab()).expect("a handle in use has its slab").slot_mut(handle.slot())
    }

    pub(super) fn meta(&self, handle: Handle) -> Meta {
        record::meta(self.slot(handle))
    }

    /// The bytes of a slot if it exists; the handle may be stale.
    pub(super) fn probe(&self, handle: Handle) -> Option<&[u8]> {
        let slab = self.slab(handle.slab())?;
        (handle.slot() < slab.fresh()).then(|| slab.slot(handle.slot()))
    }

    /// Adds a slab, unless all numbers are in use.
    pub(super) fn add(&mut self, block: Block, class: Class) {
        let number = self.slabs.iter().position(Option::is_none).unwrap_or(self.slabs.len());
        assert!(number < MAX_SLABS, "a shard has no number for another slab");
        let mut slab = Slab::new(block, class);
        slab.listed = true;
        if number == self.slabs.len() {
            self.slabs.push(None);
        }
        self.slabs[number] = Some(slab);
        self.count += 1;
        self.slots += class.slots();
        self.open[usize::from(class.0)].push(number as u16);
        self.vacant[usize::from(class.0)] += class.slots();
    }

    /// Takes a free slot of a class.
    pub(super) fn take(&mut self, class: Class) -> Option<Handle> {
        let open = &mut self.open[usize::from(class.0)];
        while let Some(number) = open.last().copied() {
            let slab = self.slabs[usize::from(number)].as_mut().expect("a listed slab is in use");
            if let Some(slot) = slab.take() {
                self.vacant[usize::from(class.0)] -= 1;
                return Some(Handle::new(usize::from(number), slot));
            }
            slab.listed = false;
            open.pop();
        }
        None
    }

    /// Gives a slot back; gives its class.
    pub(super) fn give(&mut self, handle: Handle) -> Class {
        let slab = self.slabs[handle.slab()].as_mut().expect("a handle in use has its slab");
        slab.give(handle.slot(), Link::new(0, handle));
        let class = usize::from(slab.class().0);
        if !slab.listed {
            slab.listed = true;
            self.open[class].push(handle.slab() as u16);
        }
        self.vacant[class] += 1;
        Class(class as u8)
    }

    /// Keeps a slab from giving out slots, before it is emptied.
    pub(super) fn close(&mut self, number: usize) {
        let slab = self.slabs[number].as_mut().expect("only a slab in use is closed");
        let class = usize::from(slab.class().0);
        slab.listed = false;
        self.vacant[class] -= slab.vacant();
        self.open[class].retain(|listed| usize::from(*listed) != number);
    }

    /// Takes a closed slab out.
    pub(super) fn remove(&mut self, number: usize) -> Block {
        let slab = self.slabs[number].take().expect("only a slab in use is removed");
        self.count -= 1;
        self.slots -= slab.class().slots();
        slab.into_block()
    }
}
