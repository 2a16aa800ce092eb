//! Iteration over a range, from both ends (decision 11, "Reading"; decision 12, invariant 21).
//!
//! Each end merges the records of runs and levels of one version, as their tables have them, with copies of what the memtables have: [`batch`] (these copies),
//! [`written`] (where these come from).

mod batch;
mod written;

use std::{ops::Bound, sync::Arc};

use ecotone_substrate::Result;

use self::batch::Batch;
use super::{
    handle::Handle,
    merged::Merged,
    records::Lsm,
    stored::{Reading, Stored},
    version::Version,
};
use crate::{
    engine::{Cursor, Range, RecordRef},
    rest::{Direction, Rest},
};

/// A cursor over a range of a keyspace.
pub(super) struct Scan {
    lsm: Arc<Lsm>,
    rest: Rest,
    /// The ends, as soon as they are used: few scans use both.
    front: Option<Box<End>>,
    back: Option<Box<End>>,
    over: bool,
}

impl Scan {
    pub(super) fn new(lsm: Arc<Lsm>, range: Range) -> Scan {
        let rest = Rest::new(range);
        let over = rest.is_empty();
        Scan { lsm, rest, front: None, back: None, over }
    }

    fn step(&mut self, direction: Direction) -> Result<Option<RecordRef<'_>>> {
        if self.over {
            return Ok(None);
        }
        // So that it ends with an error, and with the end of the range.
        self.over = true;
        let end = if direction == Direction::Up { &mut self.front } else { &mut self.back };
        let end = end.get_or_insert_with(|| Box::new(End::new(direction, &self.rest)));
        if !end.advance(&self.lsm, &self.rest)? {
            return Ok(None);
        }
        let Some((key, value)) = end.record() else { return Ok(None) };
        self.over = !self.rest.take(direction, &[], key);
        Ok((!self.over).then(|| (self.rest.taken(direction), value)))
    }
}

impl Cursor for Scan {
    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        self.step(Direction::Up)
    }

    fn next_back(&mut self) -> Result<Option<RecordRef<'_>>> {
        self.step(Direction::Down)
    }
}

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Memory,
    Stored,
}

/// One end of a scan.
struct End {
    direction: Direction,
    /// Where the copies end.
    from: Bound<Vec<u8>>,
    batch: Batch,
    /// What the sources are of.
    version: Option<Arc<Version<Handle>>>,
    stored: Merged<Stored>,
    /// The record that it went to.
    found: Option<Found>,
}

impl End {
    fn new(direction: Direction, rest: &Rest) -> End {
        let from = match direction {
            Direction::Up => rest.low.clone(),
            Direction::Down => rest.high.clone(),
        };
        let stored = Merged::new(Vec::new(), direction, 0);
        End { direction, from, batch: Batch::default(), version: None, stored, found: None }
    }

    /// Goes to the next record that has a value. False if there is none, or it lies beyond the rest.
    fn advance(&mut self, lsm: &Arc<Lsm>, rest: &Rest) -> Result<bool> {
        loop {
            self.pass()?;
            if self.batch.is_used_up() {
                self.refill(lsm, rest)?;
            }
            self.found = self.choose();
            match self.record_with_tombstones() {
                Some((_, Some(_))) => return Ok(true),
                Some((key, None)) if rest.contains(key) => {}
                _ => return Ok(false),
            }
        }
    }

    /// The record that [`advance`](Self::advance) went to.
    fn record(&self) -> Option<RecordRef<'_>> {
        self.record_with_tombstones().and_then(|(key, value)| Some((key, value?)))
    }

    fn record_with_tombstones(&self) -> Option<(&[u8], Option<&[u8]>)> {
        match self.found? {
            Found::Memory => self.batch.first(),
            Found::Stored => self.stored.first().and_then(Stored::record),
        }
    }

    /// Where the next record is. What is copied of the memtables is newer than what is stored.
    fn choose(&self) -> Option<Found> {
        let (copied, stored) = (self.batch.first(), self.stored.first().and_then(Stored::record));
        match (copied, stored) {
            (Some((copied, _)), Some((stored, _))) if self.direction.order(copied, stored).is_gt() => Some(Found::Stored),
            (Some(_), _) => Some(Found::Memory),
            (None, stored) => stored.map(|_| Found::Stored),
        }
    }

    /// Leaves the present record, and all others of its key.
    fn pass(&mut self) -> Result<()> {
        match self.found.take() {
            None => Ok(()),
            Some(Found::Stored) => self.stored.pass(),
            Some(Found::Memory) => {
                let stored = self.stored.first().and_then(Stored::record);
                let is_stored = self.batch.first().zip(stored).is_some_and(|((copied, _), (stored, _))| copied == stored);
                self.batch.pop();
                if is_stored { self.stored.pass() } else { Ok(()) }
            }
        }
    }

    /// Copies what comes next in the memtables. If the tables are others than before, they are sought again.
    fn refill(&mut self, lsm: &Arc<Lsm>, rest: &Rest) -> Result<()> {
        lsm.check_live()?;
        let left = self.left(rest);
        let version = {
            let pin = lsm.present.pin();
            let view = lsm.present.load(&pin);
            self.batch.copy(&view.memtables, &left, self.direction)?;
            view.version.clone()
        };
        if self.version.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &version)) {
            let way = (self.direction, Reading::Growing);
            let begin = |(_, run)| Stored::begin(lsm.files.environment(), run, &left, way);
            self.stored = Merged::new(version.runs().map(begin).collect::<Result<_>>()?, self.direction, 0);
            self.version = Some(version);
        }
        if let Some((last, _)) = self.batch.last() {
            self.from = Bound::Excluded(last.to_vec());
        }
        Ok(())
    }

    /// What is left of the rest behind the copies.
    fn left(&self, rest: &Rest) -> Rest {
        match self.direction {
            Direction::Up => Rest::new((self.from.clone(), rest.high.clone())),
            Direction::Down => Rest::new((rest.low.clone(), self.from.clone())),
        }
    }
}
