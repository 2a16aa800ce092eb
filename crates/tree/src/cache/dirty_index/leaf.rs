//! A leaf: the entries of adjacent keys, in a block of the budget.

use std::ops::Range;

use ecotone_sys::chunk::Block;

use super::{
    super::handle::Address,
    cells::Cells,
    entry::{ENTRY, Entry, Key},
};

/// The most entries of a leaf. The rest of the block accounts for the leaf's memory outside of it.
pub(super) const MAX_ENTRIES: usize = 480;
/// Entries above which each one reserves its share of a ready block (see
/// [`LeafReservation`](super::reservation::LeafReservation)).
pub(super) const UNRESERVED_ENTRIES: usize = 450;
/// The longest common prefix that a leaf records, in bytes.
const COMMON: usize = 32;
/// The number of consecutive windows that the entries of a leaf can distinguish.
const WINDOWS: u64 = 1 << u8::BITS;

/// The position of a key in a leaf, or where it would be inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeafPosition {
    There(usize),
    Missing(usize),
}

impl LeafPosition {
    /// The position of the first key that is not below.
    pub(super) fn at(self) -> usize {
        let (LeafPosition::There(at) | LeafPosition::Missing(at)) = self;
        at
    }
}

/// Entries in key order.
#[derive(Debug)]
pub(super) struct Leaf {
    block: Block,
    len: usize,
    /// A common prefix of all keys. The heads of entries are the bytes after it.
    common: Vec<u8>,
    /// A lower bound of the oldest window of its entries; all entries are less than [`WINDOWS`] after it.
    oldest: u64,
}

impl Leaf {
    pub(super) fn new(block: Block) -> Leaf {
        Leaf { block, len: 0, common: Vec::new(), oldest: u64::MAX }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Entries that count as crowded.
    pub(super) fn crowded(&self) -> usize {
        self.len.saturating_sub(UNRESERVED_ENTRIES)
    }

    fn bytes(&self, place: usize) -> Range<usize> {
        place * ENTRY..(place + 1) * ENTRY
    }

    fn entry(&self, place: usize) -> Entry {
        Entry::from_bytes(*self.block[self.bytes(place)].as_array().expect("an entry"))
    }

    fn put(&mut self, place: usize, entry: Entry) {
        let bytes = self.bytes(place);
        self.block[bytes].copy_from_slice(&entry.to_bytes());
    }

    /// The address of an entry's record.
    pub(super) fn address(&self, place: usize) -> Address {
        self.entry(place).address()
    }

    /// The number of the window of an entry.
    pub(super) fn window(&self, place: usize) -> u64 {
        self.oldest + u64::from(self.entry(place).window().wrapping_sub(self.oldest as u8))
    }

    /// A lower bound of the oldest window of all entries, if there are any.
    pub(super) fn oldest(&self) -> Option<u64> {
        (self.len > 0).then_some(self.oldest)
    }

    /// The partition point of a part of the leaf: the first position where `is_so` is false.
    fn partition(&self, part: Range<usize>, is_so: impl Fn(Entry) -> bool) -> usize {
        let (mut low, mut high) = (part.start, part.end);
        while low < high {
            let middle = low.midpoint(high);
            if is_so(self.entry(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Looks a key up. Reads the cells of entries with the same head.
    pub(super) fn search(&self, key: Key<'_>, cells: &impl Cells) -> LeafPosition {
        let order = key.order_with_prefix(&self.common);
        if order.is_ne() {
            return LeafPosition::Missing(if order.is_lt() { 0 } else { self.len });
        }
        let head = key.head(self.common.len());
        let from = self.partition(0..self.len, |entry| entry.head() < head);
        let to = self.partition(from..self.len, |entry| entry.head() <= head);
        let order = |entry: Entry| cells.with_key(entry.address(), |of_cell| of_cell.cmp(&key));
        // Keys often ascend.
        let Some(last) = to.checked_sub(1).filter(|last| *last >= from) else { return LeafPosition::Missing(from) };
        match order(self.entry(last)) {
            std::cmp::Ordering::Less => return LeafPosition::Missing(to),
            std::cmp::Ordering::Equal => return LeafPosition::There(last),
            std::cmp::Ordering::Greater => {}
        }
        let place = self.partition(from..last, |entry| order(entry).is_lt());
        if order(self.entry(place)).is_eq() { LeafPosition::There(place) } else { LeafPosition::Missing(place) }
    }

    /// The record of an entry has another address.
    pub(super) fn move_to(&mut self, place: usize, address: Address) {
        let entry = self.entry(place);
        self.put(place, Entry::new(entry.head(), entry.window(), address));
    }

    /// The record of an entry has another address, and is dirty since this window.
    pub(super) fn renew(&mut self, place: usize, address: Address, window: u64) {
        let window = self.note(window);
        self.put(place, Entry::new(self.entry(place).head(), window, address));
    }

    /// Records a window; returns the bits that an entry stores. If two windows are too far apart, the younger one is
    /// stored as an older one.
    fn note(&mut self, window: u64) -> u8 {
        if self.len == 0 {
            self.oldest = window;
        } else if window < self.oldest {
            self.reach_down_to(window);
        }
        window.min(self.oldest + WINDOWS - 1) as u8
    }

    fn reach_down_to(&mut self, window: u64) {
        for place in 0..self.len {
            let (entry, of_entry) = (self.entry(place), self.window(place));
            if of_entry - window >= WINDOWS {
                self.put(place, Entry::new(entry.head(), (window + WINDOWS - 1) as u8, entry.address()));
            }
        }
        self.oldest = window;
    }

    /// Inserts an entry where its key is missing. The leaf has space.
    pub(super) fn insert(&mut self, place: usize, key: Key<'_>, address: Address, window: u64, cells: &impl Cells) {
        assert!(self.len < MAX_ENTRIES);
        self.share_with(key, cells);
        let window = self.note(window);
        let from = self.bytes(place).start;
        self.block.copy_within(from..self.len * ENTRY, from + ENTRY);
        self.len += 1;
        self.put(place, Entry::new(key.head(self.common.len()), window, address));
    }

    /// Shortens the common prefix to what it shares with this key.
    fn share_with(&mut self, key: Key<'_>, cells: &impl Cells) {
        if self.len == 0 {
            self.common = key.prefix(COMMON);
            return;
        }
        let common = key.common_with_prefix(&self.common);
        if common < self.common.len() {
            self.common.truncate(common);
            self.make_heads(cells);
        }
    }

    fn make_heads(&mut self, cells: &impl Cells) {
        for place in 0..self.len {
            let entry = self.entry(place);
            let head = cells.with_key(entry.address(), |key| key.head(self.common.len()));
            self.put(place, Entry::new(head, entry.window(), entry.address()));
        }
    }

    /// Recomputes the common prefix. Returns whether it changed.
    fn look_again(&mut self, cells: &impl Cells) -> bool {
        let Some(last) = self.len.checked_sub(1) else { return false };
        let mut common = cells.with_key(self.address(0), |first| first.prefix(COMMON));
        common.truncate(cells.with_key(self.address(last), |last| last.common_with_prefix(&common)));
        let is_changed = common != self.common;
        self.common = common;
        is_changed
    }

    /// Keeps the entries of a part of the leaf for which `stays` is true.
    pub(super) fn retain(&mut self, part: Range<usize>, mut stays: impl FnMut(Address) -> bool) {
        let (mut to, end) = (part.start, part.end);
        for place in part {
            let entry = self.entry(place);
            if stays(entry.address()) {
                self.put(to, entry);
                to += 1;
            }
        }
        self.block.copy_within(end * ENTRY..self.len * ENTRY, to * ENTRY);
        self.len -= end - to;
        // Remaining entries may have been renewed.
        self.oldest = (0..self.len).map(|place| self.window(place)).min().unwrap_or(u64::MAX);
    }

    /// Moves the entries from a position on to another leaf, which is empty.
    pub(super) fn split_off(&mut self, place: usize, other: &mut Leaf, cells: &impl Cells) {
        assert!(other.len == 0 && place > 0 && place < self.len);
        let moved = place * ENTRY..self.len * ENTRY;
        other.block[..moved.len()].copy_from_slice(&self.block[moved]);
        other.len = self.len - place;
        other.oldest = self.oldest;
        other.common.clone_from(&self.common);
        self.len = place;
        for leaf in [&mut *self, other] {
            leaf.oldest = (0..leaf.len).map(|place| leaf.window(place)).min().expect("it has entries");
            if leaf.look_again(cells) {
                leaf.make_heads(cells);
            }
        }
    }

    /// Appends the entries of the next leaf.
    pub(super) fn append(&mut self, other: &mut Leaf, cells: &impl Cells) {
        assert!(self.len + other.len <= MAX_ENTRIES);
        for place in 0..other.len {
            let window = self.note(other.window(place));
            self.put(self.len, Entry::new(0, window, other.address(place)));
            self.len += 1;
        }
        other.len = 0;
        self.look_again(cells);
        self.make_heads(cells);
    }
}
