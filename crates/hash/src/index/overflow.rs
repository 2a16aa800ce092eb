//! Overflow buckets, for entries whose bucket is full. Their memory is reserved a block at a time.

use std::sync::Arc;

use ecotone_sys::{
    chunk::Block,
    epoch::{Domain, Pin, Slot},
    primitive::atomic::{AtomicU64, Ordering},
    words::Words,
};

use super::bucket::Bucket;

/// The overflow buckets of a table. A bucket is unmade until a split makes it or an insert claims it.
#[derive(Debug)]
pub(super) struct Overflow {
    blocks: Box<[Slot<Words>]>,
    /// Number of buckets that have memory.
    there: AtomicU64,
    /// The bucket at which the next search for an unmade one begins.
    next: AtomicU64,
    in_a_block: u64,
}

impl Overflow {
    /// No buckets yet, and at most `blocks` blocks of `in_a_block` buckets each.
    pub(super) fn new(domain: &Arc<Domain>, blocks: usize, in_a_block: u64) -> Overflow {
        let blocks = (0..blocks).map(|_| Slot::new(domain, None)).collect();
        Overflow { blocks, there: AtomicU64::new(0), next: AtomicU64::new(0), in_a_block }
    }

    /// Adds a block; one thread at a time. Returns the block if the maximum is reached.
    pub(super) fn add(&self, block: Block) -> Result<(), Block> {
        let there = self.there.load(Ordering::Relaxed);
        let Some(place) = self.blocks.get((there / self.in_a_block) as usize) else { return Err(block) };
        let unmade = Box::new(Words::filled(block, 0xff));
        place.swap(Some(unmade), |_| unreachable!("one thread at a time adds blocks"));
        self.there.store(there + self.in_a_block, Ordering::Release);
        Ok(())
    }

    /// The maximum of blocks.
    pub(super) fn most_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> usize {
        (self.there.load(Ordering::Acquire) / self.in_a_block) as usize
    }

    /// Number of buckets that can be taken. It may be slightly too high.
    pub(super) fn left(&self) -> u64 {
        self.there.load(Ordering::Relaxed).saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Keeps all present buckets for splits.
    pub(super) fn reserve_all(&self) {
        self.next.store(self.there.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Allows the buckets that splits have left unmade to be taken.
    pub(super) fn release_all(&self) {
        self.next.store(0, Ordering::Relaxed);
    }

    /// Takes a bucket without entries. `None` if there is none.
    pub(super) fn take(&self, pin: &Pin<'_>) -> Option<u64> {
        loop {
            let number = self.next.load(Ordering::Relaxed);
            if number >= self.there.load(Ordering::Acquire) {
                return None;
            }
            let claimed = self.get(number, pin).claim();
            // If the exchange fails, other threads have moved `next` already, or are giving a bucket back.
            let _ = self.next.compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed);
            if claimed {
                return Some(number);
            }
        }
    }

    /// Takes back a bucket that no other thread knows. If `next` passes it at this moment, it stays unused until the
    /// next table.
    pub(super) fn give_back(&self, number: u64, pin: &Pin<'_>) {
        self.get(number, pin).disclaim();
        self.next.fetch_min(number, Ordering::Relaxed);
    }

    /// Bucket `number`, which must have memory.
    pub(super) fn get<'p>(&'p self, number: u64, pin: &'p Pin<'_>) -> Bucket<'p> {
        let words = self.blocks[(number / self.in_a_block) as usize]
            .load(pin)
            .expect("a bucket is given out when its block is there");
        Bucket::new(words, (number % self.in_a_block) as usize)
    }
}
