//! Who may admit a batch now: so that batches never hold between them the room that each of them waits for
//! (`docs/design/waiting.md`, rule 3).
//!
//! A batch is admitted record by record, and waits in between for room that write-out makes. Several that are admitted
//! in part could hold all room there is, none of it written and so none of it to be made free. So together they take at
//! most a sixteenth of the memory budget while they are being admitted. A larger one is admitted alone. They come in
//! the order in which they asked.

use std::collections::VecDeque;

use ecotone_engines::engine::Operation;
use ecotone_substrate::{
    bug,
    held::{self, Held, Kind, Wait},
    scheduler::Scheduler,
};
use ecotone_sys::primitive::Mutex;

use crate::Result;

/// The part of the budget that batches may take while they are being admitted.
const PART: usize = 16;
/// What a record takes beyond its key and value at most, in any engine, in bytes.
const OVERHEAD: usize = 96;

/// Lets batches in.
#[derive(Debug)]
pub(crate) struct BatchGate {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What those that are inside take, in bytes.
    held: usize,
    /// Those that wait, and the number of the next one.
    waiting: VecDeque<u64>,
    next: u64,
}

/// A batch inside of the gate, until it is dropped.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    gate: &'a BatchGate,
    scheduler: &'a Scheduler,
    cost: usize,
    _held: Held,
}

/// A batch that waits, until it is dropped.
struct Waiting<'a> {
    gate: &'a BatchGate,
    number: u64,
}

impl BatchGate {
    /// For a memory budget in bytes.
    pub(crate) fn new(budget: usize) -> Self {
        BatchGate { limit: budget / PART, state: Mutex::default() }
    }

    /// Waits until a batch of these operations may be admitted.
    ///
    /// # Errors
    /// If writing stops meanwhile, or the database is closed.
    pub(crate) fn enter<'a, 'o>(
        &'a self,
        scheduler: &'a Scheduler,
        operations: impl Iterator<Item = Operation<'o>>,
    ) -> Result<Inside<'a>> {
        held::about_to_wait(Wait::Batches);
        let cost = operations.map(cost).sum();
        let waiting = self.queue();
        scheduler.wait_until("other batches", || self.admits(waiting.number, cost))?;
        drop(waiting);
        if !self.state.lock().waiting.is_empty() {
            // The next one may come in as well.
            scheduler.notify();
        }
        Ok(Inside { gate: self, scheduler, cost, _held: held::hold(Kind::BatchGate) })
    }

    fn queue(&self) -> Waiting<'_> {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(number);
        Waiting { gate: self, number }
    }

    /// Lets the first of those that wait in, if it is this one and there is room for it.
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

/// What an operation takes of memory at most, in bytes.
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
        // It is not there any more if it was let in.
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
        time::Duration,
    };

    use super::*;
    use crate::Error;

    fn batch(records: usize, value: &[u8]) -> impl Iterator<Item = Operation<'_>> {
        (0..records).map(move |_| Operation { key: b"key", value: Some(value) })
    }

    #[test]
    fn small_batches_go_together_and_a_large_one_alone() {
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
                thread::sleep(Duration::from_millis(50));
                inside.fetch_sub(1, Ordering::SeqCst);
            });
            let waits = |count: usize| {
                while gate.state.lock().waiting.len() < count {
                    thread::yield_now();
                }
            };
            waits(1);
            // One that came later waits for it, though there is room.
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
