//! The records of a run of level 0, or of a level, from table to table.

use std::ops::{Bound, Range};

use ecotone_substrate::{
    Result, Seq,
    memory::Component,
    storage::{Block, Reads},
};
use ecotone_sys::chunk::Size;

use super::{
    handle::Handle,
    merged::Source,
    table::{Candidates, Cursor, Progress},
    version::{Ranged, Run},
};
use crate::{
    lengths::ReadAhead,
    rest::{Direction, Rest},
};

/// How the blocks of tables are read.
#[derive(Debug, Clone)]
pub(super) enum Reading {
    /// As many as scans went on for lately, and those behind meanwhile where it goes on for long, if there is memory to
    /// spare.
    Learned(ReadAhead),
    /// As many as a slab has, and those of the next slab meanwhile.
    Ahead,
}

/// Records, in either direction.
pub(super) struct Stored {
    reading: Reading,
    run: Run<Handle>,
    /// Its tables that are left behind the present one.
    left: Range<usize>,
    direction: Direction,
    /// The present table, and a cursor on a record of it once it stands on one.
    present: Option<(usize, Cursor)>,
    /// How far it had come before that.
    before: Progress,
}

impl Stored {
    /// On the first record that is left.
    pub(super) fn begin(run: &Run<Handle>, rest: &Rest, way: (Direction, Reading)) -> Result<Stored> {
        let mut source = Stored::before(run, rest, way);
        source.begin_alone(rest)?;
        Ok(source)
    }

    /// Before the first record that is left. Tables without any are not looked at.
    pub(super) fn before(run: &Run<Handle>, rest: &Rest, (direction, reading): (Direction, Reading)) -> Stored {
        let tables = run.tables();
        let start = tables.partition_point(|table| !rest.is_above_low(table.last()));
        let end = tables.partition_point(|table| rest.is_below_high(table.first())).max(start);
        Stored { reading, run: run.clone(), left: start..end, direction, present: None, before: Progress::default() }
    }

    /// Whether no table is left.
    pub(super) fn is_over(&self) -> bool {
        self.present.is_none() && self.left.is_empty()
    }

    /// Goes to the first record that is left.
    pub(super) fn begin_alone(&mut self, rest: &Rest) -> Result<()> {
        let blocks = self.sought(rest).map(|(handle, key)| handle.locate(key)).transpose()?;
        self.open_next()?;
        self.stand(rest, blocks)
    }

    /// The table where it begins, and the key by which; none where that is at an end of the table.
    pub(super) fn sought<'r>(&self, rest: &'r Rest) -> Option<(&Handle, &'r [u8])> {
        let handle: &Handle = &self.run.tables()[self.next_table()?];
        let bound = if self.direction == Direction::Up { &rest.low } else { &rest.high };
        let (Bound::Included(key) | Bound::Excluded(key)) = bound else { return None };
        let is_within = if self.direction == Direction::Up { **key > *handle.first() } else { **key <= *handle.last() };
        is_within.then_some((handle, &key[..]))
    }

    /// Opens the table where it begins, and asks for what it reads first, where what it seeks can be in these blocks.
    pub(super) fn ask(
        &mut self,
        blocks: Option<Candidates>,
        reads: &mut Reads<'_, usize>,
        number: usize,
    ) -> Result<()> {
        self.open_next()?;
        let Some((table, cursor)) = &mut self.present else { return Ok(()) };
        let end = match self.direction {
            Direction::Up => 0,
            Direction::Down => self.run.tables()[*table].table().blocks() - 1,
        };
        cursor.ask(blocks.map_or(end, |blocks| blocks.first), reads, number)
    }

    /// What it asked for was read.
    pub(super) fn receive(&mut self, memory: Block) {
        let (_, cursor) = self.present.as_mut().expect("a source that has asked is in a table");
        cursor.receive(memory);
    }

    /// Goes to the first record that is left in the table that was opened, where what it seeks can be in these blocks.
    pub(super) fn stand(&mut self, rest: &Rest, blocks: Option<Candidates>) -> Result<()> {
        let Some((_, cursor)) = &mut self.present else { return Ok(()) };
        let there = match self.direction {
            Direction::Up => to_first(cursor, &rest.low, blocks)?,
            Direction::Down => to_last(cursor, &rest.high, blocks)?,
        };
        if !there {
            self.leave();
        }
        Ok(())
    }

    /// Leaves the present table.
    fn leave(&mut self) {
        self.before = self.progress();
        self.present = None;
    }

    /// How far it has come.
    fn progress(&self) -> Progress {
        self.present.as_ref().map_or(self.before, |(_, cursor)| cursor.progress())
    }

    /// The present record; no value is a tombstone.
    #[inline]
    pub(super) fn record(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.present.as_ref().map(|(_, cursor)| (cursor.key(), cursor.value()))
    }

    /// Requests to the disk so far.
    pub(super) fn reads(&self) -> u64 {
        self.progress().requests.into()
    }

    /// Whether the block of the present record is in the block cache, for who reads ahead.
    pub(super) fn is_cached(&self) -> bool {
        self.present.as_ref().is_some_and(|(_, cursor)| cursor.is_cached())
    }

    /// The smallest and the largest sequence of the present table.
    pub(super) fn sequences(&self) -> (Seq, Seq) {
        self.present.as_ref().map_or((Seq::MAX, 0), |(number, _)| self.run.tables()[*number].table().sequences())
    }

    /// The one that comes next.
    fn next_table(&self) -> Option<usize> {
        let mut left = self.left.clone();
        match self.direction {
            Direction::Up => left.next(),
            Direction::Down => left.next_back(),
        }
    }

    /// Makes the table that comes next the present one, if there is one.
    fn open_next(&mut self) -> Result<bool> {
        let Some(number) = self.next_table() else { return Ok(false) };
        self.left = match self.direction {
            Direction::Up => number + 1..self.left.end,
            Direction::Down => self.left.start..number,
        };
        let handle = &self.run.tables()[number];
        if let Reading::Learned(_) = self.reading {
            handle.reads.increment();
        }
        self.present = Some((number, self.open(handle)?));
        Ok(true)
    }

    /// A cursor before the first record in the direction.
    fn open(&self, handle: &Handle) -> Result<Cursor> {
        let (table, environment) = (handle.table(), handle.table().environment());
        let slab = || environment.memory.lease_essential(Component::Frames, Size::Slab);
        let (memory, ahead, follows) = match &self.reading {
            Reading::Ahead => (slab()?, Some(slab()?), None),
            Reading::Learned(follows) => {
                let to_spare = || environment.memory.lease(follows.memory, Size::Slab);
                let is_long = follows.lengths.stride(self.before.pages).is_none();
                match is_long.then(|| Some((to_spare()?, to_spare()?))).flatten() {
                    Some((window, ahead)) => (window, Some(ahead), Some(follows)),
                    None => {
                        let block = environment.memory.lease_essential(follows.memory, table.size_for_a_block())?;
                        (block, None, Some(follows))
                    }
                }
            }
        };
        let mut cursor = Cursor::new(self.direction, table.clone(), 0..table.blocks(), memory);
        cursor.follow(follows.cloned(), self.before);
        if let Some(ahead) = ahead {
            cursor.read_ahead(environment.storage.queue()?, ahead);
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

impl Drop for Stored {
    /// The scan ends here.
    fn drop(&mut self) {
        if let (Reading::Learned(follows), pages @ 1..) = (&self.reading, self.progress().pages) {
            follows.lengths.count(pages);
        }
    }
}

impl Source for Stored {
    fn key(&self) -> Option<&[u8]> {
        self.present.as_ref().map(|(_, cursor)| cursor.key())
    }

    fn step(&mut self) -> Result<()> {
        while !self.advance()? {
            self.leave();
            if !self.open_next()? {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Goes to the first record that a bound leaves, whose key can be in these blocks if it is above the first of the
/// table.
fn to_first(cursor: &mut Cursor, low: &Bound<Vec<u8>>, blocks: Option<Candidates>) -> Result<bool> {
    let (Bound::Included(key) | Bound::Excluded(key)) = low else { return cursor.advance() };
    let there = match blocks {
        Some(blocks) => cursor.seek(blocks, key)?,
        None => cursor.advance()?,
    };
    let is_left_out = there && matches!(low, Bound::Excluded(_)) && cursor.key() == key;
    if is_left_out { cursor.advance() } else { Ok(there) }
}

/// Goes to the last record that a bound leaves, whose key can be in these blocks if it is not above the last of the
/// table.
fn to_last(cursor: &mut Cursor, high: &Bound<Vec<u8>>, blocks: Option<Candidates>) -> Result<bool> {
    let (Bound::Included(key) | Bound::Excluded(key), Some(blocks)) = (high, blocks) else { return cursor.retreat() };
    let there = cursor.seek(blocks, key)?;
    let is_last = there && matches!(high, Bound::Included(_)) && cursor.key() == key;
    if is_last { Ok(true) } else { cursor.retreat() }
}
