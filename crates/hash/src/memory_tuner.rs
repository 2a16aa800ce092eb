//! Divides the frames of a keyspace between hot log and read cache: the one that would have saved more with a little
//! more memory gets it from the other (hash.md, "Memory tuner").
//!
//! Two ghost lists estimate the gains. The one of the read cache remembers its misses; the one of the hot log remembers
//! the keys that compaction took last.

use std::sync::atomic::{AtomicU64, Ordering};

use ecotone_substrate::{
    ghost_list::GhostList,
    memory::{Component, Memory},
};
use ecotone_sys::primitive::Mutex;

/// The frames are divided into `PARTS` parts. `FIRST_HOT` is the initial share of the hot log, `LEAST_HOT` its minimum,
/// and `LEAST_COPIES` the minimum of the read cache. Compaction and merges borrow their memory from the read cache,
/// since its entries can be evicted at once.
const PARTS: u64 = 64;
const FIRST_HOT: u64 = 28;
const LEAST_HOT: u64 = 2;
const LEAST_COPIES: u64 = 16;
/// Frames of a keyspace for each block of the ghost list.
const FRAMES: usize = 2048;
/// One hash in this many is sampled, and counts for all.
const SAMPLE: u64 = 16;
/// The savings, in fifths of a read: a read of a record, and the share of a record in writing a delta and a base.
const READ: u64 = 5;
const WRITE: u64 = 1;
/// Memory of a record of a hundred bytes, in the read cache or in the hot log, including its index entry.
const RECORD_BYTES: u64 = 132;
/// Uses from one decision to the next.
const PERIOD: u64 = 1 << 16;
/// Memory moves if one gain is at least this percentage of the other.
const MARGIN: u64 = 110;

/// The share of the hot log, and the statistics that tune it.
#[derive(Debug)]
pub(super) struct MemoryTuner {
    hot: AtomicU64,
    /// Ghost list of the hashes that compaction took last.
    taken: GhostList,
    /// Percentage of live bytes in the last compaction.
    alive_percent: AtomicU64,
    /// Estimated savings of a larger hot log.
    gain: AtomicU64,
    uses: AtomicU64,
    /// The preference of the last decision.
    wish: Mutex<Preference>,
}

/// The side that should get more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Preference {
    #[default]
    Neither,
    Hot,
    Copies,
}

/// The ghost list's bucket and tag of a hash.
fn parts(hash: u64) -> (u32, u16) {
    ((hash >> u32::BITS) as u32, (hash >> 8) as u16)
}

impl MemoryTuner {
    /// A tuner for a keyspace of at most `frames` frames.
    pub(super) fn new(memory: &Memory, frames: usize) -> MemoryTuner {
        let blocks = frames / FRAMES + 1;
        let mut taken = GhostList::default();
        // Without it the ghost list is empty, and no miss counts for the hot log.
        let blocks = (0..blocks).map_while(|_| memory.lease(Component::HashIndex, GhostList::BLOCK));
        blocks.for_each(|block| taken.add(block));
        let [hot, alive_percent, gain, uses] = [FIRST_HOT, 100, 0, 0].map(AtomicU64::new);
        MemoryTuner { hot, taken, alive_percent, gain, uses, wish: Mutex::default() }
    }

    /// The hot log's share of `frames` frames.
    pub(super) fn hot(&self, frames: u64) -> u64 {
        frames * self.hot.load(Ordering::Relaxed) / PARTS
    }

    /// The hot log's share of `frames` frames without a read cache. The memory that compaction and merges need stays
    /// free, since nothing else can be evicted at once.
    pub(super) fn most(frames: u64) -> u64 {
        frames * (PARTS - LEAST_COPIES) / PARTS
    }

    /// Records that compaction takes a record.
    pub(super) fn take(&self, hash: u64) {
        if hash.is_multiple_of(SAMPLE) {
            let (bucket, tag) = parts(hash);
            self.taken.note(bucket, tag);
        }
    }

    /// Records a compaction of `bytes` bytes of hot log, of which `alive` were live.
    pub(super) fn took(&self, bytes: u64, alive: u64) {
        self.alive_percent.store((alive * 100 / bytes.max(1)).clamp(1, 100), Ordering::Relaxed);
    }

    /// Records a read from a file. A larger hot log may have had the key.
    pub(super) fn missed_read(&self, hash: u64) {
        self.missed(hash, READ);
    }

    /// Records an append. A larger hot log may have had an older record of the key.
    #[inline]
    pub(super) fn missed_write(&self, hash: u64) {
        self.missed(hash, WRITE);
    }

    #[inline]
    fn missed(&self, hash: u64, gain: u64) {
        let (bucket, tag) = parts(hash);
        if hash.is_multiple_of(SAMPLE) && self.taken.knows(bucket, tag) {
            self.gain.fetch_add(gain * SAMPLE, Ordering::Relaxed);
        }
    }

    /// Counts uses, and decides once in a period. Returns whether it decided. `copies` returns the number of misses
    /// that the ghost list of the read cache holds, and the number of its hits since the last call.
    pub(super) fn count_uses(&self, uses: u64, copies: impl FnOnce() -> (u64, u64)) -> bool {
        let before = self.uses.fetch_add(uses, Ordering::Relaxed);
        let ends = (before + uses) / PERIOD > before / PERIOD;
        if ends {
            let (remembers, remembered) = copies();
            self.decide(remembers, remembered * READ);
        }
        ends
    }

    fn decide(&self, remembered: u64, copies: u64) {
        let hot = self.gain.swap(0, Ordering::Relaxed);
        // The gain per byte that either would have had more.
        let bytes_of_hot =
            self.taken.bytes() as u64 / 2 * SAMPLE * RECORD_BYTES * 100 / self.alive_percent.load(Ordering::Relaxed);
        // Products of large budgets exceed 64 bits.
        let gain = |hits: u64, per: u64| u128::from(hits) * u128::from(per);
        let (for_hot, for_copies) = (gain(hot, remembered * RECORD_BYTES), gain(copies, bytes_of_hot));
        let wish = match () {
            () if for_hot * 100 > for_copies * u128::from(MARGIN) => Preference::Hot,
            () if for_copies * 100 > for_hot * u128::from(MARGIN) => Preference::Copies,
            () => Preference::Neither,
        };
        let mut last = self.wish.lock();
        if std::mem::replace(&mut *last, wish) == wish {
            self.follow(wish);
        }
    }

    fn follow(&self, wish: Preference) {
        let hot = self.hot.load(Ordering::Relaxed);
        let next = match wish {
            Preference::Hot => hot + 1,
            Preference::Copies => hot - 1,
            Preference::Neither => hot,
        };
        self.hot.store(next.clamp(LEAST_HOT, PARTS - LEAST_COPIES), Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use super::*;

    const FRAMES_OF_ALL: u64 = 640;
    const REMEMBERS: u64 = 1 << 12;

    fn split() -> MemoryTuner {
        MemoryTuner::new(&Memory::new(4 << 20), FRAMES_OF_ALL as usize)
    }

    /// A period in which `taken` reads hit the ghost list of compaction, and `copied` reads that of the read cache.
    fn period(split: &MemoryTuner, taken: u64, copied: u64) {
        let hashes = || (1..=taken).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) / SAMPLE * SAMPLE);
        hashes().for_each(|hash| split.take(hash));
        hashes().for_each(|hash| split.missed_read(hash));
        split.count_uses(PERIOD, || (REMEMBERS, copied));
    }

    #[test]
    fn memory_goes_to_the_one_that_would_save_more_and_leaves_the_other_some() {
        let split = split();
        let first = split.hot(FRAMES_OF_ALL);
        period(&split, 100, 0);
        assert_eq!(split.hot(FRAMES_OF_ALL), first, "what was so once may be chance");
        (0..2).for_each(|_| period(&split, 100, 0));
        assert_eq!(split.hot(FRAMES_OF_ALL), first + 2 * FRAMES_OF_ALL / PARTS);
        (0..PARTS).for_each(|_| period(&split, 100, 0));
        assert_eq!(split.hot(FRAMES_OF_ALL), FRAMES_OF_ALL * (PARTS - LEAST_COPIES) / PARTS);
        (0..2 * PARTS).for_each(|_| period(&split, 0, 100));
        assert_eq!(split.hot(FRAMES_OF_ALL), FRAMES_OF_ALL * LEAST_HOT / PARTS);
    }

    #[test]
    fn what_both_would_save_is_compared_by_the_byte() {
        let split = split();
        let first = split.hot(FRAMES_OF_ALL);
        // As many tags as the read cache has, each for sixteen hashes: the same gain for sixteen times the memory.
        let tags = split.taken.bytes() as u64 / 2;
        let equal = 100 * SAMPLE * REMEMBERS / (tags * SAMPLE);
        (0..4).for_each(|_| period(&split, 100, equal));
        assert_eq!(split.hot(FRAMES_OF_ALL), first, "neither would save more");
        // If one byte of four is live, the same gain needs four times the memory.
        split.took(400, 100);
        (0..4).for_each(|_| period(&split, 100, equal));
        assert!(split.hot(FRAMES_OF_ALL) < first);
    }

    #[test]
    fn what_is_neither_taken_nor_sampled_counts_for_nothing() {
        let split = split();
        split.take(SAMPLE + 1);
        [SAMPLE + 1, 2 * SAMPLE].into_iter().for_each(|hash| split.missed_read(hash));
        split.missed_write(3 * SAMPLE);
        assert_eq!(split.gain.load(Ordering::Relaxed), 0);
        split.take((3 * SAMPLE) << u32::BITS);
        split.missed_write((3 * SAMPLE) << u32::BITS);
        assert_eq!(split.gain.load(Ordering::Relaxed), WRITE * SAMPLE);
    }
}
