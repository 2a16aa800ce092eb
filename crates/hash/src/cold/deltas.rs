//! The deltas of a keyspace in order, and the numbers by which slots of delta maps name them.

use std::{ops::Range, sync::Arc};

use super::{delta_map::Ages, header::RunKind, run::Run};

/// Maximum number of deltas of a keyspace.
pub(super) const MAX_DELTAS: usize = 255;

/// A delta, with its number in slots of delta maps.
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
    /// Adds a younger delta. Returns the new list and the delta's number in slots.
    ///
    /// # Panics
    /// If the run is not a delta, or not younger, or there are 255 deltas already.
    pub fn with(&self, run: Arc<Run>) -> (Deltas, u8) {
        assert!(self.list.len() < MAX_DELTAS, "there are too many deltas");
        let slot = self.free_slot();
        let (delta, from) = Delta::new(slot, run);
        assert!(self.list.last().is_none_or(|newest| newest.until <= from), "deltas follow each other");
        let list = self.list.iter().cloned().chain([delta]).collect();
        (Deltas { list }, slot)
    }

    /// Replaces the deltas at some positions by one. Returns the new list and the new delta's number in slots, which no
    /// other delta has.
    ///
    /// # Panics
    /// If the new delta does not cover the same addresses.
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

    /// The deltas visible in a partition that is merged up to address `merged_until`, oldest first.
    pub fn above(&self, merged_until: u64) -> Deltas {
        Deltas { list: self.list.iter().filter(|delta| delta.until > merged_until).cloned().collect() }
    }

    /// Number of deltas.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The runs, oldest first.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &Arc<Run>> + ExactSizeIterator {
        self.list.iter().map(|delta| &delta.run)
    }

    /// The end address of the youngest delta; 0 if there are none.
    pub fn until(&self) -> u64 {
        self.list.last().map_or(0, |delta| delta.until)
    }

    /// The end address and the run of each delta, oldest first.
    pub(super) fn ends(&self) -> impl Iterator<Item = (u64, &Arc<Run>)> {
        self.list.iter().map(|delta| (delta.until, &delta.run))
    }

    /// The numbers in slots and the runs, oldest first.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u8, &Arc<Run>)> {
        self.list.iter().map(|delta| (delta.slot, &delta.run))
    }

    /// The numbers in slots and the runs of the deltas visible in a partition that is merged up to address
    /// `merged_until`.
    pub(super) fn slots_above(&self, merged_until: u64) -> impl Iterator<Item = (u8, &Arc<Run>)> {
        self.list.iter().filter(move |delta| delta.until > merged_until).map(|delta| (delta.slot, &delta.run))
    }

    /// The delta with this number in slots.
    pub(super) fn get(&self, slot: u8) -> Option<&Arc<Run>> {
        self.list.iter().find(|delta| delta.slot == slot).map(|delta| &delta.run)
    }

    /// The youngest visible delta before a position.
    pub(super) fn before(&self, position: usize, merged_until: u64) -> Option<(usize, &Arc<Run>)> {
        let older = self.list.get(..position)?;
        let next = older.iter().rposition(|delta| delta.until > merged_until)?;
        Some((next, &older.get(next)?.run))
    }

    /// The delta at a position.
    pub(super) fn at(&self, position: usize) -> Option<&Arc<Run>> {
        self.list.get(position).map(|delta| &delta.run)
    }

    /// The ages of the deltas with records above address `merged_until`.
    pub(super) fn ages(&self, merged_until: u64) -> Ages {
        let mut ages = [0; 256];
        for (age, delta) in (1..=u8::MAX).zip(&self.list).filter(|(_, delta)| delta.until > merged_until) {
            ages[usize::from(delta.slot)] = age;
        }
        ages
    }

    /// An unused number. There are 256 numbers for 255 deltas.
    fn free_slot(&self) -> u8 {
        let mut slot = self.list.last().map_or(0, |newest| newest.slot.wrapping_add(1));
        while self.get(slot).is_some() {
            slot = slot.wrapping_add(1);
        }
        slot
    }
}
