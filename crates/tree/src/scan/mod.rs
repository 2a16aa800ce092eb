//! Scans: iteration over a range, from both ends (T17).
//!
//! Each end reads pages ahead, more at a time the longer it runs, and returns their records in place, merged with the
//! dirty records of the cache. tree.md, "Scans", says which writes a scan sees. The parts are
//! [`ecotone_engine::read_ahead`] (how many pages to read), [`plan`] (which pages come next), [`window`] (reading them)
//! and [`merged`] (the records of one page).

mod merged;
mod plan;
mod runs;
mod window;

use std::{ops::Bound, sync::Arc};

use ecotone_engine::{
    contract::{Cursor, Range, RecordRef},
    read_ahead::{LARGEST_READ, LONG_SCAN_PAGES, ReadWidth, ScanLengths},
    remaining_range::{Direction, RemainingRange},
};
use ecotone_substrate::{Error, Result, memory::Component};
use ecotone_sys::chunk::Size;

use self::{
    merged::{Merged, Pages, UnusablePage},
    plan::{FEW_DIRTY, MOST_DIRTY, PlannedPage, Position, ReadLimit},
    window::Window,
};
use super::{Tree, store::PageMismatch};

/// Most requests of a read that has other reads ahead; a read without is one request.
const REQUESTS: usize = 4;
/// Reads in flight ahead of the one that a long scan visits.
const AHEAD: usize = 3;
/// Bytes of memory from which on nothing more is read ahead. The last read may exceed it by its own size.
const MOST_AHEAD: usize = 4 * Size::Slab.bytes();
/// A page without a remaining record counts as so many tombstones, which is about its cost.
const EMPTY_PAGE: u64 = 16;
/// Mismatching pages in a row, without a concurrent change, after which a page is reported as damaged. The first may
/// have been read long before it was checked.
const MAX_MISMATCHES: u32 = 4;

/// A cursor over a range of a tree.
#[derive(Debug)]
pub(crate) struct Scan {
    tree: Arc<Tree>,
    rest: RemainingRange,
    /// The two ends, created on first use: few scans use both, and an end is large.
    front: Option<Box<End>>,
    back: Option<Box<End>>,
    /// The end that moved last.
    direction: Direction,
    over: bool,
    /// The component that its windows are charged to.
    memory: Component,
    /// Tombstones that ends passed over which are dropped already.
    deletes: u64,
}

impl Scan {
    pub(crate) fn new(tree: Arc<Tree>, range: Range, memory: Component) -> Self {
        let rest = RemainingRange::new(range);
        let over = rest.is_empty();
        Scan { tree, rest, front: None, back: None, direction: Direction::Up, over, memory, deletes: 0 }
    }

    /// Ends the scan: after its last record, after an error, and when it is dropped.
    fn finish(&mut self) {
        self.over = true;
        for end in [self.front.take(), self.back.take()].into_iter().flatten() {
            self.deletes += end.deletes;
            if end.passed > 0 {
                self.tree.lengths.count(end.passed);
            }
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Cursor for Scan {
    fn advance(&mut self, direction: Direction) -> Result<bool> {
        if self.over {
            return Ok(false);
        }
        self.direction = direction;
        let end = if direction == Direction::Up { &mut self.front } else { &mut self.back };
        let end = end.get_or_insert_with(|| Box::new(End::new(direction, self.memory)));
        let there = end.advance(&self.tree, &mut self.rest);
        if !matches!(there, Ok(true)) {
            self.finish();
        }
        there
    }

    fn take(&mut self) -> Result<Option<RecordRef<'_>>> {
        let end = if self.direction == Direction::Up { &self.front } else { &self.back };
        let Some(end) = end else { return Ok(None) };
        let found = end.record(&self.tree).map(|(prefix, suffix, value)| {
            let within = self.rest.take(self.direction, prefix, suffix);
            within.then(|| (self.rest.taken(self.direction), value))
        });
        self.over = !matches!(found, Ok(Some(_)));
        found
    }

    fn remaining(&self) -> Range {
        self.rest.range()
    }

    fn deletes_passed(&self) -> u64 {
        self.deletes + [&self.front, &self.back].into_iter().flatten().map(|end| end.deletes).sum::<u64>()
    }
}

/// The largest key of a tree.
pub(super) fn last_key(tree: &Arc<Tree>) -> Result<Option<Vec<u8>>> {
    let mut scan = Scan::new(tree.clone(), (Bound::Unbounded, Bound::Unbounded), Component::Frames);
    Ok(scan.next_back()?.map(|(key, _)| key.to_vec()))
}

/// One end of a scan.
#[derive(Debug)]
struct End {
    direction: Direction,
    /// The end of the window.
    position: Position,
    /// Base pages visited.
    passed: usize,
    /// Base pages requested.
    asked: usize,
    /// Reads that should be in flight beside the one being visited.
    ahead: usize,
    /// Bytes of dirty records that the next read copies.
    dirty: usize,
    mismatches: u32,
    /// The index version at the last page mismatch.
    doubted: u64,
    window: Window,
    /// The page being visited, of the window's first batch.
    open: Option<Merged>,
    /// Tombstones that it passed over.
    deletes: u64,
}

impl End {
    fn new(direction: Direction, memory: Component) -> Self {
        End {
            direction,
            position: Position::Bound,
            passed: 0,
            asked: 0,
            ahead: 0,
            dirty: FEW_DIRTY,
            mismatches: 0,
            doubted: 0,
            window: Window::new(memory),
            open: None,
            deletes: 0,
        }
    }

    /// Moves to the next record; false if no page has one.
    fn advance(&mut self, tree: &Tree, rest: &mut RemainingRange) -> Result<bool> {
        loop {
            if let (Some(open), Some(batch)) = (&mut self.open, self.window.first())
                && open.advance(self.direction, batch, &mut self.deletes)
            {
                return Ok(true);
            }
            self.open = None;
            if !self.open_next(tree, rest)? {
                return Ok(false);
            }
        }
    }

    /// The current record: a key in two parts, and a value.
    fn record(&self, tree: &Tree) -> Result<(&[u8], &[u8], &[u8])> {
        match (&self.open, self.window.first()) {
            (Some(open), Some(batch)) => open.record(&tree.store, batch),
            _ => Err(Error::Invalid("a scan went to no record".into())),
        }
    }

    /// Opens the next page; false at the end of the range.
    fn open_next(&mut self, tree: &Tree, rest: &mut RemainingRange) -> Result<bool> {
        loop {
            self.window.pass();
            self.read_ahead(tree, rest)?;
            let Some(expected) = self.window.next() else { return Ok(false) };
            let Some(batch) = self.window.first_mut() else { return Ok(false) };
            let is_again = expected.is_again;
            let limited = expected.dirty.limit.as_deref().map(|limit| rest.split_before(self.direction, Some(limit)));
            let wanted = limited.as_ref().unwrap_or(rest);
            // A long scan leaves the page cache unchanged.
            match Pages::open(tree, &expected, batch, wanted, self.passed < LONG_SCAN_PAGES) {
                Ok(pages) => {
                    let open = Merged::new(expected, pages, wanted);
                    // The first page is excluded, since a scan begins in its middle.
                    self.deletes += if self.passed > 0 && open.is_empty() { EMPTY_PAGE } else { 0 };
                    self.open = Some(open);
                    self.mismatches = 0;
                    self.passed += usize::from(!is_again);
                    return Ok(true);
                }
                Err(UnusablePage::Unread(error)) => return Err(error),
                Err(UnusablePage::Strange(page, why)) => {
                    self.begin_again(&expected);
                    self.recheck_page(tree, &expected, page, why)?;
                }
            }
        }
    }

    /// Requests the next pages, and as many reads ahead as a scan of this length should have.
    fn read_ahead(&mut self, tree: &Tree, rest: &mut RemainingRange) -> Result<()> {
        loop {
            let needed = self.window.len() == 0;
            let is_enough = |window: &Window| window.bytes() >= MOST_AHEAD || window.dirty_bytes() >= MOST_DIRTY;
            if !needed && (self.window.len() > self.ahead || is_enough(&self.window)) {
                return Ok(());
            }
            let is_again = matches!(self.position, Position::Limit(_));
            if let Position::Limit(limit) = &self.position {
                if !needed {
                    return Ok(());
                }
                *rest = rest.split_after(self.direction, limit);
                self.position = Position::Bound;
            }
            let (width, ahead) = self.next_read(&tree.lengths);
            let mut pages = plan::next_pages(tree, self.direction, &self.position, rest, width)?;
            pages.iter_mut().take(1).for_each(|first| first.is_again = is_again);
            if pages.is_empty() {
                self.position = Position::Over;
                return Ok(());
            }
            let asked = self.asked + pages.len() - usize::from(is_again);
            match self.window.ask(tree, pages, self.direction, needed && ahead == 0) {
                Ok(position) => self.position = position,
                // A read that is not needed yet may get memory later.
                Err(Error::Memory { .. }) if !needed => return Ok(()),
                Err(error) => return Err(error),
            }
            (self.asked, self.ahead, self.dirty) = (asked, ahead, MOST_DIRTY.min(2 * self.dirty));
        }
    }

    /// The limit of the next read, and how many reads should be in flight after it.
    fn next_read(&self, lengths: &ScanLengths) -> (ReadLimit, usize) {
        let width = |pages, requests| ReadLimit { pages, requests, dirty: self.dirty };
        match lengths.next_read(self.asked) {
            Some(ReadWidth { pages, ahead: false }) => (width(pages, 1), 0),
            Some(ReadWidth { pages, ahead: true }) => (width(pages, REQUESTS), 1),
            None => (width(LARGEST_READ, REQUESTS), AHEAD),
        }
    }

    /// Restarts from a page that was not the expected one, with its current dirty records.
    fn begin_again(&mut self, expected: &PlannedPage) {
        self.window.clear();
        self.position = Position::before(expected, self.direction);
        self.asked = self.passed;
        self.ahead = 0;
    }

    /// Handles a page mismatch: the page is being written, the index has changed, or the page is damaged.
    fn recheck_page(&mut self, tree: &Tree, expected: &PlannedPage, page: u32, why: PageMismatch) -> Result<()> {
        let version = tree.store.index.version();
        // A damaged index would map the fence of this page to another page forever.
        let has_moved = version != self.doubted && tree.store.index.lookup(&expected.lower) != expected.pair;
        self.doubted = version;
        if tree.store.claims.is_claimed(expected.pair.page) || has_moved {
            self.mismatches = 0;
            ecotone_sys::primitive::thread::yield_now();
        } else {
            self.mismatches += 1;
        }
        if self.mismatches >= MAX_MISMATCHES { Err(tree.store.damage(page, why)) } else { Ok(()) }
    }
}
