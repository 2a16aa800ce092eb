//! A table of the hot index: buckets by the upper bits of the hash, each with its overflow buckets (H2).

use std::{iter, sync::Arc};

use ecotone_sys::{
    chunk::Block,
    epoch::{Domain, Pin},
    words::{WORD, Words},
};

use super::{
    bucket::{BUCKET_WORDS, Bucket},
    entry::{Entry, TAG_BITS},
    load::Load,
    overflow::Overflow,
};

/// Most doublings of a table. After them, nine bits of a tag are left that the bucket number does not say already.
const MOST_DOUBLINGS: u32 = 12;

/// Blocks for overflow buckets that a table may have beyond the number of its own blocks, so that inserts go on when
/// growth is late.
pub(super) const MORE_OVERFLOW: usize = 63;

/// Buckets for the hashes of a keyspace. Their number is a power of two.
#[derive(Debug)]
pub(super) struct Table {
    bits: u32,
    /// Bits of the hash before the tag: as many as chose the bucket in the first table. An entry is therefore the same
    /// in all later tables.
    before_tag: u32,
    blocks: Box<[Words]>,
    /// A block has two to the power of this many buckets.
    block_bits: u32,
    pub(super) overflow: Overflow,
    pub(super) load: Arc<Load>,
}

impl Table {
    /// Bytes of 2^`bits` buckets.
    pub(super) const fn bytes(bits: u32) -> usize {
        (BUCKET_WORDS * WORD) << bits
    }

    /// An empty table of 2^`bits` buckets in blocks of one size.
    ///
    /// # Panics
    /// If the blocks have too few words.
    pub(super) fn new(domain: &Arc<Domain>, bits: u32, blocks: Vec<Block>) -> Table {
        let blocks = filled(blocks, 0);
        let block_bits = (blocks[0].len() / BUCKET_WORDS).ilog2();
        assert!((blocks.len() as u64) << block_bits >= 1 << bits, "room for all buckets");
        let overflow = Overflow::new(domain, blocks.len() + MORE_OVERFLOW, 1 << block_bits);
        Table { bits, before_tag: bits, blocks, block_bits, overflow, load: Arc::default() }
    }

    /// An unmade table of twice the buckets, for the same entries. It may have as many more blocks for overflow buckets
    /// as this one.
    pub(super) fn double(&self, domain: &Arc<Domain>, blocks: Vec<Block>) -> Table {
        assert_eq!(blocks.len(), self.blocks_for_double());
        let Table { bits, before_tag, block_bits, .. } = *self;
        let overflow = Overflow::new(domain, blocks.len() + self.overflow.most_blocks(), 1 << block_bits);
        Table {
            bits: bits + 1,
            before_tag,
            blocks: filled(blocks, 0xff),
            block_bits,
            overflow,
            load: self.load.clone(),
        }
    }

    /// Number of buckets without overflow buckets.
    pub(super) fn buckets(&self) -> u64 {
        1 << self.bits
    }

    /// Number of blocks for twice the buckets.
    pub(super) fn blocks_for_double(&self) -> usize {
        ((2 * self.buckets()) >> self.block_bits).max(1) as usize
    }

    /// Whether a table of twice the buckets may follow.
    pub(super) fn may_double(&self) -> bool {
        self.doublings() < MOST_DOUBLINGS
    }

    /// Number of doublings since the first table.
    pub(super) fn doublings(&self) -> u32 {
        self.bits - self.before_tag
    }

    /// The tag of a hash.
    #[inline]
    pub(super) fn tag(&self, hash: u64) -> u64 {
        hash << self.before_tag >> (u64::BITS - TAG_BITS)
    }

    /// Which of the two buckets of the doubled table gets an entry: the hash bit after those that choose the bucket
    /// here.
    pub(super) fn half(&self, entry: Entry) -> u64 {
        entry.tag() >> (TAG_BITS - 1 - self.doublings()) & 1
    }

    /// Number of a hash's bucket.
    #[inline]
    pub(super) fn number(&self, hash: u64) -> u64 {
        // Two shifts, since a table of one bucket would shift by 64.
        hash >> 1 >> (u64::BITS - 1 - self.bits)
    }

    /// The first hash of the bucket `count` behind a hash's bucket, if there is one.
    pub(super) fn behind(&self, hash: u64, count: u64) -> Option<u64> {
        let next = self.number(hash) + count;
        (next < self.buckets()).then(|| next << (u64::BITS - self.bits))
    }

    /// Bucket `number`.
    #[inline]
    pub(super) fn bucket(&self, number: u64) -> Bucket<'_> {
        let words = &self.blocks[(number >> self.block_bits) as usize];
        Bucket::new(words, (number & ((1 << self.block_bits) - 1)) as usize)
    }

    /// The overflow bucket after a bucket, if there is one.
    pub(super) fn following<'p>(&'p self, bucket: Bucket<'_>, pin: &'p Pin<'_>) -> Option<Bucket<'p>> {
        Some(self.overflow.get(bucket.control().overflow()?, pin))
    }

    /// A bucket and its overflow buckets.
    pub(super) fn chain<'p>(&'p self, number: u64, pin: &'p Pin<'_>) -> impl Iterator<Item = Bucket<'p>> {
        iter::successors(Some(self.bucket(number)), move |bucket| self.following(*bucket, pin))
    }
}

fn filled(blocks: Vec<Block>, byte: u8) -> Box<[Words]> {
    blocks.into_iter().map(|block| Words::filled(block, byte)).collect()
}
