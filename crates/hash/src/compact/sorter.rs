//! Sorts references to records into the order of a run. A reference has eight bytes, in leased memory (hash.md,
//! "Compaction").

use std::{cmp::Reverse, collections::BinaryHeap};

use ecotone_substrate::{
    Result,
    memory::{Component, Memory},
    storage::Block,
};
use ecotone_sys::{chunk::Size, words::WORD};

/// Bits of a place.
const PLACE_BITS: u32 = 21;
/// Places are below this.
pub(super) const PLACES: u64 = 1 << PLACE_BITS;
/// References in a slab.
const IN_A_SLAB: usize = Size::Slab.bytes() / WORD;

/// Names a record by the upper 43 bits of its hash and its place. Of the records of one key the younger has the greater
/// place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reference(u64);

impl Reference {
    pub(super) fn new(hash: u64, place: u64) -> Reference {
        debug_assert!(place < PLACES);
        Reference(hash >> PLACE_BITS << PLACE_BITS | place)
    }

    pub(super) fn place(self) -> u64 {
        self.0 & (PLACES - 1)
    }

    /// Whether both may have the same hash.
    pub(super) fn is_near(self, other: Reference) -> bool {
        (self.0 ^ other.0) < PLACES
    }

    /// The number that [`of`](Self::of) reads.
    pub(super) fn number(self) -> u64 {
        self.0
    }

    pub(super) fn of(number: u64) -> Reference {
        Reference(number)
    }

    fn from_bytes(bytes: [u8; WORD]) -> Reference {
        Reference(u64::from_be_bytes(bytes))
    }
}

/// Collects references.
#[derive(Debug, Default)]
pub(super) struct Sorter {
    slabs: Vec<Block>,
    /// Number of references.
    count: usize,
}

impl Sorter {
    /// Adds a reference.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(super) fn push(&mut self, memory: &Memory, reference: Reference) -> Result<()> {
        if self.count == self.slabs.len() * IN_A_SLAB {
            self.slabs.push(memory.lease_essential(Component::Frames, Size::Slab)?);
        }
        let slab = self.slabs.last_mut().expect("one was just pushed, or has room");
        // Big-endian, so that byte order is number order.
        slab[self.count % IN_A_SLAB * WORD..][..WORD].copy_from_slice(&reference.0.to_be_bytes());
        self.count += 1;
        Ok(())
    }

    /// Number of references.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// All references, in order.
    pub(super) fn sorted(mut self) -> Sorted {
        let mut heads = BinaryHeap::with_capacity(self.slabs.len());
        let mut left = self.count;
        let mut counts = Vec::with_capacity(self.slabs.len());
        for (number, slab) in self.slabs.iter_mut().enumerate() {
            let count = left.min(IN_A_SLAB);
            let (references, _) = slab.as_chunks_mut::<WORD>();
            references[..count].sort_unstable();
            heads.push(Reverse((Reference::from_bytes(references[0]), number)));
            counts.push((1, count));
            left -= count;
        }
        Sorted { slabs: self.slabs, counts, heads }
    }
}

/// Merges the sorted slabs.
#[derive(Debug)]
pub(super) struct Sorted {
    slabs: Vec<Block>,
    /// For each slab, the references already taken into the heap, and all of them.
    counts: Vec<(usize, usize)>,
    heads: BinaryHeap<Reverse<(Reference, usize)>>,
}

impl Iterator for Sorted {
    type Item = Reference;

    fn next(&mut self) -> Option<Reference> {
        let Reverse((reference, number)) = self.heads.pop()?;
        let (taken, count) = &mut self.counts[number];
        if *taken < *count {
            let (references, _) = self.slabs[number].as_chunks::<WORD>();
            self.heads.push(Reverse((Reference::from_bytes(references[*taken]), number)));
            *taken += 1;
        }
        Some(reference)
    }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    use super::*;

    #[test]
    fn references_of_many_slabs_come_in_order_and_none_is_lost() {
        let memory = Memory::new(8 << 20);
        for count in [0, 1, IN_A_SLAB, 3 * IN_A_SLAB + 5] {
            let mut random = SmallRng::seed_from_u64(count as u64);
            let mut sorter = Sorter::default();
            let mut wanted: Vec<_> =
                (0..count).map(|_| Reference::new(random.next_u64(), u64::from(random.next_u32() >> 11))).collect();
            wanted.iter().for_each(|reference| sorter.push(&memory, *reference).unwrap());
            assert_eq!(memory.used(&[Component::Frames]), count.div_ceil(IN_A_SLAB) * Size::Slab.bytes());
            wanted.sort();
            assert_eq!(sorter.sorted().collect::<Vec<_>>(), wanted);
            assert_eq!(memory.used(&[Component::Frames]), 0);
        }
    }

    #[test]
    fn references_of_one_hash_are_near_and_the_older_comes_first() {
        let (hash, last) = (0x1234_5678_9abc_def0, PLACES - 1);
        let [old, young] = [3, last].map(|place| Reference::new(hash, place));
        assert!(old < young && old.is_near(young) && young.place() == last);
        let other = Reference::new(hash + PLACES, 0);
        assert!(young < other && !young.is_near(other));
    }
}
