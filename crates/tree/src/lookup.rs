//! The search for one key in the pages, as a state machine that asks for pages and is resumed with them.

use ecotone_substrate::{
    Result,
    limits::MAX_RECORD,
    page::{Page, PageKind, RecordKind},
};

use super::{
    index::PagePair,
    store::{PageMismatch, Store},
};

/// Mismatched pages in a row, with no claim and no change of the index, after which the page counts as damaged and not
/// as being written.
const MAX_MISMATCHES: u32 = 3;

/// The state of one search.
#[derive(Debug)]
pub(crate) struct Lookup<'k> {
    key: &'k [u8],
    pair: PagePair,
    in_overflow: bool,
    mismatches: u32,
}

/// The next step of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Read this page and resume.
    Read(u32),
    /// The answer.
    Done(Option<Vec<u8>>),
}

impl<'k> Lookup<'k> {
    /// Begins the search for a key. Also returns the page to read first.
    pub(crate) fn begin(store: &Store, key: &'k [u8]) -> (Self, u32) {
        let pair = store.index.lookup(key);
        (Lookup { key, pair, in_overflow: false, mismatches: 0 }, pair.page)
    }

    /// Continues with the bytes of the requested page.
    pub(crate) fn resume(&mut self, store: &Store, bytes: &mut [u8]) -> Result<Step> {
        let page = if self.in_overflow { self.pair.overflow } else { self.pair.page };
        store.amend(page, bytes);
        match store.parse(bytes, page) {
            Err(strange) => self.again(store, page, strange),
            Ok(found) if !self.is_wanted(&found) => self.again(store, page, PageMismatch::Other),
            Ok(found) => match found.get(self.key) {
                // The record cache accepts only records within the size limits.
                Some((RecordKind::Value, value)) if self.key.len() + value.len() <= MAX_RECORD => {
                    Ok(Step::Done(Some(value.to_vec())))
                }
                Some(_) => Err(store.file.corruption(page, "the page holds a record that a tree does not write")),
                None => Ok(self.absent(store)),
            },
        }
    }

    /// Whether the page is of the expected kind and covers the key (invariant 4).
    fn is_wanted(&self, page: &Page<'_>) -> bool {
        let kind = if self.in_overflow {
            page.kind() == PageKind::Overflow && page.related() == self.pair.page
        } else {
            page.kind() == PageKind::Base
        };
        kind && page.covers(self.key)
    }

    /// Handles a page that does not have the key: continues in the overflow page, or ends.
    fn absent(&mut self, store: &Store) -> Step {
        if !self.in_overflow && self.pair.overflow != PagePair::NONE {
            self.in_overflow = true;
            return Step::Read(self.pair.overflow);
        }
        let now = store.index.lookup(self.key);
        if now == self.pair { Step::Done(None) } else { self.restart(now) }
    }

    /// Handles a page that is not the expected one: it is being written, or the index has changed, or the page is
    /// damaged.
    fn again(&mut self, store: &Store, page: u32, strange: PageMismatch) -> Result<Step> {
        let claimed = store.claims.is_claimed(self.pair.page);
        let now = store.index.lookup(self.key);
        if claimed || now != self.pair {
            self.mismatches = 0;
            ecotone_sys::primitive::thread::yield_now();
        } else {
            self.mismatches += 1;
        }
        if self.mismatches >= MAX_MISMATCHES {
            return Err(store.damage(page, strange));
        }
        Ok(self.restart(now))
    }

    fn restart(&mut self, pair: PagePair) -> Step {
        self.pair = pair;
        self.in_overflow = false;
        Step::Read(pair.page)
    }
}
