//! Chains of addresses, oldest first, three to a chunk.

use ecotone_sys::chunk::Block;

use super::{
    super::handle::Address,
    pool::{NONE, Pool},
};

/// Bytes of a chunk: the next chunk, then the addresses. The last chunk of a chain links to the first, and stands for the chain.
const CHUNK: usize = 16;
/// Addresses in a chunk.
pub(super) const PER_CHUNK: usize = 3;

/// A place in a chain within its part of the map: the chunk, and two bits for which of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(pub(super) u32);

impl Place {
    fn new(chunk: u32, index: usize) -> Self {
        Place(chunk << 2 | index as u32)
    }

    fn chunk(self) -> u32 {
        self.0 >> 2
    }

    fn offset(self) -> usize {
        4 + (self.0 & 3) as usize * 4
    }
}

/// The chunks of all chains of one part of the map.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    pub(super) pool: Pool<CHUNK>,
}

impl Chunks {
    pub(super) fn add(&mut self, block: Block) {
        self.pool.add(block);
    }

    pub(super) fn get(&self, place: Place) -> Address {
        Address(self.pool.word(place.chunk(), place.offset()))
    }

    pub(super) fn set(&mut self, place: Place, address: Address) {
        self.pool.set_word(place.chunk(), place.offset(), address.0);
    }

    fn next(&self, chunk: u32) -> u32 {
        self.pool.word(chunk, 0)
    }

    fn link(&mut self, chunk: u32, next: u32) {
        self.pool.set_word(chunk, 0, next);
    }

    /// Adds an address to a chain; gives its place and the new last chunk. [`NONE`] stands for an empty chain.
    pub(super) fn push(&mut self, last: u32, address: Address) -> (Place, u32) {
        let vacant = |place: &Place| self.get(*place) == Address::NONE;
        let vacant = (last != NONE).then(|| Self::places(last).into_iter().find(vacant)).flatten();
        let (place, last) = match vacant {
            Some(place) => (place, last),
            None => {
                let chunk = self.lengthen(last);
                (Place::new(chunk, 0), chunk)
            }
        };
        self.set(place, address);
        (place, last)
    }

    fn lengthen(&mut self, last: u32) -> u32 {
        let chunk = self.pool.take();
        self.pool.node_mut(chunk).fill(0xFF);
        let first = if last == NONE { chunk } else { self.next(last) };
        self.link(chunk, first);
        if last != NONE {
            self.link(last, chunk);
        }
        chunk
    }

    fn places(chunk: u32) -> [Place; PER_CHUNK] {
        std::array::from_fn(|index| Place::new(chunk, index))
    }

    /// The places of one chunk and what they hold, [`Address::NONE`] where nothing.
    pub(super) fn entries(&self, chunk: u32) -> [(Place, Address); PER_CHUNK] {
        Self::places(chunk).map(|place| (place, self.get(place)))
    }

    /// The chunk after `before` in a chain, or the first.
    pub(super) fn after(&self, last: u32, before: Option<u32>) -> Option<u32> {
        match before {
            _ if last == NONE => None,
            None => Some(self.next(last)),
            Some(before) => (before != last).then(|| self.next(before)),
        }
    }

    /// The chunks of a chain.
    pub(super) fn chain(&self, last: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(self.after(last, None), move |chunk| self.after(last, Some(*chunk)))
    }

    /// Puts one chain before another; neither is empty.
    pub(super) fn join(&mut self, front: u32, back: u32) -> u32 {
        let first = self.next(front);
        let second = self.next(back);
        self.link(front, second);
        self.link(back, first);
        back
    }

    /// Ends a chain at `at`; gives the rest, which is [`NONE`] if `at` is the last chunk.
    pub(super) fn cut(&mut self, last: u32, at: u32) -> u32 {
        if at == last {
            return NONE;
        }
        let (first, rest) = (self.next(last), self.next(at));
        self.link(at, first);
        self.link(last, rest);
        last
    }

    fn free(&mut self, chunk: u32) -> usize {
        let held = self.entries(chunk).iter().filter(|(_, address)| *address != Address::NONE).count();
        self.pool.give(chunk);
        held
    }

    /// Frees the first chunk of a chain; gives the last one now, and how many addresses went.
    pub(super) fn drop_first(&mut self, last: u32) -> (u32, usize) {
        let first = self.next(last);
        if first == last {
            return (NONE, self.free(first));
        }
        let second = self.next(first);
        self.link(last, second);
        (last, self.free(first))
    }

    /// Frees a chain; gives how many addresses went.
    pub(super) fn drop_chain(&mut self, mut last: u32) -> usize {
        let mut gone = 0;
        while last != NONE {
            let (rest, held) = self.drop_first(last);
            last = rest;
            gone += held;
        }
        gone
    }
}
