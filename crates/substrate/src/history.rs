//! Which keys a cache missed lately: two bytes for each miss, so that what is asked for again is known from what is
//! asked for once (the ghosts of S3-FIFO).

use ecotone_sys::{
    chunk::{Block, Size},
    primitive::atomic::{AtomicU64, Ordering},
    words::Words,
};

/// Tags in a bucket, which is a word.
const TAGS: u32 = u64::BITS / u16::BITS;

/// Buckets of four tags, the newest first. A key is taken for another one once in 16,000 times.
#[derive(Debug, Default)]
pub struct History {
    blocks: Vec<Words>,
}

impl History {
    /// The size of its blocks.
    pub const BLOCK: Size = Size::Frame;

    /// Bytes of all blocks.
    pub fn bytes(&self) -> usize {
        self.blocks.len() * Self::BLOCK.bytes()
    }

    /// Adds a block of [`BLOCK`](Self::BLOCK). What was noted so far is mostly lost, since keys go to other buckets.
    pub fn add(&mut self, block: Block) {
        self.blocks.push(Words::new(block));
    }

    /// Notes a miss of a key by two parts of its hash, of which one chooses the bucket; true if the key is among the
    /// last ones there. Of two misses in one bucket at one moment, one may be lost.
    pub fn note(&self, bucket: u32, tag: u16) -> bool {
        let Some(word) = self.word(bucket) else { return false };
        let (noted, tag) = (word.load(Ordering::Relaxed), not_empty(tag));
        word.store(noted << u16::BITS | u64::from(tag), Ordering::Relaxed);
        has(noted, tag)
    }

    /// Whether a key is among the last ones that were noted in its bucket, by the same parts of its hash.
    pub fn knows(&self, bucket: u32, tag: u16) -> bool {
        self.word(bucket).is_some_and(|word| has(word.load(Ordering::Relaxed), not_empty(tag)))
    }

    fn word(&self, bucket: u32) -> Option<&AtomicU64> {
        let words = self.blocks.first()?.len();
        let number = ((u64::from(bucket) * (self.blocks.len() * words) as u64) >> u32::BITS) as usize;
        Some(&self.blocks[number / words][number % words])
    }
}

/// Zero is what an empty place holds.
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

    /// Spreads keys over all bits.
    fn note(history: &History, key: usize) -> bool {
        let hash = (key as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let hash = hash ^ hash >> 32;
        history.note(hash as u32, (hash >> 32) as u16)
    }

    #[test]
    fn who_asks_leaves_no_trace() {
        let memory = Memory::new(4 << 20);
        let mut history = History::default();
        assert!(!history.knows(7, 9));
        history.add(memory.lease(Component::CacheTable, History::BLOCK).unwrap());
        assert!(!history.knows(7, 9) && !history.note(7, 9) && history.knows(7, 9) && !history.knows(7, 8));
    }

    #[test]
    fn as_many_misses_are_known_as_there_are_tags() {
        let memory = Memory::new(4 << 20);
        let mut history = History::default();
        assert!(!note(&history, 1) && !note(&history, 1), "without memory nothing is known");
        (0..4).for_each(|_| history.add(memory.lease(Component::CacheTable, History::BLOCK).unwrap()));
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
