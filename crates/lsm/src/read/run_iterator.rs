//! The run iterator: the records of a run of L0, or of a level, from table to table, in either direction.

use std::ops::{Bound, Range};

use ecotone_engine::{
    read_ahead::ReadAhead,
    remaining_range::{Direction, RemainingRange},
};
use ecotone_substrate::{
    Result, Seq,
    memory::Component,
    storage::{Block, Reads},
};
use ecotone_sys::chunk::Size;

use crate::{
    cache::table_reader::TableReader,
    read::merging_iterator::RecordIterator,
    table::{Candidates, Cursor, ScanProgress},
    version::{Run, TableMeta},
};

/// How the blocks of tables are read.
#[derive(Debug, Clone)]
pub(crate) enum ReadMode {
    /// As many blocks as recent scans needed. A long scan also reads the blocks behind them ahead, if there is memory
    /// to spare.
    Adaptive(ReadAhead),
    /// As many blocks as a slab holds, and those of the next slab ahead.
    Sequential,
}

/// An iterator over the records of a run, in either direction.
pub(crate) struct RunIterator {
    reading: ReadMode,
    run: Run<TableReader>,
    /// The tables that come after the current one.
    left: Range<usize>,
    direction: Direction,
    /// The current table, and a cursor, which is on a record once the iterator stands on one.
    present: Option<(usize, Cursor)>,
    /// The progress in the tables before.
    before: ScanProgress,
}

impl RunIterator {
    /// An iterator on the first remaining record.
    pub(crate) fn begin(
        run: &Run<TableReader>,
        rest: &RemainingRange,
        way: (Direction, ReadMode),
    ) -> Result<RunIterator> {
        let mut source = RunIterator::before(run, rest, way);
        source.seek_alone(rest)?;
        Ok(source)
    }

    /// An iterator before the first remaining record. Tables without any are skipped.
    pub(crate) fn before(
        run: &Run<TableReader>,
        rest: &RemainingRange,
        (direction, reading): (Direction, ReadMode),
    ) -> RunIterator {
        let tables = run.tables();
        let start = tables.partition_point(|table| !rest.is_above_low(table.last()));
        let end = tables.partition_point(|table| rest.is_below_high(table.first())).max(start);
        RunIterator {
            reading,
            run: run.clone(),
            left: start..end,
            direction,
            present: None,
            before: ScanProgress::default(),
        }
    }

    /// Whether no table is left.
    pub(crate) fn is_over(&self) -> bool {
        self.present.is_none() && self.left.is_empty()
    }

    /// Moves to the first remaining record.
    pub(crate) fn seek_alone(&mut self, rest: &RemainingRange) -> Result<()> {
        let blocks = self.seek_target(rest).map(|(reader, key)| reader.locate(key)).transpose()?;
        self.open_next()?;
        self.stand(rest, blocks)
    }

    /// The table where the iterator begins, and the key to seek there. `None` where the iterator begins at an end of
    /// the table.
    pub(crate) fn seek_target<'r>(&self, rest: &'r RemainingRange) -> Option<(&TableReader, &'r [u8])> {
        let reader: &TableReader = &self.run.tables()[self.next_table()?];
        let bound = if self.direction == Direction::Up { &rest.low } else { &rest.high };
        let (Bound::Included(key) | Bound::Excluded(key)) = bound else { return None };
        let is_within = if self.direction == Direction::Up { **key > *reader.first() } else { **key <= *reader.last() };
        is_within.then_some((reader, &key[..]))
    }

    /// Opens the table where the iterator begins, and requests its first read. `blocks` are those that can have the key
    /// to seek.
    pub(crate) fn ask(
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

    /// The requested blocks were read.
    pub(crate) fn receive(&mut self, memory: Block) {
        let (_, cursor) = self.present.as_mut().expect("a source that has asked is in a table");
        cursor.receive(memory);
    }

    /// Moves to the first remaining record in the opened table. `blocks` are those that can have the key to seek.
    pub(crate) fn stand(&mut self, rest: &RemainingRange, blocks: Option<Candidates>) -> Result<()> {
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

    /// Leaves the current table.
    fn leave(&mut self) {
        self.before = self.progress();
        self.present = None;
    }

    /// The progress so far.
    fn progress(&self) -> ScanProgress {
        self.present.as_ref().map_or(self.before, |(_, cursor)| cursor.progress())
    }

    /// The current record; no value is a tombstone.
    #[inline]
    pub(crate) fn record(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.present.as_ref().map(|(_, cursor)| (cursor.key(), cursor.value()))
    }

    /// Disk requests so far.
    pub(crate) fn reads(&self) -> u64 {
        self.progress().requests.into()
    }

    /// Whether the block of the current record is in the block cache, for readers that read ahead.
    pub(crate) fn is_cached(&self) -> bool {
        self.present.as_ref().is_some_and(|(_, cursor)| cursor.is_cached())
    }

    /// The smallest and the largest sequence of the current table.
    pub(crate) fn sequences(&self) -> (Seq, Seq) {
        self.present.as_ref().map_or((Seq::MAX, 0), |(number, _)| self.run.tables()[*number].table().sequences())
    }

    /// The table that comes next.
    fn next_table(&self) -> Option<usize> {
        let mut left = self.left.clone();
        match self.direction {
            Direction::Up => left.next(),
            Direction::Down => left.next_back(),
        }
    }

    /// Opens the table that comes next. False if there is none.
    fn open_next(&mut self) -> Result<bool> {
        let Some(number) = self.next_table() else { return Ok(false) };
        self.left = match self.direction {
            Direction::Up => number + 1..self.left.end,
            Direction::Down => self.left.start..number,
        };
        let reader = &self.run.tables()[number];
        if let ReadMode::Adaptive(_) = self.reading {
            reader.reads.increment();
        }
        self.present = Some((number, self.open(reader)?));
        Ok(true)
    }

    /// A cursor before the first record of a table, in the iterator's direction.
    fn open(&self, reader: &TableReader) -> Result<Cursor> {
        let (table, environment) = (reader.table(), reader.table().environment());
        let slab = || environment.memory.lease_essential(Component::Frames, Size::Slab);
        let (memory, ahead, follows) = match &self.reading {
            ReadMode::Sequential => (slab()?, Some(slab()?), None),
            ReadMode::Adaptive(follows) => {
                let to_spare = || environment.memory.lease(follows.memory, Size::Slab);
                let is_long = follows.scan_lengths.next_read(self.before.pages).is_none();
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

    /// Moves within the current table. False behind its last record.
    fn advance(&mut self) -> Result<bool> {
        match (&mut self.present, self.direction) {
            (None, _) => Ok(false),
            (Some((_, cursor)), Direction::Up) => cursor.advance(),
            (Some((_, cursor)), Direction::Down) => cursor.retreat(),
        }
    }
}

impl Drop for RunIterator {
    /// Counts the length of the scan, which ends here.
    fn drop(&mut self) {
        if let (ReadMode::Adaptive(follows), pages @ 1..) = (&self.reading, self.progress().pages) {
            follows.scan_lengths.count(pages);
        }
    }
}

impl RecordIterator for RunIterator {
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

/// Moves to the first record within a bound. Its key can be in `blocks`, if it is above the first of the table.
fn to_first(cursor: &mut Cursor, low: &Bound<Vec<u8>>, blocks: Option<Candidates>) -> Result<bool> {
    let (Bound::Included(key) | Bound::Excluded(key)) = low else { return cursor.advance() };
    let there = match blocks {
        Some(blocks) => cursor.seek(blocks, key)?,
        None => cursor.advance()?,
    };
    let is_left_out = there && matches!(low, Bound::Excluded(_)) && cursor.key() == key;
    if is_left_out { cursor.advance() } else { Ok(there) }
}

/// Moves to the last record within a bound. Its key can be in `blocks`, if it is not above the last of the table.
fn to_last(cursor: &mut Cursor, high: &Bound<Vec<u8>>, blocks: Option<Candidates>) -> Result<bool> {
    let (Bound::Included(key) | Bound::Excluded(key), Some(blocks)) = (high, blocks) else { return cursor.retreat() };
    let there = cursor.seek(blocks, key)?;
    let is_last = there && matches!(high, Bound::Included(_)) && cursor.key() == key;
    if is_last { Ok(true) } else { cursor.retreat() }
}
