//! Which pages come next, with what is dirty of them.

use ecotone_substrate::Result;

use super::{
    super::{
        Tree,
        cache::DirtyRecord,
        index::Segment,
        store::{Located, ascending, descending},
    },
    rest::{Direction, Rest},
    window::Runs,
};

/// A base page with its overflow page, the range that they had when the index said so, and the records of that range that were dirty then.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) home: Segment,
    pub(super) lower: Vec<u8>,
    pub(super) upper: Option<Vec<u8>>,
    pub(super) dirty: Vec<DirtyRecord>,
}

/// Where to read on.
#[derive(Debug)]
pub(super) enum Position {
    /// At the bound of what is left.
    Bound,
    /// At this fence.
    Fence(Vec<u8>),
    /// Nowhere: the last page is read.
    Over,
}

impl Position {
    /// Behind a page.
    pub(super) fn behind(at: &Planned, direction: Direction) -> Position {
        match direction {
            Direction::Up => at.upper.clone().map_or(Position::Over, Position::Fence),
            // Below the empty fence there is nothing.
            Direction::Down if at.lower.is_empty() => Position::Over,
            Direction::Down => Position::Fence(at.lower.clone()),
        }
    }

    /// In front of a page, to read it again. (The last page has no upper fence, and only the bound is above it.)
    pub(super) fn before(at: &Planned, direction: Direction) -> Position {
        match direction {
            Direction::Up => Position::Fence(at.lower.clone()),
            Direction::Down => at.upper.clone().map_or(Position::Bound, Position::Fence),
        }
    }
}

/// The most that one read may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Width {
    pub(super) pages: usize,
    /// One page is read in any case.
    pub(super) requests: usize,
}

impl Tree {
    /// The next pages of a scan; none at the end of the range. Index and chains are looked at together, under the install lock and before any page is
    /// read: so the chains are the pages' own, and nothing can move from the cache to a page between (trap 2; decision 2, "Scanning").
    pub(super) fn plan(&self, direction: Direction, position: &Position, rest: &Rest, width: Width) -> Result<Vec<Planned>> {
        self.check_live()?;
        let _installing = self.store.install.read();
        let mut pages = match direction {
            Direction::Up => self.pages_up(position, rest, width.pages),
            Direction::Down => self.pages_down(position, rest, width.pages),
        };
        pages.truncate(affordable(&pages, width.requests));
        let planned = |Located { lower, upper, segment }| {
            let dirty = self.cache.peek_dirty_where(self.number, segment.page, |key| rest.contains(key));
            Planned { home: segment, lower, upper, dirty }
        };
        Ok(pages.into_iter().map(planned).collect())
    }

    fn pages_up(&self, position: &Position, rest: &Rest, most: usize) -> Vec<Located> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let start = match (position, &rest.low) {
            (Position::Over, _) => return Vec::new(),
            (Position::Fence(key), _) | (Position::Bound, Included(key) | Excluded(key)) => key.as_slice(),
            (Position::Bound, Unbounded) => &[],
        };
        if !rest.is_below_high(start) {
            return Vec::new();
        }
        let mut pages = ascending(&self.store.index.snapshot(), start, most);
        // The first holds the start.
        let more = pages.iter().skip(1).take_while(|at| rest.is_below_high(&at.lower)).count();
        pages.truncate(1 + more);
        pages
    }

    fn pages_down(&self, position: &Position, rest: &Rest, most: usize) -> Vec<Located> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let (end, whole) = match (position, &rest.high) {
            (Position::Over, _) => return Vec::new(),
            (Position::Fence(key), _) | (Position::Bound, Excluded(key)) => (Some(key.as_slice()), false),
            (Position::Bound, Included(key)) => (Some(key.as_slice()), true),
            (Position::Bound, Unbounded) => (None, true),
        };
        let mut pages = descending(&self.store.index.snapshot(), end, whole, most);
        let within = pages.iter().take_while(|at| rest.begins_below(at.upper.as_deref())).count();
        pages.truncate(within);
        pages
    }
}

/// How many of the pages, the first in any case, so many requests can read.
fn affordable(pages: &[Located], requests: usize) -> usize {
    let mut runs = Runs::default();
    let mut overflows = 0;
    let costly = pages.iter().skip_while(|at| {
        runs.add(at.segment.page);
        overflows += usize::from(at.segment.overflow != Segment::NONE);
        runs.len() + overflows <= requests
    });
    let beyond = costly.count();
    (pages.len() - beyond).max(1).min(pages.len())
}
