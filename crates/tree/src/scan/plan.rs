//! The plan of a scan: the next pages, with their dirty records.

use std::ops::Bound;

use ecotone_engine::remaining_range::{Direction, RemainingRange};
use ecotone_substrate::Result;

use super::{
    super::{
        Tree,
        cache::{DirtyOverlay, KeySpan},
        index::{PagePair, Snapshot},
        store::{ABOVE_ALL, PageMismatch},
    },
    runs::Runs,
};

/// A base page with its overflow page, their range in the index at planning time, and the dirty records of that range
/// at that time: if these are many, only the first ones in scan order.
#[derive(Debug)]
pub(super) struct PlannedPage {
    pub(super) pair: PagePair,
    pub(super) lower: Vec<u8>,
    pub(super) upper: Option<Vec<u8>>,
    pub(super) dirty: DirtyOverlay,
    /// Whether the scan visited this page before, and now continues after the limit of its dirty records.
    pub(super) is_again: bool,
}

impl PlannedPage {
    fn span(&self) -> KeySpan {
        KeySpan { lower: self.lower.clone(), upper: self.upper.clone() }
    }

    /// Whether the range is not empty, as in a sound index.
    fn is_ordered(&self) -> bool {
        self.upper.as_ref().is_none_or(|upper| *upper > self.lower)
    }

    /// Whether this page advances a scan at `position`, as every page of a sound index does.
    fn goes_on(&self, direction: Direction, position: &Position) -> bool {
        let Position::Fence(key) = position else { return true };
        match direction {
            Direction::Up => self.lower <= *key && self.upper.as_ref().is_none_or(|upper| upper > key),
            Direction::Down => self.lower < *key && self.upper.as_ref().is_none_or(|upper| upper >= key),
        }
    }
}

/// Most bytes of dirty record copies for the pages of one read; they are not charged to the budget. The first read has
/// fewer, since most scans are short, and each read has twice as many as the one before.
pub(super) const MOST_DIRTY: usize = 16 << 10;
pub(super) const FEW_DIRTY: usize = 1 << 10;

/// The position of the next read.
#[derive(Debug)]
pub(super) enum Position {
    /// At the bound of the remaining range.
    Bound,
    /// At this fence.
    Fence(Vec<u8>),
    /// Within the last page, at the limit of its dirty records, once these are consumed.
    Limit(Vec<u8>),
    /// At the end: the last page was read.
    Over,
}

impl Position {
    /// The position after a page.
    pub(super) fn behind(at: &PlannedPage, direction: Direction) -> Position {
        if let Some(limit) = &at.dirty.limit {
            return Position::Limit(limit.clone());
        }
        match direction {
            Direction::Up => at.upper.clone().map_or(Position::Over, Position::Fence),
            // No key is below the empty fence.
            Direction::Down if at.lower.is_empty() => Position::Over,
            Direction::Down => Position::Fence(at.lower.clone()),
        }
    }

    /// The position before a page, to read it again. (The last page has no upper fence, and only the bound is above
    /// it.)
    pub(super) fn before(at: &PlannedPage, direction: Direction) -> Position {
        match direction {
            Direction::Up => Position::Fence(at.lower.clone()),
            Direction::Down => at.upper.clone().map_or(Position::Bound, Position::Fence),
        }
    }
}

/// Limits of one read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadLimit {
    pub(super) pages: usize,
    /// At least one page is read.
    pub(super) requests: usize,
    /// Bytes of the copies of dirty records.
    pub(super) dirty: usize,
}

/// The next pages of a scan; none at the end of the range. The index and the dirty records are read together, under
/// the install lock and before any page is read, so no record can move from the cache to a page in between (trap 2;
/// tree.md, "Scans").
pub(super) fn next_pages(
    tree: &Tree,
    direction: Direction,
    position: &Position,
    rest: &RemainingRange,
    width: ReadLimit,
) -> Result<Vec<PlannedPage>> {
    tree.cache.check_live()?;
    let _installing = tree.store.install.read();
    let index = tree.store.index.snapshot();
    let mut pages = match direction {
        Direction::Up => pages_up(&index, position, rest, width.pages),
        Direction::Down => pages_down(&index, position, rest, width.pages),
    };
    let is_lost = |page: &&PlannedPage| !page.is_ordered();
    if let Some(lost) = pages.first().filter(|first| !first.goes_on(direction, position)).or(pages.iter().find(is_lost))
    {
        return Err(tree.store.damage(lost.pair.page, PageMismatch::Other));
    }
    pages.truncate(affordable(&pages, width.requests));
    let mut left = width.dirty;
    for number in 0..pages.len() {
        let dirty = tree.cache.peek(&pages[number].span(), rest, direction, left);
        let is_cut = dirty.limit.is_some();
        if is_cut && number > 0 {
            // The page comes first in the next read.
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

fn pages_up(index: &Snapshot, position: &Position, rest: &RemainingRange, most: usize) -> Vec<PlannedPage> {
    let start = match (position, &rest.low) {
        (Position::Over | Position::Limit(_), _) => return Vec::new(),
        (Position::Fence(key), _) | (Position::Bound, Bound::Included(key) | Bound::Excluded(key)) => key.as_slice(),
        (Position::Bound, Bound::Unbounded) => &[],
    };
    let mut pages: Vec<PlannedPage> = Vec::with_capacity(most);
    let mut entries = index.ascend(start);
    while let Some((lower, mut segment)) = entries.next_walk() {
        let mut fence = lower.clone();
        if pages.is_empty() {
            segment.seek(&lower, start, &mut fence);
        }
        while let Some(pair) = segment.next(&lower, &mut fence) {
            if let Some(last) = pages.last_mut() {
                last.upper = Some(fence.clone());
            }
            // The first page contains the start.
            if pages.len() == most || !rest.is_below_high(if pages.is_empty() { start } else { &fence }) {
                return pages;
            }
            pages.push(PlannedPage {
                pair,
                lower: fence.clone(),
                upper: None,
                dirty: DirtyOverlay::default(),
                is_again: false,
            });
        }
    }
    pages
}

fn pages_down(index: &Snapshot, position: &Position, rest: &RemainingRange, most: usize) -> Vec<PlannedPage> {
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
            // The page whose lower fence is the end counts only if the end is included.
            left = if !whole && segment.fence(&lower, position) == end { position } else { position + 1 };
            if left < segment.base_count() {
                upper = Some(segment.fence(&lower, left));
            }
        }
        for position in (0..left).rev() {
            if pages.len() == most || !rest.may_begin_below(upper.as_deref()) {
                return pages;
            }
            let begin = segment.fence(&lower, position);
            let end = upper.replace(begin.clone());
            let pair = segment.page_pair(position);
            pages.push(PlannedPage { pair, lower: begin, upper: end, dirty: DirtyOverlay::default(), is_again: false });
        }
    }
    pages
}

/// How many of the pages so many requests can read; at least the first.
fn affordable(pages: &[PlannedPage], requests: usize) -> usize {
    let mut runs = Runs::default();
    let mut overflows = 0;
    let costly = pages.iter().skip_while(|expected| {
        runs.add(expected.pair.page);
        overflows += usize::from(expected.pair.overflow != PagePair::NONE);
        runs.len() + overflows <= requests
    });
    let beyond = costly.count();
    (pages.len() - beyond).max(1).min(pages.len())
}
