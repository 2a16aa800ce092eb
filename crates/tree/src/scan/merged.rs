//! Merges the records of a base page, its overflow page and the cache, in scan order.

use std::{cmp::Ordering, ops::Bound};

use ecotone_engine::remaining_range::{Direction, RemainingRange};
use ecotone_substrate::{
    Error, Result,
    page::{Page, PageKind, RecordKind, Resident},
};

use super::{
    super::{
        Tree,
        dirty::DirtyRecord,
        index::PagePair,
        store::{PageMismatch, Store},
    },
    plan::PlannedPage,
    window::{Batch, PageSlot},
};

/// Record positions; those from `start` to `end` remain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: usize,
    end: usize,
}

impl Span {
    /// The part of `len` records that lies in `rest`. `search` is a binary search over them.
    fn of(len: usize, rest: &RemainingRange, search: impl Fn(&[u8]) -> std::result::Result<usize, usize>) -> Self {
        let start = match &rest.low {
            Bound::Unbounded => 0,
            Bound::Included(low) => search(low).unwrap_or_else(|position| position),
            Bound::Excluded(low) => search(low).map_or_else(|position| position, |position| position + 1),
        };
        let end = match &rest.high {
            Bound::Unbounded => len,
            Bound::Included(high) => search(high).map_or_else(|position| position, |position| position + 1),
            Bound::Excluded(high) => search(high).unwrap_or_else(|position| position),
        };
        Span { start, end }
    }

    #[inline]
    fn peek(self, direction: Direction) -> Option<usize> {
        (self.start < self.end).then(|| if direction == Direction::Up { self.start } else { self.end - 1 })
    }

    #[inline]
    fn pass(&mut self, direction: Direction) {
        match direction {
            Direction::Up => self.start += 1,
            Direction::Down => self.end -= 1,
        }
    }
}

/// A verified page, and its remaining records.
#[derive(Debug)]
struct Source {
    spot: PageSlot,
    page: Resident,
    left: Span,
}

impl Source {
    fn new(spot: PageSlot, page: &Page<'_>, rest: &RemainingRange) -> Self {
        Source { spot, page: Resident::new(page), left: Span::of(page.len(), rest, |key| page.search(key)) }
    }

    #[inline]
    fn page<'a>(&self, batch: &'a Batch) -> Page<'a> {
        self.page.page(batch.bytes(self.spot))
    }

    /// The next record: its position and suffix; the suffix of a malformed record is empty.
    fn peek<'a>(&self, direction: Direction, batch: &'a Batch) -> Option<(usize, &'a [u8])> {
        let position = self.left.peek(direction)?;
        Some((position, self.page(batch).entry(position).map_or(&[][..], |entry| entry.suffix)))
    }
}

/// The source and position of a record.
#[derive(Debug, Clone, Copy)]
enum Found {
    Base(usize),
    Overflow(usize),
    Dirty(usize),
}

/// Why a page could not be used.
#[derive(Debug)]
pub(super) enum UnusablePage {
    /// The page is not the expected one.
    Strange(u32, PageMismatch),
    /// The page could not be read.
    Unread(Error),
}

/// The expected properties of a page.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    page: u32,
    kind: PageKind,
    expected: &'a PlannedPage,
}

impl Wanted<'_> {
    /// Verifies a page after reading it (tree-protocol.md, invariant 4), or as it was cached. With `keep` a page that
    /// was read is offered to the page cache.
    fn open(
        self,
        tree: &Tree,
        batch: &mut Batch,
        rest: &RemainingRange,
        keep: bool,
    ) -> std::result::Result<Source, UnusablePage> {
        let spot = batch.find(self.page).map_err(UnusablePage::Unread)?;
        let (id, ticket) = (tree.page_id(self.page), batch.ticket(spot));
        let parsed = if ticket.is_some() {
            tree.store.amend(self.page, batch.bytes_mut(spot));
            tree.store.parse(batch.bytes(spot), self.page)
        } else {
            Page::reparse(batch.bytes(spot)).map_err(|_| PageMismatch::Other)
        };
        let strange = match parsed {
            Ok(page) if self.is(&page) => {
                if let Some(ticket) = ticket.filter(|_| keep) {
                    tree.pages.admit(id, batch.bytes(spot), ticket);
                }
                return Ok(Source::new(spot, &page, rest));
            }
            Ok(_) => PageMismatch::Other,
            Err(strange) => strange,
        };
        if ticket.is_none() {
            // The next attempt reads the page from disk (invariant 19).
            tree.pages.forget(id);
        }
        Err(UnusablePage::Strange(self.page, strange))
    }

    fn is(self, page: &Page<'_>) -> bool {
        let related = self.kind == PageKind::Base || page.related() == self.expected.pair.page;
        let fences = page.lower() == self.expected.lower && page.upper() == self.expected.upper.as_deref();
        page.kind() == self.kind && related && fences
    }
}

/// A base page and its overflow page, read and verified.
#[derive(Debug)]
pub(super) struct Pages {
    base: Source,
    overflow: Option<Source>,
}

impl Pages {
    /// Checks that the pages match the index as it was when the dirty records were copied.
    pub(super) fn open(
        tree: &Tree,
        expected: &PlannedPage,
        batch: &mut Batch,
        rest: &RemainingRange,
        keep: bool,
    ) -> std::result::Result<Pages, UnusablePage> {
        let PagePair { page, overflow, .. } = expected.pair;
        let base = Wanted { page, kind: PageKind::Base, expected }.open(tree, batch, rest, keep)?;
        if overflow == PagePair::NONE {
            return Ok(Pages { base, overflow: None });
        }
        let overflow = Wanted { page: overflow, kind: PageKind::Overflow, expected }.open(tree, batch, rest, keep)?;
        Ok(Pages { base, overflow: Some(overflow) })
    }

    /// The next stored record. If a key is in both pages, which no sound segment has, the base page's record is used.
    fn peek<'a>(&mut self, direction: Direction, batch: &'a Batch) -> Option<(Found, &'a [u8])> {
        let base = self.base.peek(direction, batch);
        let Some(overflow) = &mut self.overflow else { return base.map(|(at, suffix)| (Found::Base(at), suffix)) };
        match (base, overflow.peek(direction, batch)) {
            (Some((at, first)), Some((_, second))) if first == second => {
                overflow.left.pass(direction);
                Some((Found::Base(at), first))
            }
            (Some((at, first)), Some((_, second))) if direction.order(first, second).is_lt() => {
                Some((Found::Base(at), first))
            }
            (_, Some((at, second))) => Some((Found::Overflow(at), second)),
            (first, None) => first.map(|(at, first)| (Found::Base(at), first)),
        }
    }

    fn pass(&mut self, direction: Direction, found: Found) {
        match (found, &mut self.overflow) {
            (Found::Overflow(_), Some(overflow)) => overflow.left.pass(direction),
            _ => self.base.left.pass(direction),
        }
    }
}

/// The merged records of a base page: records of the cache replace stored ones, add to them, and (as tombstones) hide
/// them.
#[derive(Debug)]
pub(super) struct Merged {
    expected: PlannedPage,
    pages: Pages,
    changed: Span,
    found: Found,
}

impl Merged {
    pub(super) fn new(expected: PlannedPage, pages: Pages, rest: &RemainingRange) -> Merged {
        let dirty = &expected.dirty.records;
        let changed = Span::of(dirty.len(), rest, |key| dirty.search(key));
        Merged { expected, pages, changed, found: Found::Base(0) }
    }

    /// Whether no records remain, not even tombstones.
    pub(super) fn is_empty(&self) -> bool {
        let Pages { base, overflow } = &self.pages;
        let stored = [Some(base), overflow.as_ref()].into_iter().flatten().map(|source| source.left);
        stored.chain([self.changed]).all(|span| span.peek(Direction::Up).is_none())
    }

    /// Moves to the next record; false if there is none. Counts the tombstones passed over.
    #[inline]
    pub(super) fn advance(&mut self, direction: Direction, batch: &Batch, deletes: &mut u64) -> bool {
        let found = if self.pages.overflow.is_none() && self.changed.peek(direction).is_none() {
            let left = &mut self.pages.base.left;
            left.peek(direction).map(|position| {
                left.pass(direction);
                Found::Base(position)
            })
        } else {
            self.choose(direction, batch, deletes)
        };
        found.map(|found| self.found = found).is_some()
    }

    fn choose(&mut self, direction: Direction, batch: &Batch, deletes: &mut u64) -> Option<Found> {
        let prefix = self.pages.base.page(batch).prefix().len();
        loop {
            let stored = self.pages.peek(direction, batch);
            let changed = self.changed.peek(direction);
            let order = match (stored, changed) {
                (Some((_, suffix)), Some(at)) => {
                    direction.order(suffix, self.expected.dirty.records.get(at).key.get(prefix..).unwrap_or_default())
                }
                (Some(_), None) => Ordering::Less,
                _ => Ordering::Greater,
            };
            if let (Some((found, _)), true) = (stored, order.is_le()) {
                self.pages.pass(direction, found);
                if order.is_lt() {
                    return Some(found);
                }
            }
            let at = changed?;
            self.changed.pass(direction);
            if self.expected.dirty.records.get(at).value.is_some() {
                return Some(Found::Dirty(at));
            }
            *deletes += 1;
        }
    }

    /// The current record: a key in two parts, and a value.
    #[inline]
    pub(super) fn record<'a>(&'a self, store: &Store, batch: &'a Batch) -> Result<(&'a [u8], &'a [u8], &'a [u8])> {
        let (source, position) = match (self.found, &self.pages.overflow) {
            (Found::Dirty(at), _) => {
                let DirtyRecord { key, value, .. } = self.expected.dirty.records.get(at);
                return Ok((&[], key, value.unwrap_or_default()));
            }
            (Found::Overflow(at), Some(overflow)) => (overflow, at),
            (Found::Base(at) | Found::Overflow(at), _) => (&self.pages.base, at),
        };
        let page = source.page(batch);
        match page.entry(position) {
            Some(entry) if entry.kind == RecordKind::Value => Ok((page.prefix(), entry.suffix, entry.value)),
            _ => Err(store
                .file
                .corruption(self.expected.pair.page, "the page holds a record that a tree does not write")),
        }
    }
}
