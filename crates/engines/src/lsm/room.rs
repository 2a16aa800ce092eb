//! Room for writes: slabs that are ready, and promises of them, so that nobody who applies a write waits or fails
//! (decision 12, invariant 9).

use std::sync::Arc;

use ecotone_substrate::Result;
use ecotone_sys::{
    chunk::{Block, Size},
    primitive::{
        Mutex,
        atomic::{AtomicU64, Ordering},
        thread,
    },
    words::Words,
};

use super::{memtable, pool::Pool};

/// Added to the credits while nothing is promised and slabs are given back.
const TRIMMING: u64 = 1 << 62;

/// The slabs of a keyspace that no memtable has yet.
#[derive(Debug)]
pub(super) struct Room {
    pool: Arc<Pool>,
    ready: Mutex<Vec<Words>>,
    /// Bytes of those that are ready.
    bytes: AtomicU64,
    /// Words of all credits.
    promised: AtomicU64,
}

impl Room {
    /// No slabs.
    pub(super) fn new(pool: &Arc<Pool>) -> Room {
        Room { pool: pool.clone(), ready: Mutex::default(), bytes: AtomicU64::new(0), promised: AtomicU64::new(0) }
    }

    /// Promises room for a write of so many words. `free` tells the words that are left in the slabs of the memtables
    /// that are not sealed, `size` which slab is next.
    ///
    /// # Errors
    /// If memtables may not have the memory for it. Then something is to be flushed.
    pub(super) fn admit(&self, words: usize, size: impl Fn() -> Size, free: impl Fn() -> u64) -> Result<Credit> {
        // The end of a slab may stay empty, and is shorter than what did not fit.
        self.promise(2 * words as u64, free, || self.pool.lease(size()))
    }

    /// The same where nothing is left to be flushed.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn admit_at_last(
        &self,
        words: usize,
        size: impl Fn() -> Size,
        free: impl Fn() -> u64,
    ) -> Result<Credit> {
        self.promise(2 * words as u64, free, || self.pool.lease_at_last(size()))
    }

    /// Promises room for a switch to another memtable, which leaves the end of a slab empty: until the one before is
    /// sealed.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn admit_switch(&self, free: impl Fn() -> u64) -> Result<Credit> {
        let lease = || self.pool.lease(Size::Slab).or_else(|_| self.pool.lease_at_last(Size::Slab));
        self.promise(memtable::ROOM as u64, free, lease)
    }

    fn promise(&self, words: u64, free: impl Fn() -> u64, lease: impl Fn() -> Result<Block>) -> Result<Credit> {
        let mut wanted = self.promised.fetch_add(words, Ordering::AcqRel) + words;
        while wanted >= TRIMMING {
            thread::yield_now();
            wanted = self.promised.load(Ordering::Acquire);
        }
        let credit = Credit { words };
        // In this order: who takes words gives his credit back afterwards, and who takes a slab makes it a memtable's
        // afterwards. So nothing counts twice.
        while free() + self.ready_words() < wanted {
            match lease() {
                Ok(slab) => self.add(Words::new(slab)),
                Err(error) => {
                    self.give_back(credit);
                    return Err(error);
                }
            }
        }
        Ok(credit)
    }

    fn add(&self, slab: Words) {
        let mut ready = self.ready.lock();
        ready.push(slab);
        self.count(&ready);
    }

    /// Takes a promise back, when the write has been applied or will not be.
    pub(super) fn give_back(&self, credit: Credit) {
        self.promised.fetch_sub(credit.words, Ordering::AcqRel);
    }

    /// Takes a slab for a memtable, on the credit of the write that needs it.
    ///
    /// # Panics
    /// If there is none, which no credit allows.
    pub(super) fn take(&self) -> Words {
        let mut ready = self.ready.lock();
        let slab = ready.pop().expect("a credit promises a slab");
        self.count(&ready);
        slab
    }

    /// Gives the slabs that are ready back to the budget, if nobody was promised any. Who is promised some meanwhile
    /// waits for the end of this, and looks then.
    pub(super) fn trim(&self) {
        if self.promised.compare_exchange(0, TRIMMING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        let gone = {
            let mut ready = self.ready.lock();
            let gone = std::mem::take(&mut *ready);
            self.count(&ready);
            gone
        };
        self.promised.fetch_sub(TRIMMING, Ordering::AcqRel);
        drop(gone);
    }

    /// Bytes of the slabs that are ready.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire) as usize
    }

    fn ready_words(&self) -> u64 {
        memtable::room_in(self.bytes()) as u64
    }

    fn count(&self, ready: &[Words]) {
        let words = ready.iter().map(|slab| slab.len()).sum();
        self.bytes.store(memtable::bytes(words) as u64, Ordering::Release);
    }
}

/// The size of the next slab of a keyspace whose memtables have so many bytes: many a keyspace has a few records and is
/// one of thousands.
pub(super) fn size_of_next(bytes: usize) -> Size {
    if bytes < Size::Slab.bytes() { Size::Frame } else { Size::Slab }
}

/// A promise of room for one write, until it is given back.
#[derive(Debug)]
#[must_use = "room is promised until this is given back"]
pub(super) struct Credit {
    words: u64,
}

impl Credit {
    /// The one that was told by so many words.
    pub(super) fn of(words: u64) -> Credit {
        Credit { words }
    }

    /// What tells it.
    pub(super) fn words(self) -> u64 {
        self.words
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use ecotone_substrate::memory::{Component, Memory};
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    use super::*;
    use crate::lsm::memtable::Memtable;

    /// Room and a memtable.
    struct World {
        memory: Arc<Memory>,
        room: Room,
        memtable: Memtable,
    }

    impl World {
        fn new() -> World {
            let memory = Memory::new(32 << 20);
            World { room: Room::new(&Pool::new(&memory)), memtable: Memtable::new(b""), memory }
        }

        fn try_to_admit(&self, words: usize) -> Result<Credit> {
            self.room.admit(words, || size_of_next(self.memtable.bytes()), || self.memtable.free() as u64)
        }

        fn admit(&self, key: &[u8], value: &[u8]) -> Credit {
            self.try_to_admit(Memtable::words(1, key, Some(value))).expect("there is memory")
        }

        fn apply(&self, key: &[u8], value: &[u8], credit: Credit) {
            self.memtable.apply(1, key, Some(value), 1, &mut || self.room.take());
            self.room.give_back(credit);
        }
    }

    /// As many admitted as there may be, of whatever size, of which some are cancelled; none finds no slab.
    #[test]
    fn whoever_is_admitted_finds_room_whatever_others_do() {
        let (world, mut random) = (World::new(), SmallRng::seed_from_u64(1));
        let (mut admitted, mut number) = (Vec::new(), 0_u32);
        while world.memtable.bytes() < 2 << 20 {
            if admitted.is_empty() || (admitted.len() < 400 && random.random_bool(0.5)) {
                number += 1;
                let length = if random.random_bool(0.1) { 1800 } else { random.random_range(0..100) };
                let (key, value) = (number.to_be_bytes(), vec![7; length]);
                let credit = world.admit(&key, &value);
                admitted.push((key, value, credit));
            } else {
                let (key, value, credit) = admitted.swap_remove(random.random_range(0..admitted.len()));
                if random.random_bool(0.9) {
                    world.apply(&key, &value, credit);
                } else {
                    world.room.give_back(credit);
                }
            }
            assert_eq!(world.memory.used(&[Component::Memtable]), world.memtable.bytes() + world.room.bytes());
        }
        let promised = world.room.promised.load(Ordering::Relaxed) as usize * 8;
        assert!(promised > 0);
        admitted.into_iter().for_each(|(.., credit)| world.room.give_back(credit));
        assert_eq!(world.room.promised.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_idle_room_has_one_slab_and_a_full_budget_promises_nothing() {
        let world = World::new();
        for number in 0..3000_u32 {
            let credit = world.admit(&number.to_be_bytes(), b"value");
            world.apply(&number.to_be_bytes(), b"value", credit);
            assert!(world.room.bytes() <= Size::Slab.bytes());
        }
        let mut credits = Vec::new();
        while let Ok(credit) = world.try_to_admit(200) {
            credits.push(credit);
        }
        let held = world.room.promised.load(Ordering::Relaxed);
        assert!(world.try_to_admit(200).is_err());
        assert_eq!(world.room.promised.load(Ordering::Relaxed), held, "who is not admitted is promised nothing");
        assert_eq!(world.memory.used(&[Component::Memtable]), world.memory.budget() / 8 * 3, "the write cache");
        world.room.trim();
        assert!(world.room.bytes() > 0, "what is promised stays");
        credits
            .into_iter()
            .zip(10_000_u32..)
            .for_each(|(credit, number)| world.apply(&number.to_be_bytes(), &[1; 1500], credit));
        world.room.trim();
        assert_eq!((world.room.bytes(), world.memory.used(&[Component::Memtable])), (0, world.memtable.bytes()));
    }

    #[test]
    fn threads_that_are_admitted_find_room() {
        let world = World::new();
        std::thread::scope(|scope| {
            for thread in 0..3_u32 {
                let world = &world;
                scope.spawn(move || {
                    for number in 0..4000_u32 {
                        let key = (number * 3 + thread).to_be_bytes();
                        let value = vec![1; (number % 300) as usize];
                        let credit = world.admit(&key, &value);
                        if number % 50 == 0 {
                            world.room.trim();
                        }
                        if number % 5 == 0 {
                            world.room.give_back(credit);
                        } else {
                            world.apply(&key, &value, credit);
                        }
                    }
                });
            }
        });
        assert_eq!(world.memory.used(&[Component::Memtable]), world.memtable.bytes() + world.room.bytes());
    }
}
