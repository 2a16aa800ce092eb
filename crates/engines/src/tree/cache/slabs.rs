//! The slabs of a shard, and which of them takes what comes.

use ecotone_sys::chunk::Block;

use super::{
    handle::{Handle, MAX_SLABS},
    record::{self, Meta},
    slab::{PLACE, Slab},
};

/// Slabs that are open at a time: what does not fit into one any more leaves room for a shorter record.
const OPEN: usize = 8;

/// Slabs by number.
#[derive(Debug, Default)]
pub(super) struct Slabs {
    slabs: Vec<Option<Slab>>,
    count: usize,
    /// Slabs that take what comes, those first that were opened first, which are the fullest.
    open: Vec<usize>,
    /// The slab that is being emptied, which takes nothing.
    closed: Option<usize>,
}

impl Slabs {
    /// Slabs held.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether there is no number left for another slab.
    pub(super) fn is_full(&self) -> bool {
        self.count == MAX_SLABS
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

    /// The record of a handle in use, and what comes behind it.
    #[inline]
    pub(super) fn cell(&self, handle: Handle) -> &[u8] {
        self.slab(handle.slab()).expect("a handle in use has its slab").cell(handle.slot())
    }

    #[inline]
    pub(super) fn cell_mut(&mut self, handle: Handle) -> &mut [u8] {
        self.slab_mut(handle.slab()).expect("a handle in use has its slab").cell_mut(handle.slot())
    }

    pub(super) fn meta(&self, handle: Handle) -> Meta {
        record::meta(self.cell(handle))
    }

    /// The record of a handle that may be stale.
    pub(super) fn probe(&self, handle: Handle) -> Option<&[u8]> {
        let slab = self.slab(handle.slab())?;
        slab.is_used(handle.slot()).then(|| slab.cell(handle.slot()))
    }

    /// The handles in use of a slab.
    pub(super) fn handles(&self, number: usize) -> impl Iterator<Item = Handle> + use<'_> {
        let slab = self.slab(number);
        let used = move |slot: &u16| slab.is_some_and(|slab| slab.is_used(*slot));
        (0..slab.map_or(0, Slab::slots)).filter(used).map(move |slot| Handle::new(number, slot))
    }

    /// Adds a slab, unless all numbers are in use, and opens it.
    pub(super) fn add(&mut self, block: Block) {
        let number = self.slabs.iter().position(Option::is_none).unwrap_or(self.slabs.len());
        assert!(number < MAX_SLABS, "a shard has no number for another slab");
        if number == self.slabs.len() {
            self.slabs.push(None);
        }
        self.slabs[number] = Some(Slab::new(block));
        self.count += 1;
        self.note_open(number);
    }

    fn note_open(&mut self, number: usize) {
        self.open.retain(|open| *open != number);
        if self.open.len() == OPEN {
            self.open.remove(0);
        }
        self.open.push(number);
    }

    /// Takes a cell for a record of `bytes` in an open slab, reserved, if there is room at the top of one.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Handle> {
        let in_slab = |number: usize| Some(Handle::new(number, self.slabs[number].as_mut()?.take(bytes)?));
        self.open.iter().copied().find_map(in_slab)
    }

    /// The same, or in the slab with most room if that is `least` bytes: it is compacted then.
    pub(super) fn take_roomy(&mut self, bytes: usize, least: usize) -> Option<Handle> {
        let taken = self.take(bytes);
        if taken.is_none() && self.open_roomiest(least) { self.take(bytes) } else { taken }
    }

    /// Copies a record to a cell of its size in another slab; the state stays.
    pub(super) fn copy(&mut self, from: Handle, to: Handle) {
        let slabs = self.slabs.get_disjoint_mut([from.slab(), to.slab()]);
        let [Some(source), Some(target)] = slabs.expect("a record moves to another slab") else {
            unreachable!("handles in use have their slabs")
        };
        let (cell, target) = (source.cell(from.slot()), target.cell_mut(to.slot()));
        let (bytes, state) = (record::meta(cell).cell(), record::meta(target));
        target[..bytes].copy_from_slice(&cell[..bytes]);
        record::set_meta(target, state);
    }

    /// Gives a cell back.
    pub(super) fn give(&mut self, handle: Handle) {
        self.slab_mut(handle.slab()).expect("a handle in use has its slab").give(handle.slot());
    }

    /// Bytes of a slab that could be taken, none of one that is being emptied.
    fn vacant(&self, number: usize) -> usize {
        let slab = self.slab(number).filter(|_| self.closed != Some(number));
        slab.map_or(0, |slab| slab.vacant().saturating_sub(PLACE))
    }

    /// Bytes that could be taken in all slabs.
    pub(super) fn all_vacant(&self) -> usize {
        (0..self.bound()).map(|number| self.vacant(number)).sum()
    }

    /// Opens a slab, compacted, if that gives `bytes` for a record.
    pub(super) fn open(&mut self, number: usize, bytes: usize) -> bool {
        let gives = self.vacant(number) >= bytes;
        if let Some(slab) = self.slab_mut(number).filter(|_| gives) {
            slab.compact();
            self.note_open(number);
        }
        gives
    }

    /// Opens the slab that gives most, if that is `bytes`.
    fn open_roomiest(&mut self, bytes: usize) -> bool {
        let roomiest = (0..self.bound()).max_by_key(|number| self.vacant(*number));
        roomiest.is_some_and(|number| self.open(number, bytes))
    }

    /// The slab with most room of those that can be emptied: nothing in it is reserved.
    pub(super) fn emptiest(&self) -> Option<usize> {
        let can_go = |number: &usize| self.slab(*number).is_some_and(|slab| slab.reserved() == 0);
        (0..self.bound()).filter(can_go).max_by_key(|number| self.vacant(*number))
    }

    /// Whether a slab is being emptied.
    pub(super) fn is_closing(&self) -> bool {
        self.closed.is_some()
    }

    /// Keeps a slab from taking anything, or none.
    pub(super) fn close(&mut self, number: Option<usize>) {
        self.closed = number;
        self.open.retain(|open| Some(*open) != number);
    }

    /// Takes an empty slab out.
    pub(super) fn remove(&mut self, number: usize) -> Block {
        let slab = self.slabs[number].take().expect("only a slab in use is removed");
        self.count -= 1;
        slab.into_block()
    }
}
