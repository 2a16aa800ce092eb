//! The tags of a delta: the upper bits of all its hashes, in order, so that delta maps are made without reading blocks.

use std::{ops::Range, result};

use ecotone_substrate::{
    Result,
    codec::{Malformed, is_zero},
    limits::PAGE,
    memory::{Component, Memory},
    table::{Name, Pages},
};

use super::stretch::Stretch;

/// Bytes of a tag.
const TAG: usize = 5;
/// Bits of a hash that its tag leaves out.
const LOW_BITS: u32 = 24;

/// What is left of a hash in its tag: the hash with its lower bits zero.
#[inline]
pub(super) fn upper(hash: u64) -> u64 {
    hash >> LOW_BITS << LOW_BITS
}

/// How the tags of a delta lie in its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TagsForm {
    /// From the first byte of each page on. One checksum of all pages is in the header of the file: version 1.
    Whole(u32),
    /// Each page begins with a checksum of its own, so some can be read without the others.
    Paged,
}

impl TagsForm {
    /// Where tags begin in a page.
    fn start(self) -> usize {
        if let TagsForm::Whole(_) = self { 0 } else { size_of::<u32>() }
    }

    /// Tags of a page.
    pub(super) fn in_page(self) -> u64 {
        ((PAGE - self.start()) / TAG) as u64
    }

    /// Pages that so many tags take.
    pub(super) fn pages(self, records: u64) -> u64 {
        records.div_ceil(self.in_page())
    }
}

/// What the checksum of a page of tags goes by: pages of tags are counted behind the blocks of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct TagPages {
    pub(super) name: Name,
    pub(super) blocks: u32,
}

impl TagPages {
    /// Whether the checksum of a page is right.
    pub(super) fn is_whole(self, page: u64, bytes: &[u8]) -> bool {
        bytes.first_chunk().is_some_and(|sum| u32::from_le_bytes(*sum) == self.checksum(page, bytes))
    }

    fn checksum(self, page: u64, bytes: &[u8]) -> u32 {
        // Each page needs a number that the others have not; whether a block has it too means nothing.
        self.name.place(self.blocks.wrapping_add(page as u32)).checksum(bytes)
    }
}

/// Tags of one delta, in memory: all of them, or those of some pages.
#[derive(Debug)]
pub struct Tags {
    pages: Pages,
    form: TagsForm,
    /// The numbers of those that are here. The first one begins a page.
    here: Range<u64>,
}

impl Default for Tags {
    /// None yet, in the form in which they are written.
    fn default() -> Tags {
        Tags { pages: Pages::default(), form: TagsForm::Paged, here: 0..0 }
    }
}

impl Tags {
    /// Takes pages of tags from `first` on, as a file with `count` tags in all has them. Their checksums were looked
    /// at.
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

    /// Whether there is nothing in a page behind its tags.
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

    /// Gives all pages their checksums.
    pub(super) fn seal(&mut self, of: TagPages) {
        for page in 0..self.pages.len() {
            let sum = of.checksum(page as u64, self.pages.page(page));
            self.pages.set(page, 0, &sum.to_le_bytes());
        }
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
        let (page, at) = self.place(number);
        let bytes: &[u8; TAG] = self.pages.get(page, at);
        let [a, b, c, d, e] = *bytes;
        u64::from_le_bytes([0, 0, 0, a, b, c, d, e])
    }

    /// Where a tag stands among the pages that are here.
    #[inline]
    fn place(&self, number: u64) -> (usize, usize) {
        let (number, in_page) = (number - self.here.start, self.form.in_page());
        ((number / in_page) as usize, self.form.start() + (number % in_page) as usize * TAG)
    }

    /// Which of those that are here a stretch has.
    pub(super) fn of(&self, stretch: Stretch) -> Range<u64> {
        self.position(|tag| tag < stretch.first())..self.position(|tag| tag <= stretch.last())
    }

    /// Whether tags before those that are here may belong to a stretch, and tags behind them, if there are `count` in
    /// all.
    pub(super) fn lacks(&self, stretch: Stretch, count: u64) -> [bool; 2] {
        let Range { start, end } = self.here;
        let before = start > 0 && (start == end || self.get(start) >= stretch.first());
        let behind = end < count && (start == end || self.get(end - 1) <= stretch.last());
        [before, behind]
    }

    /// Behind how many tags those begin that are not as `before` says, as all are from one on.
    fn position(&self, before: impl Fn(u64) -> bool) -> u64 {
        let (mut low, mut high) = (self.here.start, self.here.end);
        while low < high {
            let middle = low.midpoint(high);
            if before(self.get(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }
}
