//! A table of the hot index: buckets by the upper bits of the hash, each with the buckets in which it goes on (H2).

use std::{iter, sync::Arc};

use ecotone_sys::{
    chunk::Block,
    epoch::{Domain, Pin},
    words::{WORD, Words},
};

use super::{
    bucket::{BUCKET_WORDS, Bucket, Place},
    entry::{Entry, TAG_BITS},
    overflow::Overflow,
};
use crate::hash::log::{Address, Link};

/// Buckets for the hashes of a keyspace, as many as a power of two.
#[derive(Debug)]
pub(crate) struct Table {
    bits: u32,
    blocks: Box<[Words]>,
    /// A block has two to the power of this many buckets.
    block_bits: u32,
    pub(super) overflow: Overflow,
}

impl Table {
    /// Bytes of 2^`bits` buckets.
    pub(crate) const fn bytes(bits: u32) -> usize {
        (BUCKET_WORDS * WORD) << bits
    }

    /// An empty table of 2^`bits` buckets in blocks of one size, with at most as many blocks for overflow buckets.
    ///
    /// # Panics
    /// If the blocks have too few words.
    pub(crate) fn new(domain: &Arc<Domain>, bits: u32, blocks: Vec<Block>) -> Table {
        let blocks: Box<[Words]> = blocks.into_iter().map(Words::new).collect();
        let block_bits = (blocks[0].len() / BUCKET_WORDS).ilog2();
        assert!((blocks.len() as u64) << block_bits >= 1 << bits, "room for all buckets");
        let overflow = Overflow::new(domain, blocks.len(), 1 << block_bits);
        Table { bits, blocks, block_bits, overflow }
    }

    /// Takes a block for overflow buckets. The block itself if there are enough.
    pub(crate) fn add_overflow(&self, block: Block) -> Result<(), Block> {
        self.overflow.add(block)
    }

    /// Overflow buckets that are left.
    pub(crate) fn overflow_left(&self) -> u64 {
        self.overflow.left()
    }

    /// The tag of a hash: the bits below those that choose the bucket, so that a table of more buckets finds in a tag what it needs of the hash.
    pub(super) fn tag(&self, hash: u64) -> u64 {
        hash << self.bits >> (u64::BITS - TAG_BITS)
    }

    /// Asks for the first bucket of a hash.
    pub(crate) fn prefetch(&self, hash: u64) {
        self.bucket(self.number(hash)).prefetch();
    }

    fn number(&self, hash: u64) -> u64 {
        hash.checked_shr(u64::BITS - self.bits).unwrap_or(0)
    }

    fn bucket(&self, number: u64) -> Bucket<'_> {
        let words = &self.blocks[(number >> self.block_bits) as usize];
        Bucket::new(words, (number & ((1 << self.block_bits) - 1)) as usize)
    }

    /// The bucket of a hash and those in which it goes on.
    pub(super) fn buckets<'p>(&'p self, hash: u64, pin: &'p Pin<'_>) -> impl Iterator<Item = Bucket<'p>> {
        self.chain(self.number(hash), pin)
    }

    /// Frees the entries of chains that no record in the log is part of: those that have none, or one below CLEARABLE. By one bucket of 2^`bits`.
    pub(crate) fn sweep(&self, number: u64, clearable: Address, tail: Address, pin: &Pin<'_>) {
        let stale = |link: Link| link.address(clearable, tail).is_none();
        for place in self.chain(number, pin).flat_map(Bucket::entries) {
            sweep_entry(place, &stale);
        }
    }

    fn chain<'p>(&'p self, number: u64, pin: &'p Pin<'_>) -> impl Iterator<Item = Bucket<'p>> {
        iter::successors(Some(self.bucket(number)), move |bucket| Some(self.overflow.get(bucket.overflow()?, pin)))
    }
}

/// Frees an entry, if nobody is inserting it or has just changed it: then it is left to the next sweep.
fn sweep_entry(place: Place<'_>, stale: &impl Fn(Link) -> bool) {
    let entry = place.load();
    if entry != Entry::FREE && !entry.is_tentative() && stale(entry.link()) {
        let _ = place.exchange(entry, Entry::FREE);
    }
}
