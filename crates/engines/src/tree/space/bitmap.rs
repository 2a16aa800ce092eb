//! Which pages of a file are used, one bit a page.

use std::ops::Range;

const WORD: u32 = u64::BITS;

/// A bit for every page: set if it is used. Bits beyond the last page are set, so that a search needs no bounds.
#[derive(Debug, Default)]
pub(super) struct Bitmap {
    words: Vec<u64>,
    total: u32,
    free: u32,
    /// No word before this one has a free page.
    first: usize,
}

impl Bitmap {
    /// Pages in all.
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Pages that are not used.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Makes it `total` pages, the new ones free.
    pub(super) fn grow(&mut self, total: u32) {
        self.words.resize((total as usize).div_ceil(WORD as usize), u64::MAX);
        for page in self.total..total {
            self.words[(page / WORD) as usize] &= !bit(page);
        }
        self.first = self.first.min((self.total / WORD) as usize);
        self.free += total - self.total;
        self.total = total;
    }

    /// Whether `page` is used; one beyond the end is.
    pub(super) fn is_used(&self, page: u32) -> bool {
        self.words.get((page / WORD) as usize).is_none_or(|word| word & bit(page) != 0)
    }

    /// Marks a free page as used; false if it is used or beyond the end.
    pub(super) fn take(&mut self, page: u32) -> bool {
        let free = !self.is_used(page);
        if free {
            self.words[(page / WORD) as usize] |= bit(page);
            self.free -= 1;
        }
        free
    }

    /// Marks a used page as free; false if it is free or beyond the end.
    pub(super) fn give(&mut self, page: u32) -> bool {
        let used = page < self.total && self.is_used(page);
        if used {
            self.words[(page / WORD) as usize] &= !bit(page);
            self.free += 1;
            self.first = self.first.min((page / WORD) as usize);
        }
        used
    }

    /// Takes `count` pages: the lowest run that is long enough, else the lowest free pages. `None` if there are not so many.
    pub(super) fn take_many(&mut self, count: usize) -> Option<Vec<u32>> {
        if count > self.free as usize {
            return None;
        }
        self.skip_full_words();
        let pages: Vec<u32> = match self.run(count) {
            Some(run) => run.collect(),
            None => self.free_pages().take(count).collect(),
        };
        for &page in &pages {
            self.take(page);
        }
        Some(pages)
    }

    fn skip_full_words(&mut self) {
        while self.words.get(self.first) == Some(&u64::MAX) {
            self.first += 1;
        }
    }

    /// The free pages in ascending order.
    fn free_pages(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.words.iter().enumerate().skip(self.first).filter(|(_, word)| **word != u64::MAX);
        words.flat_map(|(i, word)| (0..WORD).filter(move |b| word & (1 << b) == 0).map(move |b| i as u32 * WORD + b))
    }

    /// The lowest run of `count` free pages.
    fn run(&self, count: usize) -> Option<Range<u32>> {
        let mut run = 0..0;
        for page in self.free_pages() {
            if page != run.end {
                run = page..page;
            }
            run.end += 1;
            if run.len() == count {
                return Some(run);
            }
        }
        None
    }
}

fn bit(page: u32) -> u64 {
    1 << (page % WORD)
}
