//! The tags of a delta: the upper bits of all its hashes, in order, so that delta maps are made without reading blocks.

use std::{ops::Range, result};

use ecotone_substrate::{
    Result,
    codec::{Malformed, is_zero},
    limits::PAGE,
    memory::{Component, Memory},
    table::Pages,
};

use super::stretch::Stretch;

/// Bytes of a tag.
const TAG: usize = 5;
/// Bits of a hash that its tag leaves out.
const LOW_BITS: u32 = 24;
/// Tags of a page.
const TAGS: u64 = (PAGE / TAG) as u64;

/// Pages that so many tags take.
pub(super) fn pages(records: u64) -> u64 {
    records.div_ceil(TAGS)
}

/// What is left of a hash in its tag: the hash with its lower bits zero.
#[inline]
pub(super) fn upper(hash: u64) -> u64 {
    hash >> LOW_BITS << LOW_BITS
}

/// The tags of one delta, in memory.
#[derive(Debug, Default)]
pub struct Tags {
    pages: Pages,
    count: u64,
}

impl Tags {
    /// Takes the tags that a file has.
    pub(super) fn parse(pages: Pages, count: u64) -> result::Result<Tags, Malformed> {
        let tags = Tags { pages, count };
        let mut before = 0;
        for number in 0..count {
            let tag = tags.get(number);
            if tag < before {
                let offset = number / TAGS * PAGE as u64 + number % TAGS * TAG as u64;
                return Err(Malformed::new(offset as usize, "the tags are out of order"));
            }
            before = tag;
        }
        let rest = (count % TAGS) as usize * TAG;
        let last_is_zero = rest == 0 || is_zero(&tags.pages.get::<PAGE>(tags.pages.len() - 1, 0)[rest..]);
        if !last_is_zero || !tags.pages.is_zero_from(TAGS as usize * TAG) {
            return Err(Malformed::new(0, "reserved bytes are not zero"));
        }
        Ok(tags)
    }

    /// Adds the tag of the next hash.
    pub(super) fn push(&mut self, memory: &Memory, hash: u64) -> Result<()> {
        if self.count.is_multiple_of(TAGS) {
            self.pages.grow(memory, Component::Frames)?;
        }
        let (page, at) = ((self.count / TAGS) as usize, (self.count % TAGS) as usize * TAG);
        self.pages.set(page, at, &(hash >> LOW_BITS).to_le_bytes()[..TAG]);
        self.count += 1;
        Ok(())
    }

    /// Its pages, as they stand in the file.
    pub(super) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// How many of them a stretch has.
    pub(super) fn count_of(&self, stretch: Stretch) -> u64 {
        let of = self.of(stretch);
        of.end - of.start
    }

    /// The upper bits of a hash, with zeros below them.
    #[inline]
    pub(super) fn get(&self, number: u64) -> u64 {
        let bytes: &[u8; TAG] = self.pages.get((number / TAGS) as usize, (number % TAGS) as usize * TAG);
        let [a, b, c, d, e] = *bytes;
        u64::from_le_bytes([0, 0, 0, a, b, c, d, e])
    }

    /// Which of them a stretch has.
    pub(super) fn of(&self, stretch: Stretch) -> Range<u64> {
        self.position(|tag| tag < stretch.first())..self.position(|tag| tag <= stretch.last())
    }

    /// How many tags at the beginning are as `before` says.
    fn position(&self, before: impl Fn(u64) -> bool) -> u64 {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if before(self.get(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }
}
