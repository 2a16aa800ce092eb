//! A scan: the records of a range, from both ends. It uses a cursor that stays open as long as there is memory for its
//! read-ahead.
//!
//! Callers may keep cursors as long as they like, so all cursors together are limited to a share of the budget
//! ([`Component::Windows`]). A scan that finds the share used up closes its cursor and continues by copying a few
//! records at a time. For that it opens a cursor on the rest of the range, with other memory, copies records, and drops
//! the cursor before the caller gets the first record. Only one scan of a database does so at a time, so any number of
//! closed scans takes no more memory than one (`docs/design/waiting.md`, rule 4).

use std::{mem, ops::Bound, sync::Arc};

use ecotone_engine::contract::{Cursor, Direction, Ordered, Range, RecordRef};
use ecotone_substrate::{
    lock_rank::{self, LockRank},
    memory::{Component, Memory},
};

use super::buffered_records::BufferedRecords;
use crate::{
    Error, Result,
    core::{
        DatabaseState,
        gaps::{FirstRecordProbe, Gaps},
    },
};

/// Bytes of the windows' memory that must be free before a closed scan opens a cursor again: a slab for each of several
/// sources.
const WORTH_OPENING: usize = 1 << 20;

pub(super) struct Scan {
    engine: Arc<dyn Ordered>,
    state: State,
    /// Present until the scan reaches its first record.
    first: Option<FirstRecordProbe>,
}

enum State {
    /// No record was requested yet.
    New(Arc<Gaps>, Range),
    Open(Box<dyn Cursor>),
    Closed(Box<Closed>),
    Over,
}

/// The records that a closed scan has copied at each end, and the rest of the range between them, if any.
struct Closed {
    front: BufferedRecords,
    back: BufferedRecords,
    between: Option<Range>,
    /// Whether the current record is one of the front copies.
    at_front: bool,
}

impl Scan {
    pub(super) fn new(engine: Arc<dyn Ordered>, gaps: Arc<Gaps>, range: Range) -> Self {
        Scan { engine, state: State::New(gaps, range), first: None }
    }

    /// The next record from one end, borrowed until the next call.
    pub(super) fn next(&mut self, database: &DatabaseState, direction: Direction) -> Result<Option<RecordRef<'_>>> {
        let there = self.advance(database, direction);
        let first = self.first.take();
        if !matches!(there, Ok(true)) {
            if let (Ok(_), Some(first), State::Open(cursor)) = (&there, first, &self.state) {
                first.found(None, cursor.deletes_passed(), || database.stripes.pass());
            }
            self.state = State::Over;
            return there.map(|_| None);
        }
        match &mut self.state {
            State::Open(cursor) => {
                let deletes = cursor.deletes_passed();
                let record = cursor.take()?;
                if let Some(first) = first {
                    first.found(record.map(|(key, _)| key), deletes, || database.stripes.pass());
                }
                Ok(record)
            }
            State::Closed(closed) => Ok(closed.record()),
            State::New(..) | State::Over => Ok(None),
        }
    }

    fn advance(&mut self, database: &DatabaseState, direction: Direction) -> Result<bool> {
        loop {
            match &mut self.state {
                State::Over => return Ok(false),
                State::New(gaps, range) => {
                    let range = mem::replace(range, (Bound::Unbounded, Bound::Unbounded));
                    let (range, first) = gaps.begin(range, direction);
                    // The probe was registered before the cursor opens, so the cursor sees all that the probe may learn
                    // from (docs/design/gaps.md, invariant 3).
                    let cursor = self.engine.clone().cursor_in(range, Component::Windows);
                    (self.first, self.state) = (Some(first), State::Open(cursor));
                }
                State::Open(cursor) => match cursor.advance(direction) {
                    Err(Error::Memory { .. }) => self.state = State::Closed(Box::new(Closed::new(cursor.remaining()))),
                    there => return there,
                },
                State::Closed(closed) => {
                    if closed.advance(direction) {
                        return Ok(true);
                    }
                    let Some(rest) = closed.between.take() else { return Ok(false) };
                    database.check_open()?;
                    if closed.is_used_up() && database.memory.windows_left() > WORTH_OPENING {
                        let mut cursor = self.engine.clone().cursor_in(rest.clone(), Component::Windows);
                        match cursor.advance(direction) {
                            Err(Error::Memory { .. }) => {}
                            there => {
                                self.state = State::Open(cursor);
                                return there;
                            }
                        }
                    }
                    database.retry_without_memory(|| {
                        let _guard = database.closed_scans.lock();
                        let _held = lock_rank::hold(LockRank::ClosedScan);
                        closed.fill(&self.engine, &database.memory, rest.clone(), direction)
                    })?;
                }
            }
        }
    }
}

impl Closed {
    fn new(rest: Range) -> Self {
        Closed {
            front: BufferedRecords::default(),
            back: BufferedRecords::default(),
            between: Some(rest),
            at_front: true,
        }
    }

    /// Moves to the next copy from one end. Takes the other end's copies if nothing lies between.
    fn advance(&mut self, direction: Direction) -> bool {
        let is_up = direction == Direction::Up;
        let (own, other) = if is_up { (&mut self.front, &mut self.back) } else { (&mut self.back, &mut self.front) };
        let by_own = own.first();
        self.at_front = by_own == is_up;
        by_own || self.between.is_none() && other.last()
    }

    fn record(&self) -> Option<RecordRef<'_>> {
        if self.at_front { self.front.record() } else { self.back.record() }
    }

    fn is_used_up(&self) -> bool {
        self.front.is_used_up() && self.back.is_used_up()
    }

    /// Copies the next records from one end of the rest of the range.
    fn fill(&mut self, engine: &Arc<dyn Ordered>, memory: &Memory, rest: Range, direction: Direction) -> Result<()> {
        let copies = if direction == Direction::Up { &mut self.front } else { &mut self.back };
        let mut cursor = engine.clone().cursor(rest);
        copies.begin(memory);
        while copies.has_room() {
            match if cursor.advance(direction)? { cursor.take()? } else { None } {
                Some(record) => copies.push(record),
                None => return Ok(()),
            }
        }
        self.between = Some(cursor.remaining());
        Ok(())
    }
}
