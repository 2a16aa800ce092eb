//! How hot log and copies divide the frames of a keyspace: the one that would have saved more with a little more memory
//! gets it from the other (decision 9, "Split").
//!
//! What more copies would have saved is told by the history of misses, what a longer hot log would have saved by a
//! history of what compaction took last.

use std::sync::atomic::{AtomicU64, Ordering};

use ecotone_substrate::{
    history::History,
    memory::{Component, Memory},
};
use ecotone_sys::primitive::Mutex;

/// Parts in which the frames are counted, how many the hot log has at first, and the fewest that it has, and copies
/// have. What compaction and folds work with is taken from copies for a while, since these can leave at once.
const PARTS: u64 = 64;
const FIRST: u64 = 28;
const LEAST: u64 = 2;
const LEAST_COPIES: u64 = 16;
/// Frames of a keyspace for each block of the history.
const FRAMES: usize = 2048;
/// One hash in so many is remembered, and counts for all.
const SAMPLE: u64 = 16;
/// What is saved: a read of a record, and the part that a record takes in writing a delta and a base. In fifths of a
/// read.
const READ: u64 = 5;
const WRITE: u64 = 1;
/// Bytes that a record of a hundred takes in memory, as a copy or in the hot log, index included.
const BYTES: u64 = 132;
/// Uses from one look at the gains to the next.
const PERIOD: u64 = 1 << 16;
/// By how many percent the one gain is above the other if memory is to change hands.
const MARGIN: u64 = 110;

/// What the hot log has, and what it would have gained.
#[derive(Debug)]
pub(super) struct Split {
    hot: AtomicU64,
    /// Of the hashes that compaction took last.
    taken: History,
    /// Bytes of a hundred that compaction took, and that lived.
    alive_percent: AtomicU64,
    /// What a longer hot log would have saved.
    gain: AtomicU64,
    uses: AtomicU64,
    /// What the last look told.
    wish: Mutex<Wish>,
}

/// Who should get more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Wish {
    #[default]
    Neither,
    Hot,
    Copies,
}

/// What the history knows a hash by.
fn parts(hash: u64) -> (u32, u16) {
    ((hash >> u32::BITS) as u32, (hash >> 8) as u16)
}

impl Split {
    /// For a keyspace that has so many frames at most.
    pub(super) fn new(memory: &Memory, frames: usize) -> Split {
        let blocks = frames / FRAMES + 1;
        let mut taken = History::default();
        // Without it nothing speaks for the hot log but what is written.
        let blocks = (0..blocks).map_while(|_| memory.lease(Component::HashIndex, History::BLOCK));
        blocks.for_each(|block| taken.add(block));
        let [hot, alive_percent, gain, uses] = [FIRST, 100, 0, 0].map(AtomicU64::new);
        Split { hot, taken, alive_percent, gain, uses, wish: Mutex::default() }
    }

    /// How many of so many frames are the hot log's.
    pub(super) fn hot(&self, frames: u64) -> u64 {
        frames * self.hot.load(Ordering::Relaxed) / PARTS
    }

    /// How many of so many frames are the hot log's where there are no copies. What compaction and folds work with must
    /// be free, since nothing else can leave at once.
    pub(super) fn most(frames: u64) -> u64 {
        frames * (PARTS - LEAST_COPIES) / PARTS
    }

    /// Compaction takes a record.
    pub(super) fn take(&self, hash: u64) {
        if hash.is_multiple_of(SAMPLE) {
            let (bucket, tag) = parts(hash);
            self.taken.note(bucket, tag);
        }
    }

    /// Compaction took so many bytes of the hot log, of which so many lived.
    pub(super) fn took(&self, bytes: u64, alive: u64) {
        self.alive_percent.store((alive * 100 / bytes.max(1)).clamp(1, 100), Ordering::Relaxed);
    }

    /// A key was read from a file that the hot log may have had a while ago.
    pub(super) fn missed_read(&self, hash: u64) {
        self.missed(hash, READ);
    }

    /// A record was appended whose key the hot log may have had a while ago.
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

    /// Counts uses, and decides once in a period: whether it did. `copies` tells how many misses the history of copies
    /// remembers, and how many of the misses since it was asked last it had remembered.
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
        // For each byte that either would have had more.
        let bytes_of_hot =
            self.taken.bytes() as u64 / 2 * SAMPLE * BYTES * 100 / self.alive_percent.load(Ordering::Relaxed);
        // Large budgets leave 64 bits.
        let gain = |hits: u64, per: u64| u128::from(hits) * u128::from(per);
        let (for_hot, for_copies) = (gain(hot, remembered * BYTES), gain(copies, bytes_of_hot));
        let wish = match () {
            () if for_hot * 100 > for_copies * u128::from(MARGIN) => Wish::Hot,
            () if for_copies * 100 > for_hot * u128::from(MARGIN) => Wish::Copies,
            () => Wish::Neither,
        };
        let mut last = self.wish.lock();
        if std::mem::replace(&mut *last, wish) == wish {
            self.follow(wish);
        }
    }

    fn follow(&self, wish: Wish) {
        let hot = self.hot.load(Ordering::Relaxed);
        let next = match wish {
            Wish::Hot => hot + 1,
            Wish::Copies => hot - 1,
            Wish::Neither => hot,
        };
        self.hot.store(next.clamp(LEAST, PARTS - LEAST_COPIES), Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use super::*;

    const FRAMES_OF_ALL: u64 = 640;
    const REMEMBERS: u64 = 1 << 12;

    fn split() -> Split {
        Split::new(&Memory::new(4 << 20), FRAMES_OF_ALL as usize)
    }

    /// A period in which so many reads miss what compaction took, and so many what copies had.
    fn period(split: &Split, taken: u64, copied: u64) {
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
        assert_eq!(split.hot(FRAMES_OF_ALL), FRAMES_OF_ALL * LEAST / PARTS);
    }

    #[test]
    fn what_both_would_save_is_compared_by_the_byte() {
        let split = split();
        let first = split.hot(FRAMES_OF_ALL);
        // As many tags as there are for copies, each for sixteen hashes: the same gain for sixteen times the memory.
        let tags = split.taken.bytes() as u64 / 2;
        let equal = 100 * SAMPLE * REMEMBERS / (tags * SAMPLE);
        (0..4).for_each(|_| period(&split, 100, equal));
        assert_eq!(split.hot(FRAMES_OF_ALL), first, "neither would save more");
        // Where one byte of four lives, four times the memory is needed for the same.
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
