//! Which records of a page are dirty, and since which sequence (part of mechanism T4).
//!
//! A chained record and its entry know each other's place (decision 3, invariant 4), so an entry follows its record in one step.

mod chunks;
mod pages;
mod pool;
#[cfg(test)]
mod tests;

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ecotone_substrate::{
    Seq, bug,
    memory::{Component, Memory},
};
use ecotone_sys::chunk::{Block, Size};
use ecotone_sys::primitive::{Mutex, MutexGuard};

use self::{
    chunks::{PER_CHUNK, Place},
    pages::{PageKey, Pages, State},
};
use super::handle::Address;

/// Credits that are made at a time.
const STEP: usize = 256;
/// Nodes that are looked at before the lock of their part is given to whoever waits.
const PIECE: usize = 4096;
/// Addresses of a long chain.
const LONG: usize = 128;
/// Nodes beyond the credits, for whoever takes a chain apart.
const HEADROOM: usize = 1024;
/// Records of a chain that is taken apart that may pass to others until nodes are provided again: each may begin one, in any part.
pub(super) const PASSES: usize = HEADROOM / 2;

/// A place in the chains: the part of the map in the upper four bits. A dirty record has it in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(pub(super) u32);

impl Entry {
    fn new(part: usize, place: Place) -> Self {
        Entry((part as u32) << 28 | place.0)
    }

    fn part(self) -> usize {
        (self.0 >> 28) as usize
    }

    fn place(self) -> Place {
        Place(self.0 & ((1 << 28) - 1))
    }
}

/// The addresses of a page's chains as they were at some moment.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) entries: Vec<(Entry, Address)>,
    /// Equal later if nothing was missed.
    pub(super) changes: u64,
}

/// A piece of a chain: its number, and the addresses with their entries, [`Address::NONE`] where there is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) number: u32,
    entries: [(Entry, Address); PER_CHUNK],
}

impl Piece {
    pub(super) fn entries(&self) -> impl Iterator<Item = (Entry, Address)> {
        self.entries.into_iter().filter(|(_, address)| *address != Address::NONE)
    }
}

/// Chains of dirty records by page.
#[derive(Debug)]
pub(super) struct DirtyMap {
    parts: Box<[Mutex<Pages>]>,
    memory: Arc<Memory>,
    growth: Mutex<()>,
    /// Credits that are made and not given out.
    room: AtomicUsize,
    /// Credits that are given out: each may still push once, into any part.
    outstanding: AtomicUsize,
}

impl DirtyMap {
    /// A map of `parts`, a power of two up to 16.
    pub(super) fn new(parts: usize, memory: Arc<Memory>) -> Self {
        assert!(parts.is_power_of_two() && parts <= 16);
        let parts = (0..parts).map(|_| Mutex::default()).collect();
        DirtyMap { parts, memory, growth: Mutex::default(), room: AtomicUsize::new(0), outstanding: AtomicUsize::new(0) }
    }

    /// Takes a credit for one [`push`](Self::push). `spare` finds a block when the budget has none; false if it does not.
    pub(super) fn credit(&self, spare: &dyn Fn() -> Option<Block>) -> bool {
        self.outstanding.fetch_add(1, Ordering::SeqCst);
        let take = |room: usize| room.checked_sub(1);
        while self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err() {
            if !self.make_room(spare) {
                self.repay();
                return false;
            }
        }
        true
    }

    /// Gives a credit back, used or not.
    pub(super) fn repay(&self) {
        self.outstanding.fetch_sub(1, Ordering::SeqCst);
    }

    /// Makes [`STEP`] credits, unless somebody else just did: every part gets as many free nodes as there are credits then.
    fn make_room(&self, spare: &dyn Fn() -> Option<Block>) -> bool {
        let _growing = self.growth.lock();
        if self.room.load(Ordering::SeqCst) > 0 {
            return true;
        }
        if !self.provide(self.outstanding.load(Ordering::SeqCst) + STEP + HEADROOM, spare) {
            return false;
        }
        self.room.fetch_add(STEP, Ordering::SeqCst);
        true
    }

    fn provide(&self, need: usize, spare: &dyn Fn() -> Option<Block>) -> bool {
        self.parts.iter().all(|part| {
            part.lock().trim(need);
            loop {
                // The lock is not held while a block is looked for, since that may lock shards.
                let Some(wanted) = part.lock().wants(need) else { return true };
                let Some(mut block) = self.lease().or_else(spare) else { return false };
                block.retag(Component::DirtyChains as u8);
                part.lock().add(wanted, block);
            }
        })
    }

    /// Credits that are given out or may be at any time.
    fn credits(&self) -> usize {
        // In this order a credit that is being given out counts twice rather than not at all.
        let room = self.room.load(Ordering::SeqCst);
        room + self.outstanding.load(Ordering::SeqCst)
    }

    /// Sees to it that [`PASSES`] records of a chain that is taken apart find nodes, in whatever part.
    pub(super) fn provide_for_passing(&self, spare: &dyn Fn() -> Option<Block>) {
        let _growing = self.growth.lock();
        // Without memory it may still do: mostly a node has room for another record.
        self.provide(self.credits() + HEADROOM, spare);
    }

    fn lease(&self) -> Option<Block> {
        self.memory.lease(Component::DirtyChains, Size::Slab)
    }

    fn part_of(&self, key: PageKey) -> usize {
        (key.hash() >> 40) as usize & (self.parts.len() - 1)
    }

    fn part(&self, key: PageKey) -> MutexGuard<'_, Pages> {
        self.parts[self.part_of(key)].lock()
    }

    /// Chains a record to its page, on a credit. `rewritten`: it is in a writing chain too, and that entry becomes stale.
    pub(super) fn push(&self, keyspace: u16, page: u32, address: Address, seq: Seq, rewritten: bool) -> Entry {
        let key = PageKey { keyspace, page };
        let mut pages = self.part(key);
        pages.changes += u64::from(rewritten);
        self.add(&mut pages, key, address, seq)
    }

    /// Chains a record that comes from a chain with this first sequence, which it is still in. See [`provide_for_passing`](Self::provide_for_passing).
    pub(super) fn pass(&self, keyspace: u16, page: u32, address: Address, first: Seq) -> Entry {
        let key = PageKey { keyspace, page };
        let mut pages = self.part(key);
        pages.note_passing(keyspace, first);
        self.add(&mut pages, key, address, first)
    }

    fn add(&self, pages: &mut Pages, key: PageKey, address: Address, seq: Seq) -> Entry {
        pages.grow(|| self.lease());
        Entry::new(self.part_of(key), pages.push(key, address, seq))
    }

    /// The record of an entry has another address now.
    pub(super) fn moved(&self, entry: Entry, address: Address) {
        let mut pages = self.parts[entry.part()].lock();
        pages.changes += 1;
        pages.chunks.set(entry.place(), address);
    }

    /// The address that an entry holds now.
    pub(super) fn at(&self, entry: Entry) -> Address {
        self.parts[entry.part()].lock().chunks.get(entry.place())
    }

    fn piece(&self, key: PageKey, pages: &Pages, number: u32) -> Piece {
        let part = self.part_of(key);
        let entries = pages.chunks.entries(number).map(|(place, address)| (Entry::new(part, place), address));
        Piece { number, entries }
    }

    /// All addresses of a page, in whatever state.
    pub(super) fn chained(&self, keyspace: u16, page: u32) -> Copied {
        let key = PageKey { keyspace, page };
        let pages = self.part(key);
        let numbers = State::ALL.iter().flat_map(|state| pages.chunks_of(key, *state));
        let mut entries = Vec::new();
        numbers.for_each(|number| entries.extend(self.piece(key, &pages, number).entries()));
        Copied { entries, changes: pages.changes }
    }

    /// Whether the chains of a page are long.
    pub(super) fn is_long(&self, keyspace: u16, page: u32) -> bool {
        let key = PageKey { keyspace, page };
        let pages = self.part(key);
        State::ALL.iter().flat_map(|state| pages.chunks_of(key, *state)).nth(LONG / PER_CHUNK).is_some()
    }

    /// The piece after `before` of what a write-out of the page has taken, or the first.
    pub(super) fn writing(&self, keyspace: u16, page: u32, before: Option<u32>) -> Option<Piece> {
        let key = PageKey { keyspace, page };
        let pages = self.part(key);
        let number = pages.chunk_after(key, State::Writing, before)?;
        Some(self.piece(key, &pages, number))
    }

    /// Whether a copy of the page's addresses may have missed a record since.
    pub(super) fn has_changed(&self, keyspace: u16, page: u32, copied: &Copied) -> bool {
        self.part(PageKey { keyspace, page }).changes != copied.changes
    }

    /// Turns the present chain of a page into its writing chain.
    pub(super) fn begin_write(&self, keyspace: u16, page: u32) {
        let key = PageKey { keyspace, page };
        self.part(key).turn(key, State::Current, State::Writing);
    }

    /// Frees the writing chain of a page, whose records are clean or in the present chain.
    pub(super) fn end_write(&self, keyspace: u16, page: u32) {
        let key = PageKey { keyspace, page };
        let mut pages = self.part(key);
        pages.changes += 1;
        pages.drop_chain(key, State::Writing);
    }

    /// Joins the writing chain of a page to the present one.
    pub(super) fn abort_write(&self, keyspace: u16, page: u32) {
        let key = PageKey { keyspace, page };
        self.part(key).restore(key);
    }

    /// Gives what a write-out does not want, everything behind the piece `at`, back to the present chain of the page. False if
    /// there is no node for it.
    pub(super) fn give_back(&self, keyspace: u16, page: u32, at: u32) -> bool {
        let key = PageKey { keyspace, page };
        self.part(key).give_back(key, at, self.credits())
    }

    /// Sets the present chain of a page aside, to be taken apart; gives its first sequence.
    pub(super) fn leave(&self, keyspace: u16, page: u32) -> Option<Seq> {
        let key = PageKey { keyspace, page };
        self.part(key).turn(key, State::Current, State::Leaving)
    }

    /// The first piece of the chain that was set aside; none when it is used up.
    pub(super) fn leaving(&self, keyspace: u16, page: u32) -> Option<Piece> {
        let key = PageKey { keyspace, page };
        let pages = self.part(key);
        let number = pages.chunk_after(key, State::Leaving, None)?;
        Some(self.piece(key, &pages, number))
    }

    /// Frees the piece that [`leaving`](Self::leaving) gave.
    pub(super) fn left(&self, keyspace: u16, page: u32) {
        let key = PageKey { keyspace, page };
        let mut pages = self.part(key);
        pages.changes += 1;
        pages.drop_first(key, State::Leaving);
    }

    /// Goes through the nodes of a part, a few at a time, so that nobody waits long for its lock.
    fn look_through(part: &Mutex<Pages>, mut look: impl FnMut(&Pages, Range<u32>)) {
        for from in (0..).step_by(PIECE) {
            let pages = part.lock();
            let (to, bound) = (from + PIECE as u32, pages.bound());
            look(&pages, from..to.min(bound));
            if to >= bound {
                break;
            }
            MutexGuard::unlock_fair(pages);
        }
    }

    /// Pages with a present chain that began below `below`, ascending. One that takes over records meanwhile may be missing.
    pub(super) fn pages(&self, keyspace: u16, below: Seq) -> Vec<u32> {
        let mut found = Vec::new();
        for part in &self.parts {
            Self::look_through(part, |pages, numbers| {
                let chains = pages.chains(numbers, keyspace, &[State::Current]);
                found.extend(chains.filter(|(_, first)| *first < below).map(|(page, _)| page));
            });
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The smallest first sequence of all chains of a keyspace, or of one that was there a moment ago.
    pub(super) fn first(&self, keyspace: u16) -> Option<Seq> {
        self.begin_look();
        let found = self.parts.iter().filter_map(|part| Self::first_in(part, keyspace)).min();
        let passed = self.end_look(keyspace);
        found.into_iter().chain(passed).min()
    }

    fn begin_look(&self) {
        self.parts.iter().for_each(|part| part.lock().begin_look());
    }

    /// The smallest first sequence of what passed from chain to chain since [`begin_look`](Self::begin_look): it may have left a place not yet
    /// looked at for one already looked at.
    fn end_look(&self, keyspace: u16) -> Option<Seq> {
        self.parts.iter().filter_map(|part| part.lock().end_look(keyspace)).min()
    }

    fn first_in(part: &Mutex<Pages>, keyspace: u16) -> Option<Seq> {
        let states = if bug!(WatermarkTooHigh) { &[State::Current, State::Leaving] } else { State::ALL.as_slice() };
        let mut least: Option<Seq> = None;
        Self::look_through(part, |pages, numbers| {
            let found = pages.chains(numbers, keyspace, states).map(|(_, first)| first);
            least = found.chain(least).min();
        });
        least
    }

    /// Entries in the chains of a keyspace, stale ones included.
    pub(super) fn count(&self, keyspace: u16) -> usize {
        self.parts.iter().map(|part| part.lock().count(keyspace)).sum()
    }

    /// Frees the chains of a keyspace, whose records are gone. One that is being written is freed by the end of that.
    pub(super) fn forget(&self, keyspace: u16) {
        self.parts.iter().for_each(|part| part.lock().forget(keyspace));
    }

    /// Parts that lease on their own.
    #[cfg(test)]
    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Bytes leased.
    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.lock().bytes()).sum()
    }
}
