//! The slabs of a memtable, in which nodes and records are given out one behind the other and never taken back.

use ecotone_sys::{
    chunk::Size,
    primitive::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    words::{WORD, Words},
};

use super::{shortcuts, slabs::Slabs};

/// Words of a slab. With loom so few that all orders can be tried.
const SLAB: usize = if cfg!(feature = "loom") { 16 } else { Size::Slab.bytes() / WORD };
/// Words of a slab that are given out: those behind the shortcuts.
pub(crate) const ROOM: usize = SLAB - shortcuts::WORDS;

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

/// The memory of a memtable.
#[derive(Debug)]
pub(super) struct Arena {
    slabs: Slabs,
    /// How many of them are there, the first ones.
    there: AtomicU64,
    /// Where the next words are given out.
    next: AtomicU64,
    /// Held by who brings a slab.
    bringing: Mutex<()>,
}

impl Arena {
    /// No memory.
    pub(super) fn new() -> Arena {
        Arena {
            slabs: Slabs::default(),
            there: AtomicU64::new(0),
            next: AtomicU64::new(shortcuts::WORDS as u64),
            bringing: Mutex::new(()),
        }
    }

    /// How many slabs it has.
    pub(super) fn slabs(&self) -> usize {
        self.there.load(Ordering::Acquire) as usize
    }

    /// Words that were given out, with shortcuts and what the ends of slabs had left.
    pub(super) fn given_out(&self) -> usize {
        self.next.load(Ordering::Acquire) as usize
    }

    /// Words that the present slab has left.
    pub(super) fn free(&self) -> usize {
        let next = self.next.load(Ordering::Acquire) as usize;
        if next / SLAB < self.slabs() { SLAB - (next % SLAB).max(shortcuts::WORDS) } else { 0 }
    }

    /// Gives out words, which are zero and lie in one slab. `ready` gives a slab if the present one has too few left.
    pub(super) fn allocate(&self, words: usize, ready: &mut dyn FnMut() -> Words) -> Address {
        assert!(words <= ROOM);
        let mut next = self.next.load(Ordering::Acquire);
        loop {
            let place = self.place(next, words);
            if place.slab() >= self.slabs() {
                self.bring(place.slab(), ready);
            }
            // Whoever is told an address finds the slab, since the one who tells it has looked at it here.
            let end = u64::from(place.bits()) + words as u64;
            match self.next.compare_exchange(next, end, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return place,
                Err(now) => next = now,
            }
        }
    }

    /// Where so many words lie that are given out at `next`: there, or in the next slab.
    fn place(&self, next: u64, words: usize) -> Address {
        let within = next as usize % SLAB;
        let fits = within > 0 && words <= SLAB - within;
        let at = if fits { next } else { next.next_multiple_of(SLAB as u64) + shortcuts::WORDS as u64 };
        Address(u32::try_from(at).expect("a memtable is full long before"))
    }

    fn bring(&self, slab: usize, ready: &mut dyn FnMut() -> Words) {
        let _bringing = self.bringing.lock();
        if self.slabs() == slab {
            let words = ready();
            assert_eq!(words.len(), SLAB);
            self.slabs.set(slab, words);
            self.there.store(slab as u64 + 1, Ordering::Release);
        }
    }

    /// The words for shortcuts of a slab that is there.
    #[inline]
    pub(super) fn shortcuts(&self, slab: usize) -> &[AtomicU64] {
        &self.slabs.get(slab).expect("it is there")[..shortcuts::WORDS]
    }

    /// The words from an address that was given out to the end of its slab.
    #[inline]
    pub(super) fn from(&self, address: Address) -> &[AtomicU64] {
        let slab = self.slabs.get(address.slab()).expect("what was given out is there");
        &slab[address.word()..]
    }
}
