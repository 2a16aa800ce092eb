//! The delta map of a partition says which deltas may have a key. It is a hash table of buckets; a slot has eight bits
//! of tag and eight bits that name a delta (hash.md, "Cold tier").
//!
//! Slots of a bucket are contiguous, those of younger deltas first, and buckets follow each other in hash order. A line
//! of 64 bytes has the position of the first slot of 60 buckets, and the number of slots of each, so a search reads one
//! line, and one or two lines of slots. A map never changes. The next one is built from the previous one and the tags
//! of new deltas, all in hash order, in one pass.

mod build;
mod line;

use std::ops::Range;

use ecotone_substrate::{limits::PAGE, table::Pages};

use super::{hash_range::HashRange, tags::upper};

/// Mean slots of a bucket when a merge is due.
const MEAN: u64 = 6;
/// Bytes of a slot.
const SLOT: usize = 2;
/// Bytes of a line, and its number of buckets.
const LINE: usize = 64;
const BUCKETS: u64 = LINE as u64 - 4;
/// The count of a crowded bucket, which has too many slots: any delta may have its keys.
const CROWDED: u8 = u8::MAX;

/// Ages of deltas, by their numbers in slots: 0 for a delta that is not visible, and more for younger ones.
pub(super) type Ages = [u8; 256];

/// Slots that are still to be searched for a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Matches {
    /// These slots, if they have this tag.
    Slots(Range<u64>, u8),
    /// All visible deltas have to be searched.
    All,
}

/// The map of one partition.
#[derive(Debug)]
pub(super) struct DeltaMap {
    hash_range: HashRange,
    buckets: u64,
    /// Lines, then slots.
    pages: Pages,
    slots: u64,
}

/// The bits of a hash in a slot; other bits choose the bucket.
#[inline]
fn tag(hash: u64) -> u8 {
    (hash >> 24) as u8
}

/// The bucket of a hash. It depends only on bits that tags keep, since maps are built from tags.
#[inline]
fn bucket(hash_range: HashRange, buckets: u64, hash: u64) -> u64 {
    hash_range.part(upper(hash), buckets)
}

/// Buckets for a partition whose deltas will have `records` records.
pub(super) fn buckets_for(records: u64) -> u64 {
    records.div_ceil(MEAN).max(1)
}

impl DeltaMap {
    /// Number of slots.
    pub(super) fn len(&self) -> u64 {
        self.slots
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE as u64
    }

    /// Number of buckets.
    pub(super) fn buckets(&self) -> u64 {
        self.buckets
    }

    /// The slots of deltas that may have keys of this hash.
    #[inline]
    pub(super) fn matches(&self, hash: u64) -> Matches {
        match self.range(bucket(self.hash_range, self.buckets, hash)) {
            Some(slots) => Matches::Slots(slots, tag(hash)),
            None => Matches::All,
        }
    }

    /// The next of these deltas, the youngest first; `None` after the last, and if all have to be searched.
    #[inline]
    pub(super) fn next(&self, matches: &mut Matches) -> Option<u8> {
        let Matches::Slots(slots, wanted) = matches else { return None };
        slots.map(|slot| self.slot(slot)).find_map(|[tag, delta]| (tag == *wanted).then_some(delta))
    }

    /// The slots of a bucket; `None` if it is crowded.
    #[inline]
    fn range(&self, bucket: u64) -> Option<Range<u64>> {
        let place = (bucket % BUCKETS) as usize;
        let (first, counts) = self.line((bucket / BUCKETS) as usize).split_first_chunk().expect("a line is longer");
        let before: u32 =
            counts[..place].iter().filter(|count| **count != CROWDED).map(|count| u32::from(*count)).sum();
        let start = u64::from(u32::from_le_bytes(*first)) + u64::from(before);
        (counts[place] != CROWDED).then(|| start..start + u64::from(counts[place]))
    }

    #[inline]
    fn line(&self, number: usize) -> &[u8; LINE] {
        self.pages.get(number * LINE / PAGE, number * LINE % PAGE)
    }

    #[inline]
    fn slot(&self, slot: u64) -> [u8; SLOT] {
        let (page, at) = self.place(slot);
        *self.pages.get(page, at)
    }

    /// Page and offset of a slot.
    fn place(&self, slot: u64) -> (usize, usize) {
        let at = self.buckets.div_ceil(BUCKETS) as usize * LINE + slot as usize * SLOT;
        (at / PAGE, at % PAGE)
    }
}
