//! Buckets for entries that found theirs full. Their memory comes by admission, a block at a time.

use std::sync::Arc;

use ecotone_sys::{
    chunk::Block,
    epoch::{Domain, Pin, Slot},
    primitive::atomic::{AtomicU64, Ordering},
    words::Words,
};

use super::bucket::{BUCKET_WORDS, Bucket};

/// The overflow buckets of a table.
#[derive(Debug)]
pub(super) struct Overflow {
    blocks: Box<[Slot<Words>]>,
    /// How many buckets there is memory for, and how many are given out.
    there: AtomicU64,
    given: AtomicU64,
    /// A bucket that somebody took in vain, and one; else 0.
    spare: AtomicU64,
    in_a_block: u64,
}

impl Overflow {
    /// None yet, and at most so many blocks of a size that holds `in_a_block` buckets.
    pub(super) fn new(domain: &Arc<Domain>, blocks: usize, in_a_block: u64) -> Overflow {
        let blocks = (0..blocks).map(|_| Slot::new(domain, None)).collect();
        let [there, given, spare] = std::array::from_fn(|_| AtomicU64::new(0));
        Overflow { blocks, there, given, spare, in_a_block }
    }

    /// Takes a block more, from one thread at a time. The block itself if there are as many as there may be.
    pub(super) fn add(&self, block: Block) -> Result<(), Block> {
        let there = self.there.load(Ordering::Relaxed);
        let Some(place) = self.blocks.get((there / self.in_a_block) as usize) else { return Err(block) };
        place.swap(Some(Box::new(Words::new(block))), |_| unreachable!("one thread at a time adds blocks"));
        self.there.store(there + self.in_a_block, Ordering::Release);
        Ok(())
    }

    /// Buckets that can be taken.
    pub(super) fn left(&self) -> u64 {
        self.there.load(Ordering::Relaxed).saturating_sub(self.given.load(Ordering::Relaxed))
    }

    /// Gives out a bucket without entries. `None` if there is none.
    pub(super) fn take(&self) -> Option<u64> {
        if let Some(spare) = self.spare.swap(0, Ordering::AcqRel).checked_sub(1) {
            return Some(spare);
        }
        let mut given = self.given.load(Ordering::Relaxed);
        while given < self.there.load(Ordering::Acquire) {
            match self.given.compare_exchange(given, given + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(given),
                Err(now) => given = now,
            }
        }
        None
    }

    /// Takes back a bucket that nobody else knows. One is kept; more stay empty until the table goes.
    pub(super) fn give_back(&self, number: u64) {
        self.spare.store(number + 1, Ordering::Release);
    }

    /// Bucket `number`, which was given out.
    pub(super) fn get<'p>(&'p self, number: u64, pin: &'p Pin<'_>) -> Bucket<'p> {
        let words =
            self.blocks[(number / self.in_a_block) as usize].load(pin).expect("a bucket is given out when its block is there");
        debug_assert!(words.len() >= BUCKET_WORDS);
        Bucket::new(words, (number % self.in_a_block) as usize)
    }
}
