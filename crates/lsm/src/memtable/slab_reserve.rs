//! Memory reservations for writes. A write reserves words before it enters the log; the reserve holds enough ready
//! slabs for all reservations. So applying a write never waits and never fails (lsm-protocol.md, invariant 9).

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

use crate::memtable::{ROOM, bytes, pool::MemtablePool, room_in};

/// Added to the promised words while nothing is reserved and slabs are given back.
const TRIMMING: u64 = 1 << 62;

/// The slabs of a keyspace that no memtable uses yet.
#[derive(Debug)]
pub(crate) struct SlabReserve {
    pool: Arc<MemtablePool>,
    ready: Mutex<Vec<Words>>,
    /// Bytes of the ready slabs.
    bytes: AtomicU64,
    /// Words of all reservations.
    promised: AtomicU64,
}

impl SlabReserve {
    /// No slabs.
    pub(crate) fn new(pool: &Arc<MemtablePool>) -> SlabReserve {
        SlabReserve {
            pool: pool.clone(),
            ready: Mutex::default(),
            bytes: AtomicU64::new(0),
            promised: AtomicU64::new(0),
        }
    }

    /// The pool of all memtables of the database.
    pub(crate) fn pool(&self) -> &Arc<MemtablePool> {
        &self.pool
    }

    /// Reserves memory for a write of so many words. `free` gives the words that are left in the slabs of the writable
    /// memtables, `size` the size of the next slab.
    ///
    /// # Errors
    /// If memtables may not have that memory. Then a flush is needed.
    pub(crate) fn admit(&self, words: usize, size: impl Fn() -> Size, free: impl Fn() -> u64) -> Result<Reservation> {
        // Twice, as the end of a slab may stay empty; the end is shorter than the record that did not fit.
        self.promise(2 * words as u64, free, || self.pool.lease(size()))
    }

    /// The same where no memtable is left to flush.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn reserve_essential(
        &self,
        words: usize,
        size: impl Fn() -> Size,
        free: impl Fn() -> u64,
    ) -> Result<Reservation> {
        self.promise(2 * words as u64, free, || self.pool.lease_essential(size()))
    }

    /// Reserves memory for a rotation, which leaves the end of a slab empty, until the memtable before is immutable.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn reserve_rotation(&self, free: impl Fn() -> u64) -> Result<Reservation> {
        let lease = || self.pool.lease(Size::Slab).or_else(|_| self.pool.lease_essential(Size::Slab));
        self.promise(ROOM as u64, free, lease)
    }

    fn promise(&self, words: u64, free: impl Fn() -> u64, lease: impl Fn() -> Result<Block>) -> Result<Reservation> {
        let mut wanted = self.promised.fetch_add(words, Ordering::AcqRel) + words;
        while wanted >= TRIMMING {
            thread::yield_now();
            wanted = self.promised.load(Ordering::Acquire);
        }
        let reservation = Reservation { words };
        // In this order: a write takes words before it releases its reservation, and takes a slab out of `ready` before
        // the slab belongs to a memtable. So nothing counts twice.
        while free() + self.ready_words() < wanted {
            match lease() {
                Ok(slab) => self.add(Words::new(slab)),
                Err(error) => {
                    self.release(reservation);
                    return Err(error);
                }
            }
        }
        Ok(reservation)
    }

    fn add(&self, slab: Words) {
        let mut ready = self.ready.lock();
        ready.push(slab);
        self.count(&ready);
    }

    /// Releases a reservation, when the write has been applied or will not be.
    pub(crate) fn release(&self, reservation: Reservation) {
        self.promised.fetch_sub(reservation.words, Ordering::AcqRel);
    }

    /// Takes a slab for a memtable, on the reservation of the write that needs it.
    ///
    /// # Panics
    /// If there is no slab, which no reservation allows.
    pub(crate) fn take(&self) -> Words {
        let mut ready = self.ready.lock();
        let slab = ready.pop().expect("a reservation has a slab");
        self.count(&ready);
        slab
    }

    /// Gives the ready slabs back to the budget, if nothing is reserved. A thread that reserves meanwhile waits until
    /// this has ended, and checks then.
    pub(crate) fn trim(&self) {
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

    /// Bytes of the ready slabs.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire) as usize
    }

    fn ready_words(&self) -> u64 {
        room_in(self.bytes()) as u64
    }

    fn count(&self, ready: &[Words]) {
        let words = ready.iter().map(|slab| slab.len()).sum();
        self.bytes.store(bytes(words) as u64, Ordering::Release);
    }
}

/// The size of the next slab of a keyspace whose memtables have so many bytes. Small at first: many a keyspace has a
/// few records and is one of thousands.
pub(crate) fn size_of_next(bytes: usize) -> Size {
    if bytes < Size::Slab.bytes() { Size::Frame } else { Size::Slab }
}

/// A reservation of memory for one write, until it is released.
#[derive(Debug)]
#[must_use = "room is promised until this is given back"]
pub(crate) struct Reservation {
    words: u64,
}

impl Reservation {
    /// The reservation of so many words, as [`words`](Self::words) gave them.
    pub(crate) fn of(words: u64) -> Reservation {
        Reservation { words }
    }

    /// The reserved words, from which the reservation can be restored.
    pub(crate) fn words(self) -> u64 {
        self.words
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use ecotone_engine::superseded::SupersededReports;
    use ecotone_substrate::memory::{Component, Memory};
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    use super::*;
    use crate::memtable::Memtable;

    /// A slab reserve and a memtable.
    struct Fixture {
        memory: Arc<Memory>,
        slabs: SlabReserve,
        memtable: Memtable,
    }

    impl Fixture {
        fn new() -> Fixture {
            let memory = Memory::new(32 << 20);
            Fixture { slabs: SlabReserve::new(&MemtablePool::new(&memory)), memtable: Memtable::new(b""), memory }
        }

        fn try_to_admit(&self, words: usize) -> Result<Reservation> {
            self.slabs.admit(words, || size_of_next(self.memtable.bytes()), || self.memtable.free() as u64)
        }

        fn admit(&self, key: &[u8], value: &[u8]) -> Reservation {
            self.try_to_admit(Memtable::words(1, key, Some(value))).expect("there is memory")
        }

        fn apply(&self, key: &[u8], value: &[u8], reservation: Reservation) {
            self.memtable.apply(1, key, Some(value), 1, &mut || self.slabs.take(), &SupersededReports::default());
            self.slabs.release(reservation);
        }
    }

    /// Admits as many writes as possible, of all sizes, and cancels some; each write finds its slab.
    #[test]
    fn whoever_is_admitted_finds_room_whatever_others_do() {
        let (fixture, mut random) = (Fixture::new(), SmallRng::seed_from_u64(1));
        let (mut admitted, mut number) = (Vec::new(), 0_u32);
        while fixture.memtable.bytes() < 2 << 20 {
            if admitted.is_empty() || (admitted.len() < 400 && random.random_bool(0.5)) {
                number += 1;
                let length = if random.random_bool(0.1) { 1800 } else { random.random_range(0..100) };
                let (key, value) = (number.to_be_bytes(), vec![7; length]);
                let reservation = fixture.admit(&key, &value);
                admitted.push((key, value, reservation));
            } else {
                let (key, value, reservation) = admitted.swap_remove(random.random_range(0..admitted.len()));
                if random.random_bool(0.9) {
                    fixture.apply(&key, &value, reservation);
                } else {
                    fixture.slabs.release(reservation);
                }
            }
            assert_eq!(fixture.memory.used(&[Component::Memtable]), fixture.memtable.bytes() + fixture.slabs.bytes());
        }
        let promised = fixture.slabs.promised.load(Ordering::Relaxed) as usize * 8;
        assert!(promised > 0);
        admitted.into_iter().for_each(|(.., reservation)| fixture.slabs.release(reservation));
        assert_eq!(fixture.slabs.promised.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_idle_room_has_one_slab_and_a_full_budget_promises_nothing() {
        let fixture = Fixture::new();
        for number in 0..3000_u32 {
            let reservation = fixture.admit(&number.to_be_bytes(), b"value");
            fixture.apply(&number.to_be_bytes(), b"value", reservation);
            assert!(fixture.slabs.bytes() <= Size::Slab.bytes());
        }
        let mut credits = Vec::new();
        while let Ok(reservation) = fixture.try_to_admit(200) {
            credits.push(reservation);
        }
        let held = fixture.slabs.promised.load(Ordering::Relaxed);
        assert!(fixture.try_to_admit(200).is_err());
        assert_eq!(fixture.slabs.promised.load(Ordering::Relaxed), held, "who is not admitted is promised nothing");
        assert_eq!(fixture.memory.used(&[Component::Memtable]), fixture.memory.budget() / 8 * 3, "three eighths");
        fixture.slabs.trim();
        assert!(fixture.slabs.bytes() > 0, "what is promised stays");
        credits
            .into_iter()
            .zip(10_000_u32..)
            .for_each(|(reservation, number)| fixture.apply(&number.to_be_bytes(), &[1; 1500], reservation));
        fixture.slabs.trim();
        assert_eq!((fixture.slabs.bytes(), fixture.memory.used(&[Component::Memtable])), (0, fixture.memtable.bytes()));
    }

    #[test]
    fn threads_that_are_admitted_find_room() {
        let fixture = Fixture::new();
        std::thread::scope(|scope| {
            for thread in 0..3_u32 {
                let fixture = &fixture;
                scope.spawn(move || {
                    for number in 0..4000_u32 {
                        let key = (number * 3 + thread).to_be_bytes();
                        let value = vec![1; (number % 300) as usize];
                        let reservation = fixture.admit(&key, &value);
                        if number % 50 == 0 {
                            fixture.slabs.trim();
                        }
                        if number % 5 == 0 {
                            fixture.slabs.release(reservation);
                        } else {
                            fixture.apply(&key, &value, reservation);
                        }
                    }
                });
            }
        });
        assert_eq!(fixture.memory.used(&[Component::Memtable]), fixture.memtable.bytes() + fixture.slabs.bytes());
    }
}
