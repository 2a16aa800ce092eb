//! Which pages come next, with what is dirty of them.

use std::ops::Bound;

use ecotone_substrate::Result;

use super::{
    super::{
        Tree,
        cache::{Nearest, Stretch},
        index::{Home, Snapshot},
        store::{ABOVE_ALL, Strange},
    },
    window::Runs,
};
use crate::rest::{Direction, Rest};

/// A base page with its overflow page, the range that they had when the index said so, and the records of that range
/// that were dirty then: if these are many, the first ones in the order of the scan.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) home: Home,
    pub(super) lower: Vec<u8>,
    pub(super) upper: Option<Vec<u8>>,
    pub(super) dirty: Nearest,
    /// Whether the scan was there before, and now comes to what is behind the limit of its dirty records.
    pub(super) is_again: bool,
}

impl Expected {
    fn stretch(&self) -> Stretch {
        Stretch { lower: self.lower.clone(), upper: self.upper.clone() }
    }

    /// Whether it has a range, as every page of a sound index has.
    fn is_ordered(&self) -> bool {
        self.upper.as_ref().is_none_or(|upper| *upper > self.lower)
    }

    /// Whether the scan that stands there comes further with this page, as with every page that a sound index gives.
    fn goes_on(&self, direction: Direction, position: &Position) -> bool {
        let Position::Fence(key) = position else { return true };
        match direction {
            Direction::Up => self.lower <= *key && self.upper.as_ref().is_none_or(|upper| upper > key),
            Direction::Down => self.lower < *key && self.upper.as_ref().is_none_or(|upper| upper >= key),
        }
    }
}

/// Bytes of memory that the copies of dirty records take, for the pages of one read; they lie outside of the budget.
/// The first read has fewer, since most scans are short, and each one twice as many as the one before.
pub(super) const MOST_DIRTY: usize = 16 << 10;
pub(super) const FEW_DIRTY: usize = 1 << 10;

/// Where to read on.
#[derive(Debug)]
pub(super) enum Position {
    /// At the bound of what is left.
    Bound,
    /// At this fence.
    Fence(Vec<u8>),
    /// Within the last page, at the limit of its dirty records, once these are gone through.
    Limit(Vec<u8>),
    /// Nowhere: the last page is read.
    Over,
}

impl Position {
    /// Behind a page.
    pub(super) fn behind(at: &Expected, direction: Direction) -> Position {
        if let Some(limit) = &at.dirty.limit {
            return Position::Limit(limit.clone());
        }
        match direction {
            Direction::Up => at.upper.clone().map_or(Position::Over, Position::Fence),
            // Below the empty fence there is nothing.
            Direction::Down if at.lower.is_empty() => Position::Over,
            Direction::Down => Position::Fence(at.lower.clone()),
        }
    }

    /// In front of a page, to read it again. (The last page has no upper fence, and only the bound is above it.)
    pub(super) fn before(at: &Expected, direction: Direction) -> Position {
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
    /// Bytes of the copies of dirty records.
    pub(super) dirty: usize,
}

impl Tree {
    /// The next pages of a scan; none at the end of the range. Index and dirty records are looked at together, under
    /// the install lock and before any page is read: so nothing can move from the cache to a page between (trap 2;
    /// decision 2, "Scanning").
    pub(super) fn next_pages(
        &self,
        direction: Direction,
        position: &Position,
        rest: &Rest,
        width: Width,
    ) -> Result<Vec<Expected>> {
        self.check_live()?;
        let _installing = self.store.install.read();
        let index = self.store.index.snapshot();
        let mut pages = match direction {
            Direction::Up => pages_up(&index, position, rest, width.pages),
            Direction::Down => pages_down(&index, position, rest, width.pages),
        };
        let is_lost = |page: &&Expected| !page.is_ordered();
        if let Some(lost) =
            pages.first().filter(|first| !first.goes_on(direction, position)).or(pages.iter().find(is_lost))
        {
            return Err(self.store.damage(lost.home.page, Strange::Other));
        }
        pages.truncate(affordable(&pages, width.requests));
        let mut left = width.dirty;
        for number in 0..pages.len() {
            let dirty = self.cache.peek(self.space(), &pages[number].stretch(), rest, direction, left);
            let is_cut = dirty.limit.is_some();
            if is_cut && number > 0 {
                // It comes first next time.
                pages.truncate(number);
                break;
            }
            left = left.saturating_sub(dirty.records.memory());
            pages[number].dirty = dirty;
            if is_cut {
                pages.truncate(1);
                break;
            }
        }
        Ok(pages)
    }
}

fn pages_up(index: &Snapshot, position: &Position, rest: &Rest, most: usize) -> Vec<Expected> {
    let start = match (position, &rest.low) {
        (Position::Over | Position::Limit(_), _) => return Vec::new(),
        (Position::Fence(key), _) | (Position::Bound, Bound::Included(key) | Bound::Excluded(key)) => key.as_slice(),
        (Position::Bound, Bound::Unbounded) => &[],
    };
    let mut pages: Vec<Expected> = Vec::with_capacity(most);
    let mut entries = index.ascend(start);
    while let Some((lower, mut segment)) = entries.next_walk() {
        let mut fence = lower.clone();
        if pages.is_empty() {
            segment.seek(&lower, start, &mut fence);
        }
        while let Some(home) = segment.next(&lower, &mut fence) {
            if let Some(last) = pages.last_mut() {
                last.upper = Some(fence.clone());
            }
            // The first page holds the start.
            if pages.len() == most || !rest.is_below_high(if pages.is_empty() { start } else { &fence }) {
                return pages;
            }
            pages.push(Expected {
                home,
                lower: fence.clone(),
                upper: None,
                dirty: Nearest::default(),
                is_again: false,
            });
        }
    }
    pages
}

fn pages_down(index: &Snapshot, position: &Position, rest: &Rest, most: usize) -> Vec<Expected> {
    let (end, whole) = match (position, &rest.high) {
        (Position::Over | Position::Limit(_), _) => return Vec::new(),
        (Position::Fence(key), _) | (Position::Bound, Bound::Excluded(key)) => (key.as_slice(), false),
        (Position::Bound, Bound::Included(key)) => (key.as_slice(), true),
        (Position::Bound, Bound::Unbounded) => (&ABOVE_ALL[..], true),
    };
    let mut pages = Vec::with_capacity(most);
    let mut upper = index.after(end).map(|(upper, _)| upper);
    for (i, (lower, segment)) in index.descend(end).enumerate() {
        let mut left = segment.base_count();
        if i == 0 {
            let position = segment.position_of(&lower, end);
            // The page that begins at the end counts only if the end does.
            left = if !whole && segment.fence(&lower, position) == end { position } else { position + 1 };
            if left < segment.base_count() {
                upper = Some(segment.fence(&lower, left));
            }
        }
        for position in (0..left).rev() {
            if pages.len() == most || !rest.begins_below(upper.as_deref()) {
                return pages;
            }
            let begin = segment.fence(&lower, position);
            let end = upper.replace(begin.clone());
            let home = segment.home(position);
            pages.push(Expected { home, lower: begin, upper: end, dirty: Nearest::default(), is_again: false });
        }
    }
    pages
}

/// How many of the pages, the first in any case, so many requests can read.
fn affordable(pages: &[Expected], requests: usize) -> usize {
    let mut runs = Runs::default();
    let mut overflows = 0;
    let costly = pages.iter().skip_while(|expected| {
        runs.add(expected.home.page);
        overflows += usize::from(expected.home.overflow != Home::NONE);
        runs.len() + overflows <= requests
    });
    let beyond = costly.count();
    (pages.len() - beyond).max(1).min(pages.len())
}
