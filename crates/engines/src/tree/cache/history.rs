//! Which keys were missed lately: two bytes for each miss, so that what is asked for again is known from what is asked for once.

use ecotone_sys::chunk::{Block, Size};

use super::hash::KeyHash;

/// Bytes of a block.
pub(super) const BLOCK: usize = Size::Frame.bytes();
/// Bytes of a bucket.
const BUCKET: usize = 8;
/// Buckets in a block.
const PER_BLOCK: usize = BLOCK / BUCKET;

/// Buckets of four tags, the newest first. A key is taken for another one once in 16,000 times.
#[derive(Debug, Default)]
pub(super) struct History {
    blocks: Vec<Block>,
}

impl History {
    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    /// Adds memory. What was noted so far is mostly lost, since keys go to other buckets.
    pub(super) fn add(&mut self, mut block: Block) {
        block.fill(0);
        self.blocks.push(block);
    }

    /// Notes a miss; true if the key is among the last ones of its bucket.
    pub(super) fn note(&mut self, hash: KeyHash) -> bool {
        let buckets = self.blocks.len() * PER_BLOCK;
        if buckets == 0 {
            return false;
        }
        let number = ((u64::from(hash.bucket()) * buckets as u64) >> 32) as usize;
        let start = number % PER_BLOCK * BUCKET;
        let bucket = &mut self.blocks[number / PER_BLOCK][start..start + BUCKET];
        // Zero is what an empty place holds.
        let tag = hash.long_tag().max(1).to_le_bytes();
        let known = bucket.chunks_exact(tag.len()).any(|noted| noted == tag);
        bucket.copy_within(..BUCKET - tag.len(), tag.len());
        bucket[..tag.len()].copy_from_slice(&tag);
        known
    }
}

#[cfg(test)]
mod tests {
    use ecotone_substrate::memory::{Component, Memory};

    use super::{super::hash::KeyHasher, *};

    fn note(history: &mut History, key: usize) -> bool {
        history.note(KeyHasher::new(1).hash(0, &key.to_le_bytes()))
    }

    #[test]
    fn as_many_misses_are_known_as_there_are_tags() {
        let memory = Memory::new(4 << 20);
        let mut history = History::default();
        assert!(!note(&mut history, 1) && !note(&mut history, 1), "without memory nothing is known");
        (0..4).for_each(|_| history.add(memory.lease(Component::CacheTable, Size::Frame).unwrap()));
        let tags = history.bytes() / 2;
        assert!((0..tags / 4).filter(|key| note(&mut history, *key)).count() <= 2, "all are new");
        let known = (0..tags / 4).filter(|key| note(&mut history, *key)).count();
        assert!(known > tags / 4 * 9 / 10, "{known} of {} are known", tags / 4);
        let later = (1 << 20)..(1 << 20) + 100 * tags;
        let wrong = later.filter(|key| note(&mut history, *key)).count();
        assert!(wrong < tags / 40, "{wrong} of {} new keys were taken for known ones", 100 * tags);
        assert!((0..tags / 4).filter(|key| note(&mut history, *key)).count() <= 2, "all are forgotten");
    }
}
