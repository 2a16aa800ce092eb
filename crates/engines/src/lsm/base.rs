//! What is below the tables of a keyspace, if anything is: the oldest records of the ranges that are covered (decision
//! 14, "Shape").

use std::{fmt, sync::Arc};

use ecotone_substrate::{Result, memory::Component};

use super::{ledger::Ledger, merged::Source};
use crate::{
    engine::{Cursor, Range, VisitValue},
    front::Front,
    rest::{Direction, Rest},
};

/// What a scan met in a stretch, or a part of it, by which whoever keeps the pages judges where they pay (decision 14,
/// "Finding hot ranges").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passage<'p> {
    /// The lowest key that it met there, about.
    pub(crate) from: &'p [u8],
    /// Records that it gave, and older ones of the same keys that it came by.
    pub(crate) records: u64,
    pub(crate) hidden: u64,
    /// Requests to the disk for the oldest run or level, if nothing was below.
    pub(crate) main: u64,
    /// Runs and levels besides the one that it read most of, or besides what is below, and requests to the disk for
    /// them.
    pub(crate) sources: u64,
    pub(crate) reads: u64,
}

/// What there is to absorb of a range, about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Bytes of tables that count, those of the place that has most (of each part of a range in which other places
    /// count), and records.
    pub(crate) bytes: u64,
    pub(crate) largest: u64,
    pub(crate) records: u64,
    /// Pages below, and bytes of them.
    pub(crate) pages: u64,
    pub(crate) page_bytes: u64,
}

/// A range that is covered, and of which nothing counts but what is below and memtables. Counted is what a flush has of
/// it in place of tables.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Vec<u8>,
    pub(crate) counted: Counted,
}

/// What is around the tables of a keyspace, if anything is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Around {
    /// The cache in front of them.
    pub(crate) front: Option<Arc<dyn Front>>,
    /// What is below them.
    pub(crate) base: Option<Arc<dyn Base>>,
    /// Who judges what is read, in builds for tests.
    pub(crate) ledger: Option<Arc<Ledger>>,
}

/// A record on its way; no value is a tombstone.
pub(crate) type Moved = (Vec<u8>, Option<Vec<u8>>);

/// Pages that somebody else keeps. A keyspace of the lsm engine has none.
pub(crate) trait Base: fmt::Debug + Send + Sync {
    /// Looks for the value of a key that is covered, and appends it to `value`. False if there is none.
    fn find(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// The same for many keys; `found` gets the number and the value of each, in whatever order.
    fn find_many(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()>;
    /// Goes through the records of a range that is covered.
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor>;
    /// Empties a range that nothing covers, which has no end or this one, and keeps its bounds apart from what is
    /// beside it.
    fn carve(&self, lower: &[u8], upper: Option<&[u8]>) -> Result<()>;
    /// Whether such a range is empty as carving leaves it, or as good as that.
    fn is_carved(&self, lower: &[u8], upper: Option<&[u8]>) -> bool;
    /// The last bound within what is covered that is not above a key, at which it can be cut: what is on both sides
    /// stays apart from now on.
    fn fence_before(&self, key: &[u8]) -> Result<Vec<u8>>;
    /// The first that is not below it, likewise.
    fn fence_behind(&self, key: &[u8]) -> Result<Vec<u8>>;
    /// How far so many bytes of what is covered reach from one key on, to another at most, and how many there are till
    /// then.
    fn extent(&self, lower: &[u8], upper: &[u8], most: u64) -> (Vec<u8>, u64);
    /// Keeps apart what is on the two sides of these bounds, and of no others any more. Nobody carves meanwhile.
    fn keep_apart(&self, bounds: &mut dyn Iterator<Item = &[u8]>);
    /// A scan has gone through a stretch.
    fn passed(&self, passage: &Passage<'_>);
    /// About a second has passed, and nobody has used the keyspace for some time, or somebody has.
    fn look(&self, is_idle: bool);
    /// Which of these ranges, ascending, get what a flush has of them at once; the others get it by a run. It is asked
    /// at every flush, if only with none.
    fn divert(&self, offers: Vec<Offer>) -> Vec<Offer>;
    /// Keys between which scans go elsewhere than beside them, ascending: tables of level 0 end there.
    fn guards(&self) -> Vec<Vec<u8>>;
    /// Whether that is given up where memtables wait.
    fn yields(&self) -> bool;
    /// Brings records into ranges that are covered or were carved, over what these have. What appends to the log
    /// afterwards may rely on them. Into a range that was carved they move; else those that nothing there has the keys
    /// of are `inserts`.
    fn absorb(&self, records: &mut dyn Iterator<Item = Result<Moved>>, inserts: bool) -> Result<u64>;
    /// Bytes that were written there so far.
    fn written_bytes(&self) -> u64;
}

/// The records of a covered range, in either direction.
pub(super) struct Based {
    cursor: Box<dyn Cursor>,
    direction: Direction,
    /// A copy of the present one, if there is one.
    there: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Based {
    /// On the first that is left.
    pub(super) fn begin(base: &Arc<dyn Base>, rest: Rest, direction: Direction, memory: Component) -> Result<Based> {
        let cursor = base.clone().cursor_in((rest.low, rest.high), memory);
        let mut source = Based { cursor, direction, there: false, key: Vec::new(), value: Vec::new() };
        source.step().map(|()| source)
    }

    /// Deleted records that it has passed over.
    pub(super) fn deletes_passed(&self) -> u64 {
        self.cursor.deletes_passed()
    }

    /// The present record.
    pub(super) fn record(&self) -> Option<(&[u8], &[u8])> {
        self.there.then_some((&self.key, &self.value))
    }
}

impl Source for Based {
    fn key(&self) -> Option<&[u8]> {
        self.there.then_some(&self.key)
    }

    fn step(&mut self) -> Result<()> {
        let next = match self.direction {
            Direction::Up => self.cursor.next()?,
            Direction::Down => self.cursor.next_back()?,
        };
        self.there = next.is_some();
        if let Some((key, value)) = next {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.value.clear();
            self.value.extend_from_slice(value);
        }
        Ok(())
    }
}
