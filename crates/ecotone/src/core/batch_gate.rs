//! Admission of batches: a gate that keeps batches from blocking each other (`docs/design/waiting.md`, rule 3).
//!
//! A batch is admitted record by record. In between it waits for memory that write-out frees. Several half-admitted
//! batches could hold all memory between them; none of it is written, so none could be freed. So all batches in
//! admission together take at most a sixteenth of the memory budget. A larger batch is admitted alone. Batches enter in
//! the order of their arrival.

use std::collections::VecDeque;

use ecotone_engine::contract::Operation;
use ecotone_substrate::{
    bug,
    lock_rank::{self, HeldRank, LockRank, Wait},
    scheduler::Scheduler,
};
use ecotone_sys::primitive::Mutex;

use crate::Result;

/// Divisor of the budget: batches in admission may take a sixteenth of it.
const PART: usize = 16;
/// Upper bound of the memory that a record takes beyond its key and value, in any engine, in bytes.
const OVERHEAD: usize = 96;

/// The gate.
#[derive(Debug)]
pub(crate) struct BatchGate {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Memory that the batches inside the gate take, in bytes.
    held: usize,
    /// The numbers of the waiting batches, in order.
    waiting: VecDeque<u64>,
    next: u64,
}

/// A batch inside the gate. Dropping the guard lets the batch out.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    gate: &'a BatchGate,
    scheduler: &'a Scheduler,
    cost: usize,
    _held: HeldRank,
}

/// A waiting batch. Dropping the guard removes the batch from the queue.
struct Waiting<'a> {
    gate: &'a BatchGate,
    number: u64,
}

impl BatchGate {
    /// A gate for a memory budget of `budget` bytes.
    pub(crate) fn new(budget: usize) -> Self {
        BatchGate { limit: budget / PART, state: Mutex::default() }
    }

    /// Waits until a batch of these operations may be admitted.
    ///
    /// # Errors
    /// If the database stops writing or is closed meanwhile.
    pub(crate) fn enter<'a, 'o>(
        &'a self,
        scheduler: &'a Scheduler,
        operations: impl Iterator<Item = Operation<'o>>,
    ) -> Result<Inside<'a>> {
        lock_rank::about_to_wait(Wait::Batches);
        let cost = operations.map(cost).sum();
        let waiting = self.queue();
        scheduler.wait_until("other batches", || self.admits(waiting.number, cost))?;
        drop(waiting);
        if !self.state.lock().waiting.is_empty() {
            // The next batch may fit as well.
            scheduler.notify();
        }
        Ok(Inside { gate: self, scheduler, cost, _held: lock_rank::hold(LockRank::BatchGate) })
    }

    fn queue(&self) -> Waiting<'_> {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(number);
        Waiting { gate: self, number }
    }

    /// Admits batch `number` if it is the first in the queue and its memory fits.
    fn admits(&self, number: u64, cost: usize) -> bool {
        let mut state = self.state.lock();
        let admits = state.waiting.front() == Some(&number) && (state.held == 0 || state.held + cost <= self.limit);
        if admits {
            state.held += cost;
            state.waiting.pop_front();
        }
        admits
    }
}

/// Upper bound of the memory that an operation takes, in bytes.
fn cost(operation: Operation<'_>) -> usize {
    2 * (operation.key.len() + operation.value.map_or(0, <[u8]>::len)) + OVERHEAD
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let waits = {
            let mut state = self.gate.state.lock();
            if !bug!(KeepPlace) {
                state.held -= self.cost;
            }
            !state.waiting.is_empty()
        };
        if waits {
            self.scheduler.notify();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // An admitted batch has left the queue already.
        self.gate.state.lock().waiting.retain(|number| *number != self.number);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::{
        sync::{
            Arc, Barrier,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
    };

    use super::*;
    use crate::Error;

    fn batch(records: usize, value: &[u8]) -> impl Iterator<Item = Operation<'_>> {
        (0..records).map(move |_| Operation { key: b"key", value: Some(value) })
    }

    #[test]
    fn small_batches_go_together_and_a_large_one_alone() {
        /// The number of the batch that comes last: the fourth.
        const LATER: u64 = 3;
        let (gate, scheduler) = (BatchGate::new(16 << 20), Scheduler::threaded(1, Arc::default()));
        let (entered, leave) = (Barrier::new(3), Barrier::new(3));
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let _inside = gate.enter(&scheduler, batch(100, b"v")).unwrap();
                    entered.wait();
                    leave.wait();
                });
            }
            entered.wait();
            let large = scope.spawn(|| {
                let _inside = gate.enter(&scheduler, batch(1 << 20, b"v")).unwrap();
                inside.fetch_add(1, Ordering::SeqCst);
                assert!(!gate.admits(LATER, 1), "it is alone");
                inside.fetch_sub(1, Ordering::SeqCst);
            });
            let waits = |count: usize| {
                while gate.state.lock().waiting.len() < count {
                    thread::yield_now();
                }
            };
            waits(1);
            // A later batch waits behind it, though its own memory would fit.
            let later = scope.spawn(|| {
                let _inside = gate.enter(&scheduler, batch(1, b"v")).unwrap();
                assert_eq!(inside.load(Ordering::SeqCst), 0);
            });
            waits(2);
            leave.wait();
            later.join().unwrap();
            large.join().unwrap();
        });
        let state = gate.state.lock();
        assert_eq!((state.held, state.waiting.len()), (0, 0));
    }

    #[test]
    fn who_waits_ends_with_the_database() {
        let (gate, scheduler) = (BatchGate::new(16 << 20), Scheduler::threaded(1, Arc::default()));
        let _large = gate.enter(&scheduler, batch(1 << 20, b"v")).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| gate.enter(&scheduler, batch(1, b"v")).map(drop));
            while gate.state.lock().waiting.is_empty() {
                thread::yield_now();
            }
            scheduler.stop();
            assert!(matches!(waits.join().unwrap(), Err(Error::Closed { .. })));
        });
        assert!(gate.state.lock().waiting.is_empty());
    }
}
