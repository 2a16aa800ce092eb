//! Buckets for entries that found theirs full. Their memory comes by admission, a block at a time.

use std::sync::Arc;

use ecotone_sys::{
    chunk::Block,
    epoch::{Domain, Pin, Slot},
    primitive::atomic::{AtomicU64, Ordering},
    words::Words,
};

use super::bucket::Bucket;

/// The overflow buckets of a table. One is unmade until a split makes it or somebody takes it.
#[derive(Debug)]
pub(super) struct Overflow {
    blocks: Box<[Slot<Words>]>,
    /// How many buckets there is memory for.
    there: AtomicU64,
    /// The first that is looked at by who wants one.
    next: AtomicU64,
    in_a_block: u64,
}

impl Overflow {
    /// None yet, and at most so many blocks of a size that holds `in_a_block` buckets.
    pub(super) fn new(domain: &Arc<Domain>, blocks: usize, in_a_block: u64) -> Overflow {
        let blocks = (0..blocks).map(|_| Slot::new(domain, None)).collect();
        Overflow { blocks, there: AtomicU64::new(0), next: AtomicU64::new(0), in_a_block }
    }

    /// Takes a block more, from one thread at a time. The block itself if there are as many as there may be.
    pub(super) fn add(&self, block: Block) -> Result<(), Block> {
        let there = self.there.load(Ordering::Relaxed);
        let Some(place) = self.blocks.get((there / self.in_a_block) as usize) else { return Err(block) };
        let unmade = Box::new(Words::filled(block, 0xff));
        place.swap(Some(unmade), |_| unreachable!("one thread at a time adds blocks"));
        self.there.store(there + self.in_a_block, Ordering::Release);
        Ok(())
    }

    /// Blocks that there may be.
    pub(super) fn most_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Blocks that there are.
    pub(super) fn blocks(&self) -> usize {
        (self.there.load(Ordering::Acquire) / self.in_a_block) as usize
    }

    /// Buckets that can be taken, or a few more.
    pub(super) fn left(&self) -> u64 {
        self.there.load(Ordering::Relaxed).saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Keeps all that there are for splits.
    pub(super) fn reserve_all(&self) {
        self.next.store(self.there.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// What splits have left unmade can be taken from now on.
    pub(super) fn release_all(&self) {
        self.next.store(0, Ordering::Relaxed);
    }

    /// Gives out a bucket without entries. `None` if there is none.
    pub(super) fn take(&self, pin: &Pin<'_>) -> Option<u64> {
        loop {
            let number = self.next.load(Ordering::Relaxed);
            if number >= self.there.load(Ordering::Acquire) {
                return None;
            }
            let claimed = self.get(number, pin).claim();
            // If it fails, others have gone on, or have one to give back.
            let _ = self.next.compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed);
            if claimed {
                return Some(number);
            }
        }
    }

    /// Takes back a bucket that nobody else knows. Who goes past it at this moment leaves it to the table that follows.
    pub(super) fn give_back(&self, number: u64, pin: &Pin<'_>) {
        self.get(number, pin).disclaim();
        self.next.fetch_min(number, Ordering::Relaxed);
    }

    /// Bucket `number`, for which there is memory.
    pub(super) fn get<'p>(&'p self, number: u64, pin: &'p Pin<'_>) -> Bucket<'p> {
        let words = self.blocks[(number / self.in_a_block) as usize]
            .load(pin)
            .expect("a bucket is given out when its block is there");
        Bucket::new(words, (number % self.in_a_block) as usize)
    }
}
