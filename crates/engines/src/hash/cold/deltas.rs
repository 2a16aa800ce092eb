//! The deltas of a keyspace in their order, and the numbers by which the slots of delta maps name them.

use std::{ops::Range, sync::Arc};

use super::{delta_map::Ages, header::RunKind, run::Run};

/// Deltas that a keyspace can have at a time.
pub(super) const MAX_DELTAS: usize = 255;

/// A delta by the number that it has in the slots of delta maps.
#[derive(Debug, Clone)]
struct Delta {
    slot: u8,
    run: Arc<Run>,
    until: u64,
}

impl Delta {
    /// # Panics
    /// If the run is no delta.
    fn new(slot: u8, run: Arc<Run>) -> (Delta, u64) {
        let RunKind::Delta { from, until } = run.kind() else { panic!("a base is no delta") };
        (Delta { slot, run, until }, from)
    }
}

/// The deltas of a keyspace, oldest first. All partitions share them.
#[derive(Debug, Clone, Default)]
pub struct Deltas {
    list: Vec<Delta>,
}

impl Deltas {
    /// These and a younger one, and the number of that in slots.
    ///
    /// # Panics
    /// If the run is no delta, or not younger, or there are 255 already.
    pub fn with(&self, run: Arc<Run>) -> (Deltas, u8) {
        assert!(self.list.len() < MAX_DELTAS, "there are too many deltas");
        let slot = self.free_slot();
        let (delta, from) = Delta::new(slot, run);
        assert!(self.list.last().is_none_or(|newest| newest.until <= from), "deltas follow each other");
        let list = self.list.iter().cloned().chain([delta]).collect();
        (Deltas { list }, slot)
    }

    /// These with one in place of those at some positions, and its number in slots, which none of them has.
    ///
    /// # Panics
    /// If it is not of the same addresses.
    pub fn merged(&self, positions: Range<usize>, run: Option<Arc<Run>>) -> (Deltas, Option<u8>) {
        let gone = &self.list[positions.clone()];
        let slot = run.is_some().then(|| self.free_slot());
        let comes = run.zip(slot).map(|(run, slot)| Delta::new(slot, run));
        let until = gone.last().map(|delta| delta.until);
        assert!(
            comes.as_ref().is_none_or(|(delta, _)| Some(delta.until) == until),
            "a merged delta has the addresses of all"
        );
        let mut list = self.list.clone();
        list.splice(positions, comes.map(|(delta, _)| delta));
        (Deltas { list }, slot)
    }

    /// Those that count for a partition that is folded up to this address, oldest first.
    pub fn above(&self, folded: u64) -> Deltas {
        Deltas { list: self.list.iter().filter(|delta| delta.until > folded).cloned().collect() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Their runs, oldest first.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &Arc<Run>> + ExactSizeIterator {
        self.list.iter().map(|delta| &delta.run)
    }

    /// The address behind the last of the youngest; 0 if there are none.
    pub fn until(&self) -> u64 {
        self.list.last().map_or(0, |delta| delta.until)
    }

    /// The address behind the last of each, and its run, oldest first.
    pub(super) fn ends(&self) -> impl Iterator<Item = (u64, &Arc<Run>)> {
        self.list.iter().map(|delta| (delta.until, &delta.run))
    }

    /// Their numbers in slots and their runs, oldest first.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u8, &Arc<Run>)> {
        self.list.iter().map(|delta| (delta.slot, &delta.run))
    }

    /// The same of those that count for a partition that is folded up to this address.
    pub(super) fn slots_above(&self, folded: u64) -> impl Iterator<Item = (u8, &Arc<Run>)> {
        self.list.iter().filter(move |delta| delta.until > folded).map(|delta| (delta.slot, &delta.run))
    }

    /// The one that has this number in slots.
    pub(super) fn get(&self, slot: u8) -> Option<&Arc<Run>> {
        self.list.iter().find(|delta| delta.slot == slot).map(|delta| &delta.run)
    }

    /// The youngest that counts among those before a position.
    pub(super) fn before(&self, position: usize, folded: u64) -> Option<(usize, &Arc<Run>)> {
        let older = self.list.get(..position)?;
        let next = older.iter().rposition(|delta| delta.until > folded)?;
        Some((next, &older.get(next)?.run))
    }

    /// The one at a position.
    pub(super) fn at(&self, position: usize) -> Option<&Arc<Run>> {
        self.list.get(position).map(|delta| &delta.run)
    }

    /// The ages of those with records above address `folded`.
    pub(super) fn ages(&self, folded: u64) -> Ages {
        let mut ages = [0; 256];
        for (age, delta) in (1..=u8::MAX).zip(&self.list).filter(|(_, delta)| delta.until > folded) {
            ages[usize::from(delta.slot)] = age;
        }
        ages
    }

    /// A number that no delta has. There are 256 for 255 deltas.
    fn free_slot(&self) -> u8 {
        let mut slot = self.list.last().map_or(0, |newest| newest.slot.wrapping_add(1));
        while self.get(slot).is_some() {
            slot = slot.wrapping_add(1);
        }
        slot
    }
}
