//! How hot log and copies divide the frames of a keyspace: the one that would have saved more with a little more memory gets it from the other (decision 9, "Split").
//!
//! What more copies would have saved is told by the history of misses, what a longer hot log would have saved by a history of what compaction took last.

use std::sync::atomic::{AtomicU64, Ordering};

use ecotone_substrate::{
    history::History,
    memory::{Component, Memory},
};
use ecotone_sys::primitive::Mutex;

/// Parts in which the frames are counted, how many the hot log has at first, and the fewest that either has.
const PARTS: u64 = 64;
const FIRST: u64 = 28;
const LEAST: u64 = 2;
/// Frames of a keyspace for each block of the history.
const FRAMES: usize = 2048;
/// One hash in so many is remembered, and counts for all.
const SAMPLE: u64 = 16;
/// What is saved: a read of a record, and the part that a record takes in writing a delta and a base. In fifths of a read.
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
        if hash.is_multiple_of(SAMPLE) {
            self.missed(hash, WRITE);
        }
    }

    fn missed(&self, hash: u64, gain: u64) {
        let (bucket, tag) = parts(hash);
        if hash.is_multiple_of(SAMPLE) && self.taken.knows(bucket, tag) {
            self.gain.fetch_add(gain * SAMPLE, Ordering::Relaxed);
        }
    }

    /// Counts uses, and decides once in a period. `copies` tells how many misses the history of copies remembers, and how many of the misses since it was asked last
    /// it had remembered.
    pub(super) fn count_uses(&self, uses: u64, copies: impl FnOnce() -> (u64, u64)) {
        let before = self.uses.fetch_add(uses, Ordering::Relaxed);
        if (before + uses) / PERIOD > before / PERIOD {
            let (remembers, remembered) = copies();
            self.decide(remembers, remembered * READ);
        }
    }

    fn decide(&self, remembered: u64, copies: u64) {
        let hot = self.gain.swap(0, Ordering::Relaxed);
        // For each byte that either would have had more.
        let bytes_of_hot = self.taken.bytes() as u64 / 2 * SAMPLE * BYTES * 100 / self.alive_percent.load(Ordering::Relaxed);
        let (for_hot, for_copies) = (hot * remembered * BYTES, copies * bytes_of_hot);
        let wish = match () {
            () if for_hot * 100 > for_copies * MARGIN => Wish::Hot,
            () if for_copies * 100 > for_hot * MARGIN => Wish::Copies,
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
        self.hot.store(next.clamp(LEAST, PARTS - LEAST), Ordering::Relaxed);
    }
}
