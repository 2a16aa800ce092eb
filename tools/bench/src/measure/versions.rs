//! The newest acknowledged version of records, in bounded memory and without locks.
//!
//! A table of slots. The identity of a key chooses its slot, and the slot remembers the record that was written last. A
//! record that is evicted from its slot loses its lower bound, so its reads are checked less, never wrongly.
//!
//! A slot is two words: a name (the identity of its record) and a state. The state holds the number of versions that
//! the slot has issued, the distance of the acknowledged version from the last issued one, and the number of writes in
//! flight, of any record. Invariants:
//!
//! 1. Versions rise within a slot, whatever it remembers: every write raises `issued`, so no state comes back.
//! 2. The name changes only while nothing is in flight, and between two changes of the state: `RENAMING` is set, the
//!    name is stored, `RENAMING` is cleared. A thread that reads the same state before and after the name has read the
//!    name that belongs to the state.
//! 3. The table never delays a write, and two overlapping writes of one record may be applied in either order. So only
//!    a write that was alone in its slot from start to end raises the bound: at its end the state is the one that it
//!    left.

use std::{
    hint,
    sync::atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
    thread,
};

use ecotone_sys::prefetch::prefetch_write;

use super::value::VERSION_BITS;
use crate::error::Result;

/// Slots; together 1 MiB.
const SLOTS: usize = 1 << 16;
/// Bits of a version below the number of the run.
const RUN_SHIFT: u32 = 32;
/// Runs whose versions fit above that.
const RUNS: u32 = 1 << (VERSION_BITS - RUN_SHIFT);

/// The maximum number of writes in flight that a slot counts.
const MAX_IN_FLIGHT: u64 = (1 << 15) - 1;
/// Set while the name changes; the bit above the writes in flight.
const RENAMING: u64 = MAX_IN_FLIGHT + 1;
/// One version behind; the field has 16 bits.
const BEHIND: u64 = RENAMING << 1;
/// So far behind that no version counts as acknowledged.
const FAR_BEHIND: u64 = (1 << 16) - 1;
/// One version issued; the field has the upper 32 bits.
const ISSUED: u64 = 1 << 32;
/// How often a reader polls a slot whose name is changing before it yields its processor.
const SPINS: u32 = 100;

/// A slot. Its state holds, from the lowest bit: the writes in flight, `RENAMING`, how far behind the acknowledged
/// version is, the versions issued.
#[derive(Debug)]
#[repr(align(16))]
struct Slot {
    name: AtomicU64,
    state: AtomicU64,
}

/// The table; shared by all threads.
#[derive(Debug)]
pub(crate) struct Versions {
    base: u64,
    slots: Box<[Slot]>,
}

/// A write that has begun; passed to [`Versions::end`].
#[derive(Debug)]
#[must_use = "the write must be ended"]
pub(crate) struct Ticket {
    identity: u64,
    /// The version to write.
    pub(crate) version: u64,
    /// The state that the write left, if it was alone in its slot.
    alone: Option<u64>,
}

/// The version that the load of run `run` writes. All versions of a later run are above those of an earlier run.
pub(crate) fn base_version(run: u32) -> u64 {
    assert!(run < RUNS, "the store has seen {run} runs, which is the most that versions can tell apart");
    u64::from(run) << RUN_SHIFT
}

impl Versions {
    /// An empty table for the run `run`, for threads that each have up to `batch` writes in flight.
    pub(crate) fn new(run: u32, threads: u16, batch: u16) -> Result<Self> {
        if u64::from(threads) * u64::from(batch) > MAX_IN_FLIGHT {
            return Err(format!(
                "{threads} threads have batches of {batch}, and at most {MAX_IN_FLIGHT} writes can be in flight"
            )
            .into());
        }
        let empty = || Slot { name: AtomicU64::new(0), state: AtomicU64::new(FAR_BEHIND * BEHIND) };
        Ok(Versions { base: base_version(run), slots: (0..SLOTS).map(|_| empty()).collect() })
    }

    /// Announces a read or a write of the record with this identity.
    pub(crate) fn expect(&self, identity: u64) {
        prefetch_write(self.slot(identity));
    }

    /// Issues a version for a write of the record with this identity.
    pub(crate) fn begin(&self, identity: u64) -> Ticket {
        let slot = self.slot(identity);
        let mut state = slot.settled();
        loop {
            match slot.enter(identity, state) {
                Ok(left) => {
                    let alone = (in_flight(state) == 0).then_some(left);
                    return Ticket { identity, version: self.base + issued(left), alone };
                }
                Err(_) => state = slot.settled(),
            }
        }
    }

    /// Records that the write was acknowledged.
    pub(crate) fn end(&self, ticket: Ticket) {
        let slot = self.slot(ticket.identity);
        let raised = ticket.alone.is_some_and(|left| {
            let acknowledged = issued(left) * ISSUED;
            slot.state.compare_exchange(left, acknowledged, AcqRel, Relaxed).is_ok()
        });
        if !raised {
            // Only the lowest field changes: this write is one of those in flight.
            slot.state.fetch_sub(1, AcqRel);
        }
    }

    /// A lower bound for the version that a read of the record may return, if the read starts now; 0 if nothing is
    /// remembered.
    pub(crate) fn acknowledged(&self, identity: u64) -> u64 {
        let slot = self.slot(identity);
        let state = slot.state.load(Acquire);
        let known = slot.name.load(Acquire) == identity && state & RENAMING == 0 && behind(state) < FAR_BEHIND;
        let certain = known && slot.state.load(Relaxed) == state;
        if certain { self.base + issued(state) - behind(state) } else { 0 }
    }

    fn slot(&self, identity: u64) -> &Slot {
        // The identity is well mixed already.
        &self.slots[(identity % SLOTS as u64) as usize]
    }
}

impl Slot {
    /// The state when no name is changing; a name change takes only two stores.
    fn settled(&self) -> u64 {
        let mut spins = 0;
        loop {
            let state = self.state.load(Acquire);
            if state & RENAMING == 0 {
                return state;
            }
            spins += 1;
            if spins < SPINS { hint::spin_loop() } else { thread::yield_now() }
        }
    }

    /// Counts a write that found `state`. Returns the state that the write leaves, or as an error the current state.
    fn enter(&self, identity: u64, state: u64) -> std::result::Result<u64, u64> {
        if in_flight(state) == 0 && self.name.load(Acquire) != identity {
            let left = (issued(state) + 1) * ISSUED + FAR_BEHIND * BEHIND + 1;
            self.state.compare_exchange(state, left | RENAMING, AcqRel, Relaxed)?;
            self.name.store(identity, Release);
            self.state.store(left, Release);
            return Ok(left);
        }
        let behind = (behind(state) + 1).min(FAR_BEHIND);
        let left = (issued(state) + 1) * ISSUED + behind * BEHIND + in_flight(state) + 1;
        self.state.compare_exchange(state, left, AcqRel, Relaxed).map(|_| left)
    }
}

fn issued(state: u64) -> u64 {
    state / ISSUED
}

fn behind(state: u64) -> u64 {
    state % ISSUED / BEHIND
}

fn in_flight(state: u64) -> u64 {
    state % RENAMING
}

#[cfg(test)]
mod tests;
