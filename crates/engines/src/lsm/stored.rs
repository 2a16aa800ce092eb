//! The records of a run of level 0, or of a level, from table to table.

use std::ops::{Bound, Range};

use ecotone_substrate::{Result, Seq, environment::Environment, memory::Component};
use ecotone_sys::chunk::Size;

use super::{
    handle::Handle,
    merged::Source,
    table::Cursor,
    version::{Ranged, Run},
};
use crate::rest::{Direction, Rest};

/// How the blocks of tables are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// One when it is needed, and more where it goes on for long, if there is memory to spare.
    Growing,
    /// The same where it has gone on for long: more from the first on.
    Grown,
    /// As many as a slab has, and those of the next slab meanwhile.
    Ahead,
}

/// Records, in either direction.
pub(super) struct Stored {
    environment: Environment,
    reading: Reading,
    run: Run<Handle>,
    /// Its tables that are left behind the present one.
    left: Range<usize>,
    direction: Direction,
    /// The present table, and a cursor on a record of it.
    present: Option<(usize, Cursor)>,
}

impl Stored {
    /// On the first record that is left. Tables without any are not looked at.
    pub(super) fn begin(
        environment: &Environment,
        run: &Run<Handle>,
        rest: &Rest,
        (direction, reading): (Direction, Reading),
    ) -> Result<Stored> {
        let tables = run.tables();
        let start = tables.partition_point(|table| !rest.is_above_low(table.last()));
        let end = tables.partition_point(|table| rest.is_below_high(table.first())).max(start);
        let (run, environment) = (run.clone(), environment.clone());
        let mut source = Stored { environment, reading, run, left: start..end, direction, present: None };
        let Some(number) = source.next_table() else { return Ok(source) };
        let handle = &source.run.tables()[number];
        let mut cursor = source.open(handle)?;
        let there = match direction {
            Direction::Up => to_first(&mut cursor, handle, &rest.low)?,
            Direction::Down => to_last(&mut cursor, handle, &rest.high)?,
        };
        source.present = Some((number, cursor)).filter(|_| there);
        Ok(source)
    }

    /// The present record; no value is a tombstone.
    #[inline]
    pub(super) fn record(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.present.as_ref().map(|(_, cursor)| (cursor.key(), cursor.value()))
    }

    /// The smallest and the largest sequence of the present table.
    pub(super) fn sequences(&self) -> (Seq, Seq) {
        self.present.as_ref().map_or((Seq::MAX, 0), |(number, _)| self.run.tables()[*number].table().sequences())
    }

    fn next_table(&mut self) -> Option<usize> {
        match self.direction {
            Direction::Up => self.left.next(),
            Direction::Down => self.left.next_back(),
        }
    }

    /// A cursor before the first record in the direction.
    fn open(&self, handle: &Handle) -> Result<Cursor> {
        let (table, environment) = (handle.table(), &self.environment);
        let slab = || environment.memory.lease_essential(Component::Frames, Size::Slab);
        let to_spare = || environment.memory.lease(Component::Frames, Size::Slab);
        let slabs = match self.reading {
            Reading::Growing => None,
            Reading::Grown => to_spare().and_then(|window| Some((window, to_spare()?))),
            Reading::Ahead => Some((slab()?, slab()?)),
        };
        let (memory, ahead) = match slabs {
            Some((window, ahead)) => (window, Some(ahead)),
            None => (table.memory_for_a_block(environment)?, None),
        };
        let blocks = 0..table.blocks();
        let mut cursor = match self.direction {
            Direction::Up => Cursor::forward(table.clone(), blocks, memory),
            Direction::Down => Cursor::backward(table.clone(), blocks, memory),
        };
        match ahead {
            Some(ahead) => cursor.read_ahead(environment.storage.queue()?, ahead),
            None => cursor.grow(environment),
        }
        Ok(cursor)
    }

    /// Goes on within the present table. False behind its last record.
    fn advance(&mut self) -> Result<bool> {
        match (&mut self.present, self.direction) {
            (None, _) => Ok(false),
            (Some((_, cursor)), Direction::Up) => cursor.advance(),
            (Some((_, cursor)), Direction::Down) => cursor.retreat(),
        }
    }
}

impl Source for Stored {
    fn key(&self) -> Option<&[u8]> {
        self.present.as_ref().map(|(_, cursor)| cursor.key())
    }

    fn step(&mut self) -> Result<()> {
        while !self.advance()? {
            if self.present.take().is_some_and(|(_, cursor)| cursor.has_grown()) {
                self.reading = Reading::Grown;
            }
            let Some(number) = self.next_table() else { return Ok(()) };
            self.present = Some((number, self.open(&self.run.tables()[number])?));
        }
        Ok(())
    }
}

/// Goes to the first record that a bound leaves.
fn to_first(cursor: &mut Cursor, handle: &Handle, low: &Bound<Vec<u8>>) -> Result<bool> {
    let (Bound::Included(key) | Bound::Excluded(key)) = low else { return cursor.advance() };
    let there = if **key <= *handle.first() { cursor.advance()? } else { cursor.seek(handle.locate(key)?, key)? };
    let is_left_out = there && matches!(low, Bound::Excluded(_)) && cursor.key() == key;
    if is_left_out { cursor.advance() } else { Ok(there) }
}

/// Goes to the last record that a bound leaves.
fn to_last(cursor: &mut Cursor, handle: &Handle, high: &Bound<Vec<u8>>) -> Result<bool> {
    let (Bound::Included(key) | Bound::Excluded(key)) = high else { return cursor.retreat() };
    if **key > *handle.last() {
        return cursor.retreat();
    }
    let there = cursor.seek(handle.locate(key)?, key)?;
    let is_last = there && matches!(high, Bound::Included(_)) && cursor.key() == key;
    if is_last { Ok(true) } else { cursor.retreat() }
}
