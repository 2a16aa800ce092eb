//! Histories of calls that overlap: when each call began, its answer, and whether the answers can be right.
//!
//! Every key is a register of its own. [`linear`] looks for an order of the calls on one register that explains all
//! answers. [`survival`] does so for a history that a crash ended; there one point at which the log was cut must
//! explain all registers.

mod call;
mod linear;
mod registers;
mod superseded;
mod survival;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

pub(super) use self::{
    call::{Call, Caller, Mix},
    registers::Registers,
    superseded::reported_once,
    survival::{linearizable, survives},
};
use super::Verdict;
use crate::model::Level;

/// A point in time: later ones are larger, and no two calls share one.
pub(super) type Tick = u64;

/// The content of a register: the number of the write, or nothing. No two writes have the same number.
pub(super) type Value = Option<u32>;

/// Gives out moments.
#[derive(Debug)]
pub(super) struct Ticks(AtomicU64);

impl Ticks {
    /// The first moment is 1.
    pub(super) fn new() -> Self {
        Ticks::from(1)
    }

    /// A clock whose first moment is this one.
    pub(super) fn from(first: Tick) -> Self {
        Ticks(AtomicU64::new(first))
    }

    pub(super) fn next(&self) -> Tick {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// What a call did to one register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// It saw this value.
    Read(Value),
    /// It saw a value other than this, and left it.
    Refused(Value),
    /// It wrote this value.
    Write(Value),
    /// It saw `before` and wrote `after` in its place.
    Replace { before: Value, after: Value },
}

impl Act {
    fn writes(self) -> bool {
        matches!(self, Act::Write(_) | Act::Replace { .. })
    }

    /// The value of the register after this act, or nothing if the act cannot happen where the register holds `value`.
    fn happens(self, value: Value) -> Option<Value> {
        match self {
            Act::Read(seen) => (seen == value).then_some(value),
            Act::Refused(expected) => (expected != value).then_some(value),
            Act::Write(after) => Some(after),
            Act::Replace { before, after } => (before == value).then_some(after),
        }
    }
}

/// One call on one register. The events of one call have the same `invoked`, which no other call has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) register: usize,
    pub(super) act: Act,
    pub(super) invoked: Tick,
    /// `None` without an answer: the write may have happened, may happen later, or may never happen.
    pub(super) answered: Option<Tick>,
    /// The promise for a write, given by its answer or by a later sync.
    pub(super) promise: Level,
}

/// The events of a thread, and the moments at which its answered syncs and flushes began.
pub(super) type Played = (Vec<Event>, Vec<Tick>);

/// Merges the histories of threads into one.
pub(super) fn joined(histories: Vec<Verdict<Played>>) -> Verdict<Vec<Event>> {
    let (mut events, mut syncs) = (Vec::new(), Vec::new());
    for history in histories {
        let (of_thread, of_log) = history?;
        events.extend(of_thread);
        syncs.extend(of_log);
    }
    syncs.into_iter().for_each(|sync| synced(&mut events, sync));
    Ok(events)
}

/// Notes a sync or flush that was called at `before` and was answered: every write answered by then has the promise of
/// a synced write.
pub(super) fn synced(events: &mut [Event], before: Tick) {
    for event in events.iter_mut().filter(|event| event.answered.is_some_and(|answered| answered < before)) {
        event.promise = event.promise.max(Level::Sync);
    }
}
