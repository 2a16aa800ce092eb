//! Iteration over a range, from both ends (T17).
//!
//! Each end reads pages ahead, more at a time the longer it goes, and gives their records in place, merged with the
//! dirty ones of the cache. What is seen when is told in `docs/decisions/0002-tree-first-form.md`, "Scanning"; the
//! parts are [`crate::lengths`] (how many pages to read), [`plan`] (which come next), [`window`] (reading them) and
//! [`merged`] (the records of one of them).

mod merged;
mod plan;
mod window;

use std::{ops::Bound, sync::Arc};

use ecotone_substrate::{Error, Result, memory::Component};
use ecotone_sys::chunk::Size;

use self::{
    merged::{Merged, Pages, Unfit},
    plan::{Expected, FEW_DIRTY, MOST_DIRTY, Position, Width},
    window::Window,
};
use super::{Tree, store::Strange};
use crate::{
    engine::{Cursor, Range, RecordRef},
    lengths::{LONG, Lengths, Stride, WIDEST},
    rest::{Direction, Rest},
};

/// Requests of a read that has others ahead; one without them is one request.
const REQUESTS: usize = 4;
/// Reads that are under way beside the one that a long scan goes through.
const AHEAD: usize = 3;
/// Bytes of memory from which on nothing more is read ahead. The last read may go beyond by as much.
const MOST_AHEAD: usize = 4 * Size::Slab.bytes();
/// A page without a record that is left counts as so many deleted ones, for that is about what it costs.
const EMPTY_PAGE: u64 = 16;
/// Strange pages in a row, with nobody to blame, after which a page is damaged. The first may have been read long
/// before it was looked at.
const PATIENCE: u32 = 4;

/// A cursor over a range of a tree.
#[derive(Debug)]
pub(crate) struct Scan {
    tree: Arc<Tree>,
    rest: Rest,
    /// The ends, as soon as they are used: few scans use both, and an end is large.
    front: Option<Box<End>>,
    back: Option<Box<End>>,
    /// The end that went to a record last.
    direction: Direction,
    over: bool,
    /// Whose memory its windows are.
    memory: Component,
    /// Deleted records that ends passed over which are gone.
    deletes: u64,
}

impl Scan {
    pub(crate) fn new(tree: Arc<Tree>, range: Range, memory: Component) -> Self {
        let rest = Rest::new(range);
        let over = rest.is_empty();
        Scan { tree, rest, front: None, back: None, direction: Direction::Up, over, memory, deletes: 0 }
    }

    /// Ends the scan: after its last record, after an error, and when nobody wants more of it.
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

    fn rest(&self) -> Range {
        self.rest.range()
    }

    fn deletes_passed(&self) -> u64 {
        self.deletes + [&self.front, &self.back].into_iter().flatten().map(|end| end.deletes).sum::<u64>()
    }
}

impl Tree {
    /// The largest key.
    pub(super) fn last_key(self: &Arc<Self>) -> Result<Option<Vec<u8>>> {
        let mut scan = Scan::new(self.clone(), (Bound::Unbounded, Bound::Unbounded), Component::Frames);
        Ok(scan.next_back()?.map(|(key, _)| key.to_vec()))
    }
}

/// One end of a scan.
#[derive(Debug)]
struct End {
    direction: Direction,
    /// Where the window ends.
    position: Position,
    /// Base pages that it came to.
    passed: usize,
    /// Base pages up to the end of the window.
    asked: usize,
    /// Reads that should be under way beside the one that is gone through.
    ahead: usize,
    /// Bytes of dirty records that the next read copies.
    dirty: usize,
    doubts: u32,
    /// The version that the index had at the last doubt.
    doubted: u64,
    window: Window,
    /// The page that is gone through, of the window's first batch.
    open: Option<Merged>,
    /// Deleted records that it passed over.
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
            doubts: 0,
            doubted: 0,
            window: Window::new(memory),
            open: None,
            deletes: 0,
        }
    }

    /// Goes to the next record; false if no page has one.
    fn advance(&mut self, tree: &Tree, rest: &mut Rest) -> Result<bool> {
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

    /// The record that it went to: a key in two parts, and a value.
    fn record(&self, tree: &Tree) -> Result<(&[u8], &[u8], &[u8])> {
        match (&self.open, self.window.first()) {
            (Some(open), Some(batch)) => open.record(&tree.store, batch),
            _ => Err(Error::Invalid("a scan went to no record".into())),
        }
    }

    /// Opens the next page; false at the end of the range.
    fn open_next(&mut self, tree: &Tree, rest: &mut Rest) -> Result<bool> {
        loop {
            self.window.pass();
            self.read_ahead(tree, rest)?;
            let Some(expected) = self.window.next() else { return Ok(false) };
            let Some(batch) = self.window.first_mut() else { return Ok(false) };
            let is_again = expected.is_again;
            let limited = expected.dirty.limit.as_deref().map(|limit| rest.until(self.direction, Some(limit)));
            let wanted = limited.as_ref().unwrap_or(rest);
            // A walk over everything leaves the page cache as it is.
            match Pages::open(tree, &expected, batch, wanted, self.passed < LONG) {
                Ok(pages) => {
                    let open = Merged::new(expected, pages, wanted);
                    // One begins in the middle of its first page.
                    self.deletes += if self.passed > 0 && open.is_empty() { EMPTY_PAGE } else { 0 };
                    self.open = Some(open);
                    self.doubts = 0;
                    self.passed += usize::from(!is_again);
                    return Ok(true);
                }
                Err(Unfit::Unread(error)) => return Err(error),
                Err(Unfit::Strange(page, why)) => {
                    self.begin_again(&expected);
                    self.doubt(tree, &expected, page, why)?;
                }
            }
        }
    }

    /// Asks for the next pages, and as many reads ahead as a scan of this length should have.
    fn read_ahead(&mut self, tree: &Tree, rest: &mut Rest) -> Result<()> {
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
                *rest = rest.behind(self.direction, limit);
                self.position = Position::Bound;
            }
            let (width, ahead) = self.next_read(&tree.lengths);
            let mut pages = tree.next_pages(self.direction, &self.position, rest, width)?;
            pages.iter_mut().take(1).for_each(|first| first.is_again = is_again);
            if pages.is_empty() {
                self.position = Position::Over;
                return Ok(());
            }
            let asked = self.asked + pages.len() - usize::from(is_again);
            match self.window.ask(tree, pages, self.direction, needed && ahead == 0) {
                Ok(position) => self.position = position,
                // What is not needed yet may find memory later.
                Err(Error::Memory { .. }) if !needed => return Ok(()),
                Err(error) => return Err(error),
            }
            (self.asked, self.ahead, self.dirty) = (asked, ahead, MOST_DIRTY.min(2 * self.dirty));
        }
    }

    /// What the next read takes at most, and how many reads should be under way behind it.
    fn next_read(&self, lengths: &Lengths) -> (Width, usize) {
        let width = |pages, requests| Width { pages, requests, dirty: self.dirty };
        match lengths.stride(self.asked) {
            Some(Stride { pages, ahead: false }) => (width(pages, 1), 0),
            Some(Stride { pages, ahead: true }) => (width(pages, REQUESTS), 1),
            None => (width(WIDEST, REQUESTS), AHEAD),
        }
    }

    /// Reads on from a page that turned out to be another one, with what is dirty of it now.
    fn begin_again(&mut self, expected: &Expected) {
        self.window.clear();
        self.position = Position::before(expected, self.direction);
        self.asked = self.passed;
        self.ahead = 0;
    }

    /// A page is not what was expected: somebody writes it, or the index has moved on, or it is damaged.
    fn doubt(&mut self, tree: &Tree, expected: &Expected, page: u32, why: Strange) -> Result<()> {
        let version = tree.store.index.version();
        // An index that is damaged itself names another page for the fence of this one for ever.
        let has_moved = version != self.doubted && tree.store.index.lookup(&expected.lower) != expected.home;
        self.doubted = version;
        if tree.store.claims.is_claimed(expected.home.page) || has_moved {
            self.doubts = 0;
            ecotone_sys::primitive::thread::yield_now();
        } else {
            self.doubts += 1;
        }
        if self.doubts >= PATIENCE { Err(tree.store.damage(page, why)) } else { Ok(()) }
    }
}
