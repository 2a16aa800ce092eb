//! Requests in flight, which take effect and complete in an order drawn from the seed.

use std::sync::Arc;

use ecotone_substrate::storage::{Completion, Op, Queue, Request};
use rand::RngExt;

use super::state::Shared;

/// Requests that one queue takes before a submission waits.
const ENTRIES: usize = 128;

/// A queue. A request has no effect before [`complete`](Queue::complete), so a test notices code that does not wait for
/// its writes.
#[derive(Debug)]
pub(super) struct SimQueue {
    shared: Arc<Shared>,
    waiting: Vec<Request>,
    finished: Vec<Completion>,
}

impl SimQueue {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        SimQueue { shared, waiting: Vec::new(), finished: Vec::new() }
    }

    /// A random request among those that no held page blocks. If there is none, a request that will block, or nothing.
    fn choose(&self, or_block: bool) -> Option<usize> {
        let mut state = self.shared.state();
        let blocked =
            |request: &Request| state.gates.in_the_way(request.file.id(), request.offset, request.len).is_some();
        let mut free: Vec<usize> = (0..self.waiting.len()).filter(|index| !blocked(&self.waiting[*index])).collect();
        if free.is_empty() && or_block {
            free.extend(0..self.waiting.len());
        }
        (!free.is_empty()).then(|| free[state.random.random_range(0..free.len())])
    }

    fn run(&mut self, index: usize) {
        let mut request = self.waiting.swap_remove(index);
        let result = match request.op {
            Op::Read => request.file.read(&mut request.block[..request.len], request.offset),
            Op::Write => request.file.write(&request.block[..request.len], request.offset),
        };
        self.finished.push(Completion { request, result });
    }
}

impl Queue for SimQueue {
    fn submit(&mut self, request: Request) {
        assert!(request.len <= request.block.len(), "a request is longer than its block");
        if self.waiting.len() >= ENTRIES
            && let Some(index) = self.choose(true)
        {
            self.run(index);
        }
        self.waiting.push(request);
    }

    fn complete(&mut self, at_least: usize, done: &mut Vec<Completion>) {
        let least = at_least.min(self.in_flight()).saturating_sub(self.finished.len());
        let wanted = self.shared.state().random.random_range(least..=self.waiting.len());
        for number in 0..wanted {
            match self.choose(number < least) {
                Some(index) => self.run(index),
                None => break,
            }
        }
        done.append(&mut self.finished);
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.finished.len()
    }
}

impl Drop for SimQueue {
    fn drop(&mut self) {
        while let Some(index) = self.choose(true) {
            self.run(index);
        }
    }
}
