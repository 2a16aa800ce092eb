//! Which deltas may have a key, for one partition: buckets by hash, of slots with eight bits of tag and eight of delta
//! (decision 9, "The cold tier").
//!
//! A bucket's slots stand one behind the other, those of younger deltas first, and buckets follow each other by hash. A
//! line of 64 bytes has the place of the first slot of 60 buckets, and the number of slots of each; so a search looks
//! at one line, and at one or two of slots. A map never changes. It is made of the one before and of the tags of deltas
//! that have come, all in the order of hashes, in one pass.

mod build;
mod line;

use std::ops::Range;

use ecotone_substrate::{limits::PAGE, table::Pages};

use super::{stretch::Stretch, tags::upper};

/// Slots that a bucket should have when a fold is due.
const MEAN: u64 = 6;
/// Bytes of a slot.
const SLOT: usize = 2;
/// Bytes of a line, and how many buckets it is for.
const LINE: usize = 64;
const BUCKETS: u64 = LINE as u64 - 4;
/// The number of slots that says that there are too many: any delta may have the keys of this bucket.
const CROWDED: u8 = u8::MAX;

/// How old deltas are, by their slots' numbers: 0 for one that does not count, and more for younger ones.
pub(super) type Ages = [u8; 256];

/// Slots that are still to be looked at for a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Matches {
    /// These, if they have this tag.
    Slots(Range<u64>, u8),
    /// All deltas that count are to be looked at.
    All,
}

/// The map of one partition.
#[derive(Debug)]
pub(super) struct DeltaMap {
    stretch: Stretch,
    buckets: u64,
    /// Lines, then slots.
    pages: Pages,
    slots: u64,
}

/// What stands for a hash in a slot; its other bits choose the bucket.
#[inline]
fn tag(hash: u64) -> u8 {
    (hash >> 24) as u8
}

/// Which of the buckets has a hash: by the bits that a tag keeps of it, since maps are made of tags.
#[inline]
fn bucket(stretch: Stretch, buckets: u64, hash: u64) -> u64 {
    stretch.part(upper(hash), buckets)
}

/// Buckets for a partition of which deltas will have so many records.
pub(super) fn buckets_for(records: u64) -> u64 {
    records.div_ceil(MEAN).max(1)
}

impl DeltaMap {
    /// Its slots.
    pub(super) fn len(&self) -> u64 {
        self.slots
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE as u64
    }

    /// Its buckets.
    pub(super) fn buckets(&self) -> u64 {
        self.buckets
    }

    /// Where deltas are named that may have keys of this hash.
    #[inline]
    pub(super) fn matches(&self, hash: u64) -> Matches {
        match self.range(bucket(self.stretch, self.buckets, hash)) {
            Some(slots) => Matches::Slots(slots, tag(hash)),
            None => Matches::All,
        }
    }

    /// The next younger one of these deltas; `None` after the last, and if all are to be looked at.
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

    /// Where a slot stands.
    fn place(&self, slot: u64) -> (usize, usize) {
        let at = self.buckets.div_ceil(BUCKETS) as usize * LINE + slot as usize * SLOT;
        (at / PAGE, at % PAGE)
    }
}
