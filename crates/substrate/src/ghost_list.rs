//! A ghost list (S3-FIFO): the keys that a cache missed lately, two bytes each. It tells keys that are asked for again
//! from keys that are asked for once.

use ecotone_sys::{
    chunk::{Block, Size},
    primitive::atomic::{AtomicU64, Ordering},
    words::Words,
};

/// Tags in a bucket, which is a word.
const TAGS: u32 = u64::BITS / u16::BITS;

/// Buckets of four tags, the newest first. Two keys are confused once in 16,000 times.
#[derive(Debug, Default)]
pub struct GhostList {
    blocks: Vec<Words>,
}

impl GhostList {
    /// The size of its blocks.
    pub const BLOCK: Size = Size::Frame;

    /// Bytes of all blocks.
    pub fn bytes(&self) -> usize {
        self.blocks.len() * Self::BLOCK.bytes()
    }

    /// Adds a block of [`BLOCK`](Self::BLOCK). Most earlier notes are lost, since keys move to other buckets.
    pub fn add(&mut self, block: Block) {
        self.blocks.push(Words::new(block));
    }

    /// Notes a miss of a key by two parts of its hash, one of which chooses the bucket. Returns whether the key is
    /// among the last ones there. Of two simultaneous misses in one bucket, one may be lost.
    pub fn note(&self, bucket: u32, tag: u16) -> bool {
        let Some(word) = self.word(bucket) else { return false };
        let (noted, tag) = (word.load(Ordering::Relaxed), not_empty(tag));
        word.store(noted << u16::BITS | u64::from(tag), Ordering::Relaxed);
        has(noted, tag)
    }

    /// Whether a key is among the last ones noted in its bucket, by the same parts of its hash.
    pub fn knows(&self, bucket: u32, tag: u16) -> bool {
        self.word(bucket).is_some_and(|word| has(word.load(Ordering::Relaxed), not_empty(tag)))
    }

    fn word(&self, bucket: u32) -> Option<&AtomicU64> {
        let words = self.blocks.first()?.len();
        let number = ((u64::from(bucket) * (self.blocks.len() * words) as u64) >> u32::BITS) as usize;
        Some(&self.blocks[number / words][number % words])
    }
}

/// Zero marks an empty place.
fn not_empty(tag: u16) -> u16 {
    tag.max(1)
}

fn has(noted: u64, tag: u16) -> bool {
    (0..TAGS).any(|place| (noted >> (place * u16::BITS)) as u16 == tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Component, Memory};

    /// Spreads keys over all buckets and tags.
    fn note(history: &GhostList, key: usize) -> bool {
        let hash = (key as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let hash = hash ^ hash >> 32;
        history.note(hash as u32, (hash >> 32) as u16)
    }

    #[test]
    fn who_asks_leaves_no_trace() {
        let memory = Memory::new(4 << 20);
        let mut history = GhostList::default();
        assert!(!history.knows(7, 9));
        history.add(memory.lease(Component::CacheTable, GhostList::BLOCK).unwrap());
        assert!(!history.knows(7, 9) && !history.note(7, 9) && history.knows(7, 9) && !history.knows(7, 8));
    }

    #[test]
    fn as_many_misses_are_known_as_there_are_tags() {
        let memory = Memory::new(4 << 20);
        let mut history = GhostList::default();
        assert!(!note(&history, 1) && !note(&history, 1), "without memory nothing is known");
        (0..4).for_each(|_| history.add(memory.lease(Component::CacheTable, GhostList::BLOCK).unwrap()));
        let tags = history.bytes() / 2;
        assert!((0..tags / 4).filter(|key| note(&history, *key)).count() <= 2, "all are new");
        let known = (0..tags / 4).filter(|key| note(&history, *key)).count();
        assert!(known > tags / 4 * 9 / 10, "{known} of {} are known", tags / 4);
        let later = (1 << 20)..(1 << 20) + 100 * tags;
        let wrong = later.filter(|key| note(&history, *key)).count();
        assert!(wrong < tags / 40, "{wrong} of {} new keys were taken for known ones", 100 * tags);
        assert!((0..tags / 4).filter(|key| note(&history, *key)).count() <= 2, "all are forgotten");
    }
}
