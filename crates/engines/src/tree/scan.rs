//! Iteration over a range, from both ends: segments are read several at a time and merged with their dirty records (T17).

use std::{collections::VecDeque, ops::Bound, sync::Arc};

use ecotone_substrate::Result;

use super::{
    Tree, merge,
    records::Records,
    space::Cause,
    store::{Located, Stored, Strange, ascending, descending},
};
use crate::engine::{Range, Record};

/// Segments that a long scan reads at once.
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
        let runs = self.tree.read_runs(|tree| {
            let mut segments = ascending(&tree.store.index.snapshot(), &start, width);
            // The first holds the start.
            let more = segments.iter().skip(1).take_while(|at| below(&at.lower, &self.high)).count();
            segments.truncate(1 + more);
            segments
        })?;
        self.front.next = runs.last().map(|(at, _)| at.upper.clone());
        if let (Some((at, first)), true) = (runs.first(), self.front.given == 0) {
            // Skip what lies below the start at once.
            self.front.given = if at.lower < start { first.lower_bound(&start) } else { 0 };
        }
        self.front.runs.extend(runs.into_iter().map(|(_, run)| run));
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
        let runs = self.tree.read_runs(|tree| {
            let mut segments = descending(&tree.store.index.snapshot(), end.as_deref(), whole, width);
            let within = segments.iter().take_while(|at| at.upper.as_ref().is_none_or(|upper| reaches(upper, &self.low))).count();
            segments.truncate(within);
            segments
        })?;
        let Some((last, _)) = runs.last() else { return Ok(false) };
        // Below the empty fence there is nothing.
        self.back.next = Some(Some(last.lower.clone()).filter(|lower| !lower.is_empty()));
        self.back.runs.extend(runs.into_iter().map(|(_, run)| run));
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
    /// Reads the segments that `choose` gives, each merged with its dirty records. Gives at least the first of them, and fewer than all if the rest changed
    /// meanwhile; nothing if there are none.
    fn read_runs(&self, choose: impl Fn(&Tree) -> Vec<Located>) -> Result<Vec<(Located, Records)>> {
        self.check_live()?;
        let mut doubts = 0;
        loop {
            // With the install lock the chains are the segments' own (decision 2, "Scanning").
            let (segments, dirty) = {
                let _installing = self.store.install.read();
                let segments = choose(self);
                let dirty: Vec<_> = segments.iter().map(|at| self.cache.peek_dirty(self.number, at.segment.page)).collect();
                (segments, dirty)
            };
            if segments.is_empty() {
                return Ok(Vec::new());
            }
            let mut runs = Vec::with_capacity(segments.len());
            let mut strange = None;
            for (stored, dirty) in self.store.read(segments, Cause::Scan)?.into_iter().zip(&dirty) {
                match self.store.pages(&stored) {
                    Ok((base, overflow)) => {
                        let run = merge::visible(&base, overflow.as_ref(), dirty);
                        runs.push((stored.at, run));
                    }
                    Err(found) => {
                        strange = Some((stored, found));
                        break;
                    }
                }
            }
            if !runs.is_empty() {
                return Ok(runs);
            }
            if let Some((stored, (page, why))) = strange {
                self.doubt(&stored, page, why, &mut doubts)?;
            }
        }
    }

    /// The first page of a read is not what was expected.
    fn doubt(&self, stored: &Stored, page: u32, why: Strange, doubts: &mut u32) -> Result<()> {
        if self.store.claims.is_claimed(stored.at.segment.page) || !self.store.is_current(&stored.at) {
            *doubts = 0;
            std::thread::yield_now();
        } else {
            *doubts += 1;
        }
        if *doubts >= PATIENCE { Err(self.store.damage(page, why)) } else { Ok(()) }
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
