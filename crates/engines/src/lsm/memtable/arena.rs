//! The slabs of a memtable, in which nodes and records are given out one behind the other and never taken back.

use std::ops::Range;

use ecotone_substrate::limits;
use ecotone_sys::{
    chunk::Size,
    primitive::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    words::{WORD, Words},
};

use super::{
    shortcuts,
    slabs::{Slab, Slabs},
};

/// Words of a large slab. With loom so few that all orders can be tried.
const SLAB: usize = if cfg!(feature = "loom") { 16 } else { Size::Slab.bytes() / WORD };
/// Words of a large slab that are given out: those behind the shortcuts.
pub(crate) const ROOM: usize = SLAB - shortcuts::words(SLAB);
/// Words of a node besides those of its record, at most.
const OVERHEAD: usize = 32;
const _: () = assert!(
    cfg!(feature = "loom") || limits::MAX_RECORD / WORD + OVERHEAD <= room_in(Size::Frame.bytes()),
    "a small slab has room for all"
);

/// Bytes of slabs that have so many words.
pub(crate) const fn bytes(words: usize) -> usize {
    words * (Size::Slab.bytes() / SLAB)
}

/// Words of slabs of so many bytes that are given out.
pub(crate) const fn room_in(bytes: usize) -> usize {
    bytes / Size::Frame.bytes() * ROOM / (Size::Slab.bytes() / Size::Frame.bytes())
}

/// A word of a slab: 13 bits of it and 19 of the slab's number. The first word of all is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address(u32);

impl Address {
    /// Where nothing is.
    pub(super) const NONE: Address = Address(0);

    /// From its bits.
    pub(super) const fn from_bits(bits: u32) -> Address {
        Address(bits)
    }

    /// Its bits.
    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// A word of a slab.
    fn of(slab: usize, word: usize) -> Address {
        Address(u32::try_from(slab * SLAB + word).expect("a memtable is full long before"))
    }

    /// So many words further.
    pub(super) fn plus(self, words: usize) -> Address {
        Address(self.0 + words as u32)
    }

    fn slab(self) -> usize {
        self.0 as usize / SLAB
    }

    fn word(self) -> usize {
        self.0 as usize % SLAB
    }
}

/// The memory of a memtable: slabs of 64 KiB, and before them small ones of 4 KiB, which is all that many a keyspace
/// needs.
#[derive(Debug)]
pub(super) struct Arena {
    slabs: Slabs,
    /// How many of them are there, the first ones, and in the upper half how many of these come before the first large
    /// one.
    there: AtomicU64,
    /// Where the next words are given out.
    next: AtomicU64,
    /// Held by who brings a slab.
    bringing: Mutex<()>,
}

impl Arena {
    /// No memory.
    pub(super) fn new() -> Arena {
        Arena { slabs: Slabs::default(), there: AtomicU64::new(0), next: AtomicU64::new(0), bringing: Mutex::new(()) }
    }

    /// How many slabs it has, and how many of them come before the first large one.
    fn there(&self) -> (usize, usize) {
        let there = self.there.load(Ordering::Acquire);
        (there as u32 as usize, (there >> 32) as usize)
    }

    /// The slabs that have the shortcuts: all, or those from the first large one on.
    #[inline]
    pub(super) fn with_shortcuts(&self) -> Range<usize> {
        let (all, small) = self.there();
        if small < all { small..all } else { 0..all }
    }

    /// Words of all slabs.
    pub(super) fn words(&self) -> usize {
        self.words_until(self.there().0)
    }

    /// Words of the first slabs, so many, which are there.
    fn words_until(&self, slabs: usize) -> usize {
        let last = slabs.checked_sub(1).and_then(|last| self.slabs.get(last));
        last.map_or(0, |last| last.before + last.words.len())
    }

    /// Words that were given out, with shortcuts and what the ends of slabs had left.
    pub(super) fn given_out(&self) -> usize {
        let (slab, within) = self.present();
        self.words_until(slab) + within
    }

    /// Words that the present slab has left.
    pub(super) fn free(&self) -> usize {
        let (slab, within) = self.present();
        self.slabs.get(slab).map_or(0, |slab| slab.words.len() - within.max(shortcuts::words(slab.words.len())))
    }

    /// The slab in which the next words are given out, and where there.
    fn present(&self) -> (usize, usize) {
        let next = Address(self.next.load(Ordering::Acquire) as u32);
        (next.slab(), next.word())
    }

    /// Gives out words, which are zero and lie in one slab. `ready` gives a slab if the present one has too few left.
    pub(super) fn allocate(&self, words: usize, ready: &mut dyn FnMut() -> Words) -> Address {
        let mut next = self.next.load(Ordering::Acquire);
        loop {
            let place = match self.place(next, words) {
                Ok(place) => place,
                Err(slab) => {
                    self.bring(slab, ready);
                    continue;
                }
            };
            // Whoever is told an address finds the slab, since the one who tells it has looked at it here.
            let end = u64::from(place.bits()) + words as u64;
            match self.next.compare_exchange(next, end, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return place,
                Err(now) => next = now,
            }
        }
    }

    /// Where so many words lie that are given out at `next`: there, or in the next slab. The number of the slab that is
    /// to be brought before it can be told.
    fn place(&self, next: u64, words: usize) -> std::result::Result<Address, usize> {
        let next = Address(u32::try_from(next).expect("a memtable is full long before"));
        for (number, within) in [(next.slab(), next.word()), (next.slab() + 1, 0)] {
            let slab = self.slabs.get(number).ok_or(number)?.words.len();
            let at = within.max(shortcuts::words(slab));
            if at + words <= slab {
                return Ok(Address::of(number, at));
            }
        }
        unreachable!("each slab has room for the largest node")
    }

    fn bring(&self, number: usize, ready: &mut dyn FnMut() -> Words) {
        let _bringing = self.bringing.lock();
        let (all, small) = self.there();
        if all == number {
            let slab = Slab { words: ready(), before: self.words_until(all) };
            let is_small = slab.words.len() < SLAB && small == all;
            self.slabs.set(number, slab);
            let (all, small) = (all as u64 + 1, small as u64 + u64::from(is_small));
            self.there.store(small << 32 | all, Ordering::Release);
        }
    }

    /// The words for shortcuts of a slab that is there.
    #[inline]
    pub(super) fn shortcuts(&self, slab: usize) -> &[AtomicU64] {
        let words = &self.slabs.get(slab).expect("it is there").words;
        &words[..shortcuts::words(words.len())]
    }

    /// The words from an address that was given out to the end of its slab.
    #[inline]
    pub(super) fn from(&self, address: Address) -> &[AtomicU64] {
        let slab = self.slabs.get(address.slab()).expect("what was given out is there");
        &slab.words[address.word()..]
    }
}
