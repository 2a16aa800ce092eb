//! The slabs of a shard, and the choice of the slab for a new record.

use ecotone_sys::chunk::Block;

use super::{
    handle::{MAX_SLABS, SlotHandle},
    record::{self, Meta},
    slab::{PLACE, Slab},
};

/// Most open slabs. A slab too full for one record may still have space for a shorter one.
const OPEN: usize = 8;

/// Slabs by number.
#[derive(Debug, Default)]
pub(super) struct Slabs {
    slabs: Vec<Option<Slab>>,
    count: usize,
    /// Slabs that accept new records, in the order in which they were opened: the first are the fullest.
    open: Vec<usize>,
    /// The slab that is being emptied; it accepts no records.
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

    /// Upper bound of the numbers in use, exclusive.
    pub(super) fn bound(&self) -> usize {
        self.slabs.len()
    }

    /// The slab with this number, if it is in use.
    #[inline]
    pub(super) fn slab(&self, number: usize) -> Option<&Slab> {
        self.slabs.get(number)?.as_ref()
    }

    #[inline]
    pub(super) fn slab_mut(&mut self, number: usize) -> Option<&mut Slab> {
        self.slabs.get_mut(number)?.as_mut()
    }

    /// The cell of a used handle, and the bytes after it.
    #[inline]
    pub(super) fn cell(&self, handle: SlotHandle) -> &[u8] {
        self.slab(handle.slab()).expect("a handle in use has its slab").cell(handle.slot())
    }

    #[inline]
    pub(super) fn cell_mut(&mut self, handle: SlotHandle) -> &mut [u8] {
        self.slab_mut(handle.slab()).expect("a handle in use has its slab").cell_mut(handle.slot())
    }

    pub(super) fn meta(&self, handle: SlotHandle) -> Meta {
        record::meta(self.cell(handle))
    }

    /// The cell of a handle that may be stale.
    pub(super) fn probe(&self, handle: SlotHandle) -> Option<&[u8]> {
        let slab = self.slab(handle.slab())?;
        slab.is_used(handle.slot()).then(|| slab.cell(handle.slot()))
    }

    /// The used handles of a slab.
    pub(super) fn handles(&self, number: usize) -> impl Iterator<Item = SlotHandle> + use<'_> {
        let slab = self.slab(number);
        let used = move |slot: &u16| slab.is_some_and(|slab| slab.is_used(*slot));
        (0..slab.map_or(0, Slab::slots)).filter(used).map(move |slot| SlotHandle::new(number, slot))
    }

    /// Adds and opens a slab, unless all numbers are in use.
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

    /// Reserves a cell for a record of `bytes` in an open slab, if one has space at the top.
    pub(super) fn take(&mut self, bytes: usize) -> Option<SlotHandle> {
        let in_slab = |number: usize| Some(SlotHandle::new(number, self.slabs[number].as_mut()?.take(bytes)?));
        self.open.iter().copied().find_map(in_slab)
    }

    /// The same; otherwise compacts the slab with the most free space, if it has `least` bytes, and takes the cell
    /// there.
    pub(super) fn take_roomy(&mut self, bytes: usize, least: usize) -> Option<SlotHandle> {
        let taken = self.take(bytes);
        if taken.is_none() && self.open_roomiest(least) { self.take(bytes) } else { taken }
    }

    /// Copies a record to a cell of its size in another slab; the target's state stays.
    pub(super) fn copy(&mut self, from: SlotHandle, to: SlotHandle) {
        let slabs = self.slabs.get_disjoint_mut([from.slab(), to.slab()]);
        let [Some(source), Some(target)] = slabs.expect("a record moves to another slab") else {
            unreachable!("handles in use have their slabs")
        };
        let (cell, target) = (source.cell(from.slot()), target.cell_mut(to.slot()));
        let (bytes, state) = (record::meta(cell).cell(), record::meta(target));
        target[..bytes].copy_from_slice(&cell[..bytes]);
        record::set_meta(target, state);
    }

    /// Frees a cell.
    pub(super) fn give(&mut self, handle: SlotHandle) {
        self.slab_mut(handle.slab()).expect("a handle in use has its slab").give(handle.slot());
    }

    /// Free bytes of a slab; 0 for a slab that is being emptied.
    fn vacant(&self, number: usize) -> usize {
        let slab = self.slab(number).filter(|_| self.closed != Some(number));
        slab.map_or(0, |slab| slab.vacant().saturating_sub(PLACE))
    }

    /// Free bytes of all slabs.
    pub(super) fn all_vacant(&self) -> usize {
        (0..self.bound()).map(|number| self.vacant(number)).sum()
    }

    /// Opens a slab and compacts it, if it has `bytes` free for a record.
    pub(super) fn open(&mut self, number: usize, bytes: usize) -> bool {
        let gives = self.vacant(number) >= bytes;
        if let Some(slab) = self.slab_mut(number).filter(|_| gives) {
            slab.compact();
            self.note_open(number);
        }
        gives
    }

    /// Opens the slab with the most free space, if that is `bytes`.
    fn open_roomiest(&mut self, bytes: usize) -> bool {
        let roomiest = (0..self.bound()).max_by_key(|number| self.vacant(*number));
        roomiest.is_some_and(|number| self.open(number, bytes))
    }

    /// The slab with the most free space among those without reserved cells.
    pub(super) fn emptiest(&self) -> Option<usize> {
        let can_go = |number: &usize| self.slab(*number).is_some_and(|slab| slab.reserved() == 0);
        (0..self.bound()).filter(can_go).max_by_key(|number| self.vacant(*number))
    }

    /// Whether a slab is being emptied.
    pub(super) fn is_closing(&self) -> bool {
        self.closed.is_some()
    }

    /// Closes a slab to new records; `None` reopens it.
    pub(super) fn close(&mut self, number: Option<usize>) {
        self.closed = number;
        self.open.retain(|open| Some(*open) != number);
    }

    /// Removes an empty slab.
    pub(super) fn remove(&mut self, number: usize) -> Block {
        let slab = self.slabs[number].take().expect("only a slab in use is removed");
        self.count -= 1;
        slab.into_block()
    }
}
