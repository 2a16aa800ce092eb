//! An open-addressing table of references by hash, in leased memory: the records of a region during a compaction by
//! scan (hash.md, "Compaction").

use ecotone_substrate::{
    Result,
    memory::{Component, Memory},
    storage::Block,
};
use ecotone_sys::{chunk::Size, words::WORD};

use super::sorter::Reference;

/// Bytes of log for each slot: two thirds of the smallest record.
const LOG: u64 = 16;
/// Slots in a slab.
const IN_A_SLAB: usize = Size::Slab.bytes() / WORD;
/// An empty slot, and a slot whose reference was removed. No reference has these values, since no record is in the last
/// words of its slab.
const FREE: u64 = u64::MAX;
const REMOVED: u64 = u64::MAX - 1;

/// Slots; one is used for each reference.
#[derive(Debug)]
pub(super) struct Table {
    slabs: Vec<Block>,
    slots: usize,
}

impl Table {
    /// An empty table for the records of `log` bytes of log.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(super) fn new(memory: &Memory, log: u64) -> Result<Table> {
        let slots = ((log / LOG) as usize).next_power_of_two().max(IN_A_SLAB);
        let lease = |_| {
            let mut slab = memory.lease_essential(Component::Frames, Size::Slab)?;
            slab.fill(0xff);
            Ok(slab)
        };
        Ok(Table { slabs: (0..slots / IN_A_SLAB).map(lease).collect::<Result<_>>()?, slots })
    }

    /// Adds a reference.
    ///
    /// # Panics
    /// If there are more references than slots.
    pub(super) fn insert(&mut self, reference: Reference) {
        let first = self.first_of(reference);
        let place = (0..self.slots).map(|step| (first + step) % self.slots).find(|at| self.get(*at) == FREE);
        self.set(place.expect("there are fewer records than slots"), reference.number());
    }

    /// The slot at which a search for the references of a hash begins.
    pub(super) fn first(&self, hash: u64) -> usize {
        self.first_of(Reference::new(hash, 0))
    }

    /// The next reference that may have the hash, and its slot. `None` after the last.
    pub(super) fn next(&self, slot: &mut usize, hash: u64) -> Option<(usize, Reference)> {
        loop {
            let at = *slot;
            *slot = (at + 1) % self.slots;
            match self.get(at) {
                FREE => return None,
                REMOVED => {}
                number => {
                    let reference = Reference::of(number);
                    if reference.is_near(Reference::new(hash, 0)) {
                        return Some((at, reference));
                    }
                }
            }
        }
    }

    /// Removes the reference of a slot.
    pub(super) fn remove(&mut self, slot: usize) {
        self.set(slot, REMOVED);
    }

    /// All references.
    pub(super) fn references(&self) -> impl Iterator<Item = Reference> {
        (0..self.slots).map(|at| self.get(at)).filter(|number| *number < REMOVED).map(Reference::of)
    }

    fn first_of(&self, reference: Reference) -> usize {
        (reference.number() >> (u64::BITS - self.slots.ilog2())) as usize
    }

    fn get(&self, at: usize) -> u64 {
        let (words, _) = self.slabs[at / IN_A_SLAB].as_chunks::<WORD>();
        u64::from_le_bytes(words[at % IN_A_SLAB])
    }

    fn set(&mut self, at: usize, number: u64) {
        let (words, _) = self.slabs[at / IN_A_SLAB].as_chunks_mut::<WORD>();
        words[at % IN_A_SLAB] = number.to_le_bytes();
    }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use std::collections::BTreeSet;

    use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};

    use super::*;

    #[test]
    fn references_are_found_by_their_hashes_until_they_are_removed() {
        let (memory, mut random) = (Memory::new(16 << 20), SmallRng::seed_from_u64(1));
        let mut table = Table::new(&memory, 1 << 20).unwrap();
        // As full as it gets: the smallest records, of hashes that crowd.
        let mut there = BTreeSet::new();
        for place in 0..(1 << 20) / 24_u64 {
            let hash = random.next_u64() & if random.random() { u64::MAX } else { 0xff << 56 | 7 << 30 };
            table.insert(Reference::new(hash, place));
            there.insert((hash, place));
        }
        let found = |table: &Table, hash: u64| {
            let (mut slot, mut places) = (table.first(hash), BTreeSet::new());
            while let Some((_, reference)) = table.next(&mut slot, hash) {
                places.insert(reference.place());
            }
            places
        };
        for (hash, place) in there.clone() {
            if random.random_range(0..10) == 0 {
                let mut slot = table.first(hash);
                let (at, _) =
                    std::iter::from_fn(|| table.next(&mut slot, hash)).find(|(_, r)| r.place() == place).unwrap();
                table.remove(at);
                there.remove(&(hash, place));
                assert!(!found(&table, hash).contains(&place));
            }
        }
        for (hash, place) in there.iter().step_by(17) {
            assert!(found(&table, *hash).contains(place));
        }
        let all: BTreeSet<u64> = table.references().map(Reference::place).collect();
        let left: BTreeSet<u64> = there.iter().map(|(_, place)| *place).collect();
        assert_eq!(all, left);
    }
}
