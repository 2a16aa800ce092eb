//! Iteration over a range, from both ends: segments are read several at a time and merged with their dirty records (T17).

use std::{collections::VecDeque, ops::Bound, sync::Arc};

use ecotone_substrate::{Result, page::Page};

use super::{
    Tree,
    cache::DirtyRecord,
    index::Home,
    merge,
    records::Records,
    store::{Pages, Strange, homes_below, homes_from},
};
use crate::engine::{Range, Record};

/// Homes that a long scan reads at once.
const WIDEST: usize = 16;
/// Strange pages in a row, with nobody to blame, after which a page is damaged.
const PATIENCE: u32 = 3;

/// An owned iterator over a range of a tree.
pub(crate) struct Scan {
    tree: Arc<Tree>,
    /// What is left: everything between these.
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    front: End,
    back: End,
    over: bool,
}

/// What one end has read and not given yet.
struct End {
    runs: VecDeque<Records>,
    /// Records of the first run that are given.
    given: usize,
    /// Where to read on: the lower fence for the front, the upper fence for the back. `None` before the first read.
    next: Option<Option<Vec<u8>>>,
    width: usize,
}

impl Default for End {
    fn default() -> Self {
        End { runs: VecDeque::new(), given: 0, next: None, width: 1 }
    }
}

impl Scan {
    pub(crate) fn new(tree: Arc<Tree>, range: Range) -> Self {
        let (low, high) = range;
        let over = is_empty(&low, &high);
        Scan { tree, low, high, front: End::default(), back: End::default(), over }
    }

    /// Ends the scan: after its last record, and after an error.
    fn finish<T>(&mut self, last: Option<T>) -> Option<T> {
        self.over = true;
        self.front.runs.clear();
        self.back.runs.clear();
        last
    }

    fn advance(&mut self) -> Result<Option<Record>> {
        loop {
            while let Some(run) = self.front.runs.front() {
                if self.front.given == run.len() {
                    self.front.runs.pop_front();
                    self.front.given = 0;
                    continue;
                }
                let (key, value) = run.get(self.front.given);
                self.front.given += 1;
                if !below(key, &self.high) {
                    return Ok(None);
                }
                if above(key, &self.low) {
                    let record = (key.to_vec(), value.to_vec());
                    replace(&mut self.low, &record.0);
                    return Ok(Some(record));
                }
            }
            if !self.read_front()? {
                return Ok(None);
            }
        }
    }

    fn retreat(&mut self) -> Result<Option<Record>> {
        loop {
            while let Some(run) = self.back.runs.front() {
                let Some(position) = (run.len() - self.back.given).checked_sub(1) else {
                    self.back.runs.pop_front();
                    self.back.given = 0;
                    continue;
                };
                let (key, value) = run.get(position);
                self.back.given += 1;
                if !above(key, &self.low) {
                    return Ok(None);
                }
                if below(key, &self.high) {
                    let record = (key.to_vec(), value.to_vec());
                    replace(&mut self.high, &record.0);
                    return Ok(Some(record));
                }
            }
            if !self.read_back()? {
                return Ok(None);
            }
        }
    }

    /// Reads the next segments in ascending order; false at the end of the range.
    fn read_front(&mut self) -> Result<bool> {
        let start = match (&self.front.next, &self.low) {
            (Some(None), _) => return Ok(false),
            (Some(Some(next)), _) => next.clone(),
            (None, Bound::Included(key) | Bound::Excluded(key)) => key.clone(),
            (None, Bound::Unbounded) => Vec::new(),
        };
        if !below(&start, &self.high) && !matches!(&self.low, Bound::Unbounded if start.is_empty()) {
            return Ok(false);
        }
        let width = self.front.width;
        let high = match &self.high {
            Bound::Included(high) | Bound::Excluded(high) => Some(high.as_slice()),
            Bound::Unbounded => None,
        };
        let choose = |tree: &Tree| homes_from(&tree.store.index.snapshot(), &start, high, width);
        let runs = self.tree.read_runs(choose, |before, page| match before {
            None => page.covers(&start),
            Some(before) => before.upper.as_deref() == Some(page.lower()),
        })?;
        self.front.next = runs.last().map(|run| run.upper.clone());
        if let (Some(first), true) = (runs.first(), self.front.given == 0) {
            // Skip what lies below the start at once.
            self.front.given = if first.lower < start { first.records.lower_bound(&start) } else { 0 };
        }
        self.front.runs.extend(runs.into_iter().map(|run| run.records));
        self.front.width = (width * 2).min(WIDEST);
        Ok(true)
    }

    /// Reads the next segments in descending order; false at the start of the range.
    fn read_back(&mut self) -> Result<bool> {
        let (end, whole) = match (&self.back.next, &self.high) {
            (Some(None), _) => return Ok(false),
            (Some(Some(next)), _) => (Some(next.clone()), false),
            (None, Bound::Included(key)) => (Some(key.clone()), true),
            (None, Bound::Excluded(key)) => (Some(key.clone()), false),
            (None, Bound::Unbounded) => (None, true),
        };
        let width = self.back.width;
        if end.as_ref().is_some_and(|end| !reaches(end, &self.low)) && !whole {
            return Ok(false);
        }
        let choose = |tree: &Tree| homes_below(&tree.store.index.snapshot(), end.as_deref(), whole, width);
        let runs = self.tree.read_runs(choose, |before, page| match (before, &end) {
            (Some(before), _) => page.upper() == Some(&before.lower),
            (None, None) => page.upper().is_none(),
            (None, Some(end)) if whole => page.covers(end),
            (None, Some(end)) => page.lower() < end && page.upper().is_none_or(|upper| end.as_slice() <= upper),
        })?;
        let Some(last) = runs.last() else { return Ok(false) };
        // Below the empty fence there is nothing.
        self.back.next = Some(Some(last.lower.clone()).filter(|lower| !lower.is_empty()));
        self.back.runs.extend(runs.into_iter().map(|run| run.records));
        self.back.width = (width * 2).min(WIDEST);
        Ok(true)
    }
}

impl Iterator for Scan {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        match self.advance() {
            Ok(Some(record)) => Some(Ok(record)),
            Ok(None) => self.finish(None),
            Err(error) => self.finish(Some(Err(error))),
        }
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        match self.retreat() {
            Ok(Some(record)) => Some(Ok(record)),
            Ok(None) => self.finish(None),
            Err(error) => self.finish(Some(Err(error))),
        }
    }
}

impl Tree {
    /// Reads the homes that `choose` gives, each merged with its dirty records. `follows` says whether a base page is the one that comes after the run
    /// before it. Gives at least the first of them, and fewer than all if the rest changed meanwhile; nothing if there are none.
    fn read_runs(
        &self,
        choose: impl Fn(&Tree) -> Vec<Home>,
        follows: impl Fn(Option<&Run>, &Page<'_>) -> bool,
    ) -> Result<Vec<Run>> {
        self.check_live()?;
        let mut doubts = 0;
        loop {
            // With the install lock the chains are the homes' own (decision 2, "Scanning").
            let (homes, dirty) = {
                let _installing = self.store.install.read();
                let homes = choose(self);
                let dirty: Vec<_> = homes.iter().map(|home| self.cache.peek_dirty(self.number, home.page)).collect();
                (homes, dirty)
            };
            let mut runs: Vec<Run> = Vec::with_capacity(homes.len());
            let mut strange = None;
            for (stored, dirty) in self.store.read(&homes)?.iter().zip(&dirty) {
                let found = self.store.pages(stored).and_then(|pages| {
                    let right = follows(runs.last(), &pages.0);
                    if right { Ok(pages) } else { Err((stored.home.page, Strange::Other)) }
                });
                match found {
                    Ok(pages) => runs.push(Run::new(&pages, dirty)),
                    Err(found) => {
                        strange = Some((stored.home, found));
                        break;
                    }
                }
            }
            match strange {
                Some((home, (page, why))) if runs.is_empty() => self.doubt(home, &choose, page, why, &mut doubts)?,
                _ => return Ok(runs),
            }
        }
    }

    /// The first page of a read is not what was expected.
    fn doubt(&self, home: Home, choose: impl Fn(&Tree) -> Vec<Home>, page: u32, why: Strange, doubts: &mut u32) -> Result<()> {
        if self.store.claims.is_claimed(home.page) || choose(self).first() != Some(&home) {
            *doubts = 0;
            std::thread::yield_now();
        } else {
            *doubts += 1;
        }
        if *doubts >= PATIENCE { Err(self.store.damage(page, why)) } else { Ok(()) }
    }
}

/// What one home holds.
struct Run {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    records: Records,
}

impl Run {
    fn new((base, overflow): &Pages<'_>, dirty: &[DirtyRecord]) -> Self {
        let records = merge::visible(base, overflow.as_ref(), dirty);
        Run { lower: base.lower().to_vec(), upper: base.upper().map(<[u8]>::to_vec), records }
    }
}

fn is_empty(low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
        _ => false,
    }
}

fn above(key: &[u8], low: &Bound<Vec<u8>>) -> bool {
    match low {
        Bound::Included(low) => key >= low.as_slice(),
        Bound::Excluded(low) => key > low.as_slice(),
        Bound::Unbounded => true,
    }
}

/// Whether a segment that ends before `upper` has keys above the bound.
fn reaches(upper: &[u8], low: &Bound<Vec<u8>>) -> bool {
    match low {
        Bound::Included(low) | Bound::Excluded(low) => upper > low.as_slice(),
        Bound::Unbounded => true,
    }
}

fn below(key: &[u8], high: &Bound<Vec<u8>>) -> bool {
    match high {
        Bound::Included(high) => key <= high.as_slice(),
        Bound::Excluded(high) => key < high.as_slice(),
        Bound::Unbounded => true,
    }
}

/// Makes `bound` exclude `key`, in the memory that it has.
fn replace(bound: &mut Bound<Vec<u8>>, key: &[u8]) {
    match bound {
        Bound::Excluded(old) => {
            old.clear();
            old.extend_from_slice(key);
        }
        _ => *bound = Bound::Excluded(key.to_vec()),
    }
}
