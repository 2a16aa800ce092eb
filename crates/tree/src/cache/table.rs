//! A linear hash table of links. It grows by one bucket at a time, so that no single operation pays for a resize.

use ecotone_sys::chunk::Block;

use super::slab::SLAB;

/// Buckets in a block.
const PER_BLOCK: usize = SLAB / 4;
/// The content of an empty bucket.
pub(super) const EMPTY: u32 = u32::MAX;

/// The heads of hash chains. The chains belong to the caller.
#[derive(Debug, Default)]
pub(super) struct Table {
    blocks: Vec<Block>,
    buckets: usize,
    /// The largest power of two up to `buckets`, less one.
    mask: usize,
}

impl Table {
    /// Whether the first block is missing, so that nothing can be inserted.
    pub(super) fn is_empty(&self) -> bool {
        self.buckets == 0
    }

    /// Whether the next bucket needs another block.
    pub(super) fn wants_block(&self) -> bool {
        self.buckets == self.blocks.len() * PER_BLOCK
    }

    /// Adds memory. The first block becomes buckets at once.
    pub(super) fn add(&mut self, mut block: Block) {
        block.fill(0xFF);
        self.blocks.push(block);
        if self.buckets == 0 {
            self.buckets = PER_BLOCK;
            self.mask = PER_BLOCK - 1;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * SLAB
    }

    /// Whether `items` in the table make the mean chain longer than `tenths` tenths of an item.
    pub(super) fn is_loaded(&self, items: usize, tenths: usize) -> bool {
        items * 10 > self.buckets * tenths
    }

    /// The bucket of a hash.
    #[inline]
    pub(super) fn bucket(&self, hash: u32) -> usize {
        let bucket = hash as usize & (self.mask << 1 | 1);
        if bucket < self.buckets { bucket } else { bucket & self.mask }
    }

    /// The link in a bucket, [`EMPTY`] in an empty table.
    #[inline]
    pub(super) fn get(&self, bucket: usize) -> u32 {
        let Some(block) = self.blocks.get(bucket / PER_BLOCK) else { return EMPTY };
        let at = bucket % PER_BLOCK * 4;
        u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"))
    }

    pub(super) fn set(&mut self, bucket: usize, link: u32) {
        let at = bucket % PER_BLOCK * 4;
        self.blocks[bucket / PER_BLOCK][at..at + 4].copy_from_slice(&link.to_le_bytes());
    }

    /// Adds a bucket, which must not [want a block](Self::wants_block), and returns the bucket whose chain the caller
    /// now splits between the two.
    pub(super) fn grow(&mut self) -> usize {
        let split = self.buckets - (self.mask + 1);
        self.buckets += 1;
        if self.buckets == (self.mask + 1) * 2 {
            self.mask = self.mask << 1 | 1;
        }
        split
    }
}

#[cfg(test)]
mod tests {
    use ecotone_substrate::memory::{Component, Memory};
    use ecotone_sys::chunk::Size;

    use super::*;

    /// Every hash stays findable while the table grows, if the caller splits the bucket.
    #[test]
    fn growth_moves_only_what_the_split_bucket_held() {
        let memory = Memory::new(8 << 20);
        let mut table = Table::default();
        assert_eq!((table.is_empty(), table.get(table.bucket(7))), (true, EMPTY));
        table.add(memory.lease(Component::CacheTable, Size::Slab).unwrap());
        let hashes: Vec<u32> = (0..1000u32).map(|n| n.wrapping_mul(0x9E37_79B9)).collect();
        for _ in 0..3 * PER_BLOCK {
            let before: Vec<usize> = hashes.iter().map(|hash| table.bucket(*hash)).collect();
            if table.wants_block() {
                table.add(memory.lease(Component::CacheTable, Size::Slab).unwrap());
            }
            let split = table.grow();
            for (hash, before) in hashes.iter().zip(before) {
                let after = table.bucket(*hash);
                assert!(after == before || (before == split && after == table.buckets - 1));
            }
        }
    }
}
