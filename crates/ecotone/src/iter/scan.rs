//! The records of a range, by a cursor that is open as long as there is memory for what it reads ahead.
//!
//! Cursors hold memory for as long as their callers like, so all of them together have a part of the budget
//! ([`Component::Windows`]). A scan that finds nothing left of it closes its cursor, and goes on by copies of a few
//! records at a time: a cursor for what is left of the range, of other memory, is opened, gives these records, and is
//! dropped again before the caller gets the first of them. One scan of a database does that at a time, so that any
//! number of closed ones take no more memory than one (`docs/design/waiting.md`, rule 4).

use std::{mem, ops::Bound, sync::Arc};

use ecotone_engines::engine::{Cursor, Direction, Ordered, Range, RecordRef};
use ecotone_substrate::{
    held::{self, Kind},
    memory::{Component, Memory},
};

use super::copies::Copies;
use crate::{
    Error, Result,
    database::Inner,
    gaps::{First, Gaps},
};

/// Bytes of the windows' memory that must be left for a closed scan to open a cursor again: a slab for each of some
/// sources.
const WORTH_OPENING: usize = 1 << 20;

pub(super) struct Scan {
    engine: Arc<dyn Ordered>,
    state: State,
    /// Until it has come to its first record.
    first: Option<First>,
}

enum State {
    /// Nobody has asked for a record.
    New(Arc<Gaps>, Range),
    Open(Box<dyn Cursor>),
    Closed(Box<Closed>),
    Over,
}

/// What a closed scan has copied at each end, and what lies between, if anything may.
struct Closed {
    front: Copies,
    back: Copies,
    between: Option<Range>,
    /// Whether the record that it went to is of the front copies.
    at_front: bool,
}

impl Scan {
    pub(super) fn new(engine: Arc<dyn Ordered>, gaps: Arc<Gaps>, range: Range) -> Self {
        Scan { engine, state: State::New(gaps, range), first: None }
    }

    /// The next record from one end, lent until the next call.
    pub(super) fn next(&mut self, database: &Inner, direction: Direction) -> Result<Option<RecordRef<'_>>> {
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

    fn advance(&mut self, database: &Inner, direction: Direction) -> Result<bool> {
        loop {
            match &mut self.state {
                State::Over => return Ok(false),
                State::New(gaps, range) => {
                    let range = mem::replace(range, (Bound::Unbounded, Bound::Unbounded));
                    let (range, first) = gaps.begin(range, direction);
                    // What it finds is behind what it may learn began (docs/design/gaps.md, invariant 3).
                    let cursor = self.engine.clone().cursor_in(range, Component::Windows);
                    (self.first, self.state) = (Some(first), State::Open(cursor));
                }
                State::Open(cursor) => match cursor.advance(direction) {
                    Err(Error::Memory { .. }) => self.state = State::Closed(Box::new(Closed::new(cursor.rest()))),
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
                    database.patiently(|| {
                        let _turn = database.closed_scans.lock();
                        let _held = held::hold(Kind::ClosedScan);
                        closed.fill(&self.engine, &database.memory, rest.clone(), direction)
                    })?;
                }
            }
        }
    }
}

impl Closed {
    fn new(rest: Range) -> Self {
        Closed { front: Copies::default(), back: Copies::default(), between: Some(rest), at_front: true }
    }

    /// Goes to the next copy from one end: that of its own copies, or of the other end's if nothing lies between.
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

    /// Copies the next records from one end of what is left.
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
        self.between = Some(cursor.rest());
        Ok(())
    }
}
