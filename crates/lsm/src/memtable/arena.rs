//! The arena of a memtable: nodes and records are allocated one behind the other in slabs, and freed only with all
//! slabs.

use std::ops::Range;

use ecotone_substrate::limits;
use ecotone_sys::{
    chunk::Size,
    primitive::{
        Mutex,
        atomic::{AtomicU64, Ordering},
        unless_loom,
    },
    words::{WORD, Words},
};

use crate::memtable::slabs::{Slab, Slabs, shortcut_words};

/// Words of a large slab. With loom they are so few that all orders can be tried.
const SLAB: usize = unless_loom(Size::Slab.bytes() / WORD, 16);
/// Words of a large slab that can be allocated: those behind the shortcuts.
pub(crate) const ROOM: usize = SLAB - shortcut_words(SLAB);
/// Words of a node besides those of its record, at most.
const OVERHEAD: usize = 32;
const _: () = assert!(
    unless_loom(limits::MAX_RECORD / WORD + OVERHEAD <= room_in(Size::Frame.bytes()), true),
    "a small slab has room for all"
);

/// Bytes of slabs that have this many words.
pub(crate) const fn bytes(words: usize) -> usize {
    words * (Size::Slab.bytes() / SLAB)
}

/// Words that can be allocated in slabs of this many bytes.
pub(crate) const fn room_in(bytes: usize) -> usize {
    bytes / Size::Frame.bytes() * ROOM / (Size::Slab.bytes() / Size::Frame.bytes())
}

/// The address of a word: 13 bits for the word within its slab, and 19 for the slab's number. The very first word is
/// never allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address(u32);

impl Address {
    /// The null address.
    pub(super) const NONE: Address = Address(0);

    /// The address with these bits.
    pub(super) const fn from_bits(bits: u32) -> Address {
        Address(bits)
    }

    /// Its bits.
    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// The address of a word of a slab.
    fn of(slab: usize, word: usize) -> Address {
        Address(u32::try_from(slab * SLAB + word).expect("a memtable is full long before"))
    }

    /// The address this many words further.
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

/// The memory of a memtable: slabs of 64 KiB, and before them small ones of 4 KiB, which are enough for many keyspaces.
#[derive(Debug)]
pub(super) struct Arena {
    slabs: Slabs,
    /// Lower half: the number of slabs. Upper half: the number of small slabs before the first large one.
    there: AtomicU64,
    /// Where the next words are allocated.
    next: AtomicU64,
    /// Held by the thread that adds a slab.
    bringing: Mutex<()>,
}

impl Arena {
    /// An arena without memory.
    pub(super) fn new() -> Arena {
        Arena { slabs: Slabs::default(), there: AtomicU64::new(0), next: AtomicU64::new(0), bringing: Mutex::new(()) }
    }

    /// The number of slabs, and the number of small ones before the first large one.
    fn there(&self) -> (usize, usize) {
        let there = self.there.load(Ordering::Acquire);
        (there as u32 as usize, (there >> 32) as usize)
    }

    /// The slabs whose shortcuts are used: those from the first large one on, or all if there is none.
    #[inline]
    pub(super) fn with_shortcuts(&self) -> Range<usize> {
        let (all, small) = self.there();
        if small < all { small..all } else { 0..all }
    }

    /// Words of all slabs.
    pub(super) fn words(&self) -> usize {
        self.words_until(self.there().0)
    }

    /// Words of the first `slabs` slabs, which exist.
    fn words_until(&self, slabs: usize) -> usize {
        let last = slabs.checked_sub(1).and_then(|last| self.slabs.get(last));
        last.map_or(0, |last| last.before + last.words.len())
    }

    /// Words that were allocated, with shortcuts and the unused ends of slabs.
    pub(super) fn given_out(&self) -> usize {
        let (slab, within) = self.present();
        self.words_until(slab) + within
    }

    /// Words that are left in the current slab.
    pub(super) fn free(&self) -> usize {
        let (slab, within) = self.present();
        self.slabs.get(slab).map_or(0, |slab| slab.words.len() - within.max(shortcut_words(slab.words.len())))
    }

    /// The slab in which the next words are allocated, and the word within it.
    fn present(&self) -> (usize, usize) {
        let next = Address(self.next.load(Ordering::Acquire) as u32);
        (next.slab(), next.word())
    }

    /// Allocates words, which are zero and lie in one slab. `ready` returns a new slab if the current one has too few
    /// left.
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
            // A thread that is given an address finds the slab: the thread that publishes the address has seen the slab
            // here.
            let end = u64::from(place.bits()) + words as u64;
            match self.next.compare_exchange(next, end, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return place,
                Err(now) => next = now,
            }
        }
    }

    /// The address of `words` words that are allocated at `next`: there, or in the next slab. The error is the number
    /// of the slab that has to be added first.
    fn place(&self, next: u64, words: usize) -> std::result::Result<Address, usize> {
        let next = Address(u32::try_from(next).expect("a memtable is full long before"));
        for (number, within) in [(next.slab(), next.word()), (next.slab() + 1, 0)] {
            let slab = self.slabs.get(number).ok_or(number)?.words.len();
            let at = within.max(shortcut_words(slab));
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

    /// The words for shortcuts of a slab, which exists.
    #[inline]
    pub(super) fn shortcuts(&self, slab: usize) -> &[AtomicU64] {
        let words = &self.slabs.get(slab).expect("it is there").words;
        &words[..shortcut_words(words.len())]
    }

    /// The words from an allocated address to the end of its slab.
    #[inline]
    pub(super) fn from(&self, address: Address) -> &[AtomicU64] {
        let slab = self.slabs.get(address.slab()).expect("what was given out is there");
        &slab.words[address.word()..]
    }
}
