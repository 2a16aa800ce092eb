//! The tags of a delta: the upper bits of all its hashes, in order. Delta maps are made from them without reading
//! blocks.

use std::{ops::Range, result};

use ecotone_substrate::{
    Result,
    codec::{Malformed, is_zero},
    limits::PAGE,
    memory::{Component, Memory},
    table::{FileIdentity, Pages},
};

use super::hash_range::HashRange;

/// Bytes of a tag.
const TAG: usize = 5;
/// Bits of a hash that its tag leaves out.
const LOW_BITS: u32 = 24;

/// The part of a hash that its tag keeps: the hash with its lower bits zero.
#[inline]
pub(super) fn upper(hash: u64) -> u64 {
    hash >> LOW_BITS << LOW_BITS
}

/// The layout of the tags in their pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TagsForm {
    /// Tags begin at the first byte of each page. The header of the file has one checksum of all pages: version 1.
    Whole(u32),
    /// Each page begins with its own checksum, so single pages can be read.
    Paged,
}

impl TagsForm {
    /// Offset of the tags in a page.
    fn start(self) -> usize {
        if let TagsForm::Whole(_) = self { 0 } else { size_of::<u32>() }
    }

    /// Tags in a page.
    pub(super) fn in_page(self) -> u64 {
        ((PAGE - self.start()) / TAG) as u64
    }

    /// Pages for `records` tags.
    pub(super) fn pages(self, records: u64) -> u64 {
        records.div_ceil(self.in_page())
    }
}

/// What the checksum of a page of tags depends on: pages of tags are numbered behind the blocks of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct TagPages {
    pub(super) name: FileIdentity,
    pub(super) blocks: u32,
}

impl TagPages {
    /// Whether the checksum of a page is right.
    pub(super) fn is_whole(self, page: u64, bytes: &[u8]) -> bool {
        bytes.first_chunk().is_some_and(|sum| u32::from_le_bytes(*sum) == self.checksum(page, bytes))
    }

    fn checksum(self, page: u64, bytes: &[u8]) -> u32 {
        // Each page needs a number of its own among the pages of tags; a block may have the same number.
        self.name.place(self.blocks.wrapping_add(page as u32)).checksum(bytes)
    }
}

/// Tags of one delta, in memory: all of them, or those of some pages.
#[derive(Debug)]
pub struct Tags {
    pages: Pages,
    form: TagsForm,
    /// The numbers of the tags in memory. The first one begins a page.
    here: Range<u64>,
}

impl Default for Tags {
    /// No tags, in the layout in which they are written.
    fn default() -> Tags {
        Tags { pages: Pages::default(), form: TagsForm::Paged, here: 0..0 }
    }
}

impl Tags {
    /// Parses pages of tags from page `first` on, of a file with `count` tags in all. Their checksums have been
    /// verified.
    pub(super) fn parse(pages: Pages, form: TagsForm, first: u64, count: u64) -> result::Result<Tags, Malformed> {
        let start = first * form.in_page();
        let end = count.min(start + pages.len() as u64 * form.in_page());
        let tags = Tags { pages, form, here: start..end };
        let mut before = 0;
        for number in start..end {
            let tag = tags.get(number);
            if tag < before {
                let (page, at) = tags.place(number);
                return Err(Malformed::new(page * PAGE + at, "the tags are out of order"));
            }
            before = tag;
        }
        match (0..tags.pages.len()).find(|page| !tags.ends_with_zeros(*page)) {
            Some(page) => Err(Malformed::new(page * PAGE, "reserved bytes are not zero")),
            None => Ok(tags),
        }
    }

    /// Whether the rest of a page behind its tags is zero.
    fn ends_with_zeros(&self, page: usize) -> bool {
        let before = self.here.start + page as u64 * self.form.in_page();
        let count = self.here.end.saturating_sub(before).min(self.form.in_page());
        is_zero(&self.pages.page(page)[self.form.start() + count as usize * TAG..])
    }

    /// Adds the tag of the next hash.
    pub(super) fn push(&mut self, memory: &Memory, hash: u64) -> Result<()> {
        let (page, at) = self.place(self.here.end);
        if page == self.pages.len() {
            self.pages.grow(memory, Component::Frames)?;
        }
        self.pages.set(page, at, &(hash >> LOW_BITS).to_le_bytes()[..TAG]);
        self.here.end += 1;
        Ok(())
    }

    /// Writes the checksums of all pages.
    pub(super) fn seal(&mut self, of: TagPages) {
        for page in 0..self.pages.len() {
            let sum = of.checksum(page as u64, self.pages.page(page));
            self.pages.set(page, 0, &sum.to_le_bytes());
        }
    }

    /// The pages, as they are in the file.
    pub(super) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Number of tags in a hash range.
    pub(super) fn count_of(&self, hash_range: HashRange) -> u64 {
        let of = self.of(hash_range);
        of.end - of.start
    }

    /// A tag as the upper bits of a hash, with zeros below.
    #[inline]
    pub(super) fn get(&self, number: u64) -> u64 {
        let (page, at) = self.place(number);
        let bytes: &[u8; TAG] = self.pages.get(page, at);
        let [a, b, c, d, e] = *bytes;
        u64::from_le_bytes([0, 0, 0, a, b, c, d, e])
    }

    /// Page and offset of a tag among the pages in memory.
    #[inline]
    fn place(&self, number: u64) -> (usize, usize) {
        let (number, in_page) = (number - self.here.start, self.form.in_page());
        ((number / in_page) as usize, self.form.start() + (number % in_page) as usize * TAG)
    }

    /// The numbers of the tags in memory that lie in a hash range.
    pub(super) fn of(&self, hash_range: HashRange) -> Range<u64> {
        self.position(|tag| tag < hash_range.first())..self.position(|tag| tag <= hash_range.last())
    }

    /// Whether tags before those in memory may lie in a hash range, and tags behind them, if there are `count` in all.
    pub(super) fn lacks(&self, hash_range: HashRange, count: u64) -> [bool; 2] {
        let Range { start, end } = self.here;
        let before = start > 0 && (start == end || self.get(start) >= hash_range.first());
        let behind = end < count && (start == end || self.get(end - 1) <= hash_range.last());
        [before, behind]
    }

    /// The number of the first tag for which `before` is false, as for all tags after it.
    fn position(&self, before: impl Fn(u64) -> bool) -> u64 {
        let (mut low, mut high) = (self.here.start, self.here.end);
        while low < high {
            let middle = low.midpoint(high);
            if before(self.get(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }
}
