//! The hash table from a page to its frame: open addressing with linear probing, in one leased slab.

use ecotone_sys::chunk::{Block, Size};

/// A page of a tree, or a page of a block of a table: 48 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageId(u64);

impl PageId {
    /// A page of a tree; `keyspace` is its number within the process.
    pub fn of_tree(keyspace: u16, page: u32) -> PageId {
        PageId(u64::from(keyspace) << 32 | u64::from(page))
    }

    /// A page of the blocks of a table, by [the table's number](super::PageCache::number_of_table).
    pub fn of_table(table: u32, page: u16) -> PageId {
        PageId(u64::from(table) << 16 | u64::from(page))
    }

    /// The keyspace of a page of a tree.
    pub(super) fn keyspace(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// The lower bits pick the shard, the next ones the place in the table, the upper ones the stripe.
    pub(super) fn hash(self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 17).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }
}

/// An entry: a page (48 bits), its frame (12), its priority (3), and a used bit (1). Zero is an empty place. An entry
/// without a frame is a *ghost*: it remembers a page that was read but not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(u64);

/// The frame number of a ghost.
const GHOST: u16 = (1 << 12) - 1;
/// The number of frames that entries can address.
pub(super) const FRAMES: usize = GHOST as usize;
/// The highest priority.
const MAX_PRIORITY: u64 = 7;
/// Bits of an entry below the frame.
const FRAME_BITS: u32 = 4;

impl Entry {
    fn new(id: PageId, frame: u16) -> Entry {
        Entry(id.0 << 16 | u64::from(frame) << FRAME_BITS | 1)
    }

    pub(super) fn id(self) -> PageId {
        PageId(self.0 >> 16)
    }

    /// The frame; none for a ghost.
    pub(super) fn frame(self) -> Option<u16> {
        let frame = (self.0 >> FRAME_BITS) as u16 & GHOST;
        (frame != GHOST).then_some(frame)
    }

    pub(super) fn priority(self) -> u64 {
        self.0 >> 1 & MAX_PRIORITY
    }

    fn with_priority(self, priority: u64) -> Entry {
        Entry(self.0 & !(MAX_PRIORITY << 1) | priority << 1)
    }
}

/// Places of a table: twice the number of frames.
pub(super) const PLACES: usize = Size::Slab.bytes() / size_of::<u64>();

/// The entries, in a leased slab. The shard keeps some places empty, so every search ends.
#[derive(Debug)]
pub(super) struct Table(Block);

impl Table {
    /// Creates an empty table in `block`.
    pub(super) fn new(mut block: Block) -> Table {
        block.fill(0);
        Table(block)
    }

    /// The entry at a place.
    pub(super) fn get(&self, place: usize) -> Option<Entry> {
        let word = u64::from_le_bytes(self.0.as_chunks().0[place % PLACES]);
        (word != 0).then_some(Entry(word))
    }

    fn set(&mut self, place: usize, entry: Option<Entry>) {
        self.0.as_chunks_mut().0[place % PLACES] = entry.map_or(0, |entry| entry.0).to_le_bytes();
    }

    fn home(id: PageId) -> usize {
        (id.hash() >> 24) as usize % PLACES
    }

    /// The place of a page, or the empty place where its entry would go.
    fn search(&self, id: PageId) -> Result<usize, usize> {
        let mut place = Self::home(id);
        loop {
            match self.get(place) {
                None => return Err(place % PLACES),
                Some(entry) if entry.id() == id => return Ok(place % PLACES),
                Some(_) => place += 1,
            }
        }
    }

    /// The place of a page.
    pub(super) fn find(&self, id: PageId) -> Option<usize> {
        self.search(id).ok()
    }

    /// All entries with their places.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, Entry)> {
        (0..PLACES).filter_map(|place| Some((place, self.get(place)?)))
    }

    /// Inserts a page at priority 0, or a ghost.
    pub(super) fn insert(&mut self, id: PageId, frame: Option<u16>) {
        let place = self.search(id).unwrap_or_else(|empty| empty);
        self.set(place, Some(Entry::new(id, frame.unwrap_or(GHOST))));
    }

    /// Raises the priority of the entry at a place.
    pub(super) fn promote(&mut self, place: usize) {
        if let Some(entry) = self.get(place) {
            self.set(place, Some(entry.with_priority((entry.priority() + 1).min(MAX_PRIORITY))));
        }
    }

    /// Lowers the priority; false if it was 0 already.
    pub(super) fn demote(&mut self, place: usize) -> bool {
        let Some(entry) = self.get(place).filter(|entry| entry.priority() > 0) else { return false };
        self.set(place, Some(entry.with_priority(entry.priority() - 1)));
        true
    }

    /// Removes the entry at a place, and moves later entries of its cluster that would no longer be found.
    pub(super) fn remove(&mut self, place: usize) {
        let (mut hole, mut next) = (place % PLACES, place + 1);
        while let Some(entry) = self.get(next) {
            // The distance of the entry from its home place, and from the hole.
            let (way, gap) = ((next + PLACES - Self::home(entry.id())) % PLACES, (next + PLACES - hole) % PLACES);
            if way >= gap {
                self.set(hole, Some(entry));
                hole = next % PLACES;
            }
            next += 1;
        }
        self.set(hole, None);
    }
}
