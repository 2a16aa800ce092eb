//! Operations that are appended and may not be applied yet.
//!
//! A writer announces the tail in a slot before it appends, and clears the slot after it has applied. *Applied* is the
//! smallest announced position or, if there is none, the tail as it was before the slots were read. Every operation
//! below it is applied: a writer whose slot was seen empty announced later, so it appends at or above the tail that was
//! read before.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

use ecotone_sys::primitive::{atomic::AtomicU64, unless_loom};

use super::Wal;
use crate::Seq;

/// Loom has so few that it can try all orders.
const SLOTS: usize = unless_loom(128, 2);
const EMPTY: Seq = Seq::MAX;

/// A slot on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(AtomicU64);

#[derive(Debug)]
pub(super) struct Slots(Box<[Slot]>);

impl Slots {
    pub(super) fn new() -> Self {
        Slots((0..SLOTS).map(|_| Slot(AtomicU64::new(EMPTY))).collect())
    }

    /// The applied position, for a log that ends at `tail`.
    fn applied(&self, tail: &AtomicU64) -> Seq {
        let tail = tail.load(Ordering::SeqCst);
        self.smallest().filter(|_| !bug!(IgnoreInFlight)).map_or(tail, |smallest| smallest.min(tail))
    }

    /// The smallest announced position.
    fn smallest(&self) -> Option<Seq> {
        self.0.iter().map(|slot| slot.0.load(Ordering::SeqCst)).min().filter(|&smallest| smallest != EMPTY)
    }

    /// Takes an empty slot, preferably the one that this thread had last. Holders never wait for one another, so a slot
    /// comes free soon.
    fn take(&self, tail: &AtomicU64) -> &AtomicU64 {
        let mut turn = favourite();
        loop {
            let slot = &self.0[turn % SLOTS].0;
            let position = tail.load(Ordering::SeqCst);
            if slot.compare_exchange(EMPTY, position, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return slot;
            }
            turn += 1;
            if turn.is_multiple_of(SLOTS) {
                ecotone_sys::primitive::thread::yield_now();
            }
        }
    }
}

fn favourite() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS);
    }
    MINE.get()
}

/// An announced operation. It is dropped after the operation was applied.
#[derive(Debug)]
#[must_use = "an operation is in flight until this is dropped"]
pub struct InFlight<'a> {
    slot: &'a AtomicU64,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.slot.store(EMPTY, Ordering::SeqCst);
    }
}

impl Wal {
    /// Announces an operation that this thread will append and apply. Call it before [`append`](Wal::append), and drop
    /// the result after the operation is applied.
    pub fn announce(&self) -> InFlight<'_> {
        InFlight { slot: self.slots.take(&self.tail) }
    }

    /// The applied position: every operation below it is applied.
    pub fn applied(&self) -> Seq {
        self.slots.applied(&self.tail)
    }
}

#[cfg(test)]
#[cfg(feature = "loom")]
mod tests {
    use std::sync::Arc;

    use ecotone_sys::primitive::{
        Mutex,
        atomic::AtomicBool,
        loom::{model, thread},
    };

    use super::*;

    const OPERATIONS: usize = 2;

    /// The parts of a log that announcements use.
    struct Log {
        slots: Slots,
        tail: AtomicU64,
        append: Mutex<u64>,
        applied: [AtomicBool; OPERATIONS],
    }

    impl Log {
        fn write(&self) {
            let in_flight = InFlight { slot: self.slots.take(&self.tail) };
            let seq = {
                let mut next = self.append.lock();
                *next += 1;
                self.tail.store(*next, Ordering::SeqCst);
                *next - 1
            };
            self.applied[seq as usize].store(true, Ordering::Relaxed);
            drop(in_flight);
        }
    }

    #[test]
    fn in_all_orders_nothing_below_the_applied_position_is_unapplied() {
        model(|| {
            let applied = std::array::from_fn(|_| AtomicBool::new(false));
            let log = Arc::new(Log { slots: Slots::new(), tail: AtomicU64::new(0), append: Mutex::new(0), applied });
            let writers: [_; OPERATIONS] = std::array::from_fn(|_| {
                let log = log.clone();
                thread::spawn(move || log.write())
            });
            let below = log.slots.applied(&log.tail) as usize;
            // Relaxed, since reading the position must be enough to see these.
            assert!(log.applied[..below].iter().all(|applied| applied.load(Ordering::Relaxed)), "below {below}");
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            assert_eq!(log.slots.applied(&log.tail) as usize, OPERATIONS);
        });
    }
}
