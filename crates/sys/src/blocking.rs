//! The driver for systems without io_uring: `pread` and `pwrite`, one after the other, on the thread that asks for
//! completions.

use crate::transfer::{Driver, ENTRIES, Finished, Transfer};

/// A queue that does its transfers when it is asked for completions. Submitted transfers are done even if the queue is
/// dropped.
#[derive(Debug)]
pub struct Blocking<C> {
    waiting: Vec<Transfer<C>>,
    ready: Vec<Finished<C>>,
    is_for_once: bool,
}

impl<C> Default for Blocking<C> {
    fn default() -> Self {
        Blocking { waiting: Vec::new(), ready: Vec::new(), is_for_once: false }
    }
}

impl<C> Blocking<C> {
    /// A temporary queue that stands in for a better driver; it is not kept.
    pub fn for_once() -> Self {
        Blocking { waiting: Vec::new(), ready: Vec::new(), is_for_once: true }
    }

    fn work(&mut self) {
        self.ready.extend(self.waiting.drain(..).map(perform));
    }
}

fn perform<C>(mut transfer: Transfer<C>) -> Finished<C> {
    let Transfer { file, write, offset, block, len, .. } = &mut transfer;
    let result = match write {
        true => file.write_at(&block[..*len], *offset).map(|()| *len),
        false => file.read_at(&mut block[..*len], *offset),
    };
    Finished { transfer, result }
}

impl<C: Send + std::fmt::Debug> Driver<C> for Blocking<C> {
    fn submit(&mut self, transfer: Transfer<C>) {
        assert!(transfer.len <= transfer.block.len(), "a transfer longer than its block");
        if self.waiting.len() == ENTRIES {
            self.work();
        }
        self.waiting.push(transfer);
    }

    /// Does all waiting transfers, whatever `at_least` is.
    fn complete(&mut self, _at_least: usize, done: &mut Vec<Finished<C>>) {
        self.work();
        done.append(&mut self.ready);
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.ready.len()
    }

    fn is_sound(&self) -> bool {
        !self.is_for_once
    }
}

impl<C> Drop for Blocking<C> {
    fn drop(&mut self) {
        self.work();
    }
}
