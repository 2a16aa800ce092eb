//! Histories of calls that overlap: what was called when, what was answered, and whether that can be right.
//!
//! Every key is a register of its own. [`linear`] looks for an order of the calls on one register that explains all
//! answers; [`survival`] does so for a history that a crash ended, with one moment for all registers at which the log
//! was cut.

mod call;
mod linear;
mod registers;
mod survival;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

pub(super) use self::{
    call::{Call, Caller, Mix},
    registers::Registers,
    survival::{linearizable, survives},
};
use super::Verdict;
use crate::model::Level;

/// A moment: later ones are larger, and no two calls share one.
pub(super) type Tick = u64;

/// What a register holds: the number of the write, or nothing. No two writes have the same number.
pub(super) type Value = Option<u32>;

/// Gives moments.
#[derive(Debug)]
pub(super) struct Ticks(AtomicU64);

impl Ticks {
    /// The first moment is 1.
    pub(super) fn new() -> Self {
        Ticks::from(1)
    }

    /// With this one as the first moment.
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
    /// It saw this.
    Read(Value),
    /// It saw anything but this, and left it.
    Refused(Value),
    /// It wrote this.
    Write(Value),
    /// It saw `before` and wrote `after` in its place.
    Replace { before: Value, after: Value },
}

impl Act {
    fn writes(self) -> bool {
        matches!(self, Act::Write(_) | Act::Replace { .. })
    }

    /// What the register holds after it, if it can happen where the register holds `value`.
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
    /// `None` without an answer: a write may then have happened, or happen later, or not.
    pub(super) answered: Option<Tick>,
    /// What was promised for a write, by its answer or by a later sync.
    pub(super) promise: Level,
}

/// What a thread did, and when its syncs and flushes that were answered began.
pub(super) type Played = (Vec<Event>, Vec<Tick>);

/// The histories of threads as one.
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

/// A sync or flush that was called at `before` and answered: every write answered by then has the promise of a synced
/// one.
pub(super) fn synced(events: &mut [Event], before: Tick) {
    for event in events.iter_mut().filter(|event| event.answered.is_some_and(|answered| answered < before)) {
        event.promise = event.promise.max(Level::Sync);
    }
}
