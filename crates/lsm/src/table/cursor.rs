//! A cursor over the records of a table, in either direction. It reads one window of blocks at a time.

use std::{cmp::Ordering, mem, ops::Range, sync::Arc};

use ecotone_engine::{read_ahead::ReadAhead, remaining_range::Direction};
use ecotone_substrate::{
    Error, Result,
    codec::Malformed,
    storage::{self, Queue, Reads},
};

use crate::table::{
    Candidates, Table,
    decoded::DecodedInterval,
    window::{BlockWindow, ScanProgress},
};

/// A position among the records of some blocks of a table: on a record, before the first, or behind the last.
#[derive(Debug)]
pub struct Cursor {
    window: BlockWindow,
    /// The direction of the last move.
    direction: Direction,
    state: CursorPosition,
    /// The records of the present run.
    records: DecodedInterval,
    block: u32,
    run: usize,
    /// Runs of the present block.
    runs: usize,
    /// The key that the cursor left when it moved to another run, to check the order.
    left: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CursorPosition {
    /// Before the first record.
    Start,
    /// On a record of the present run.
    On(usize),
    /// Behind the last record.
    End,
}

impl Cursor {
    /// A cursor before the first record of these blocks, to go forward. The memory of `window` decides how many blocks
    /// one request reads.
    pub fn forward(table: Arc<Table>, blocks: Range<u32>, window: storage::Block) -> Cursor {
        Cursor::new(Direction::Up, table, blocks, window)
    }

    /// A cursor behind the last record of these blocks, to go backward.
    pub fn backward(table: Arc<Table>, blocks: Range<u32>, window: storage::Block) -> Cursor {
        Cursor::new(Direction::Down, table, blocks, window)
    }

    /// A cursor before the first record of these blocks in a direction.
    pub(crate) fn new(direction: Direction, table: Arc<Table>, blocks: Range<u32>, window: storage::Block) -> Cursor {
        let state = match direction {
            Direction::Up => CursorPosition::Start,
            Direction::Down => CursorPosition::End,
        };
        let window = BlockWindow::new(table, blocks, window);
        Cursor {
            window,
            direction,
            state,
            records: DecodedInterval::default(),
            block: 0,
            run: 0,
            runs: 0,
            left: Vec::new(),
        }
    }

    /// From now on the next window is read while the present one is used, into memory of the same size.
    pub fn read_ahead(&mut self, queue: Box<dyn Queue>, window: storage::Block) {
        self.window.read_ahead(queue, window);
    }

    /// Sets the scan that it reads for, and the progress of that scan. Each read then takes as many blocks as the
    /// scan's read-ahead says, if there is memory.
    pub(crate) fn follow(&mut self, follows: Option<ReadAhead>, progress: ScanProgress) {
        self.window.follow(follows, progress);
    }

    /// The progress by now.
    pub(crate) fn progress(&self) -> ScanProgress {
        self.window.progress()
    }

    /// Whether the block of the present record is in the block cache. Only for full passes, such as compaction.
    pub(crate) fn is_cached(&self) -> bool {
        self.window.is_cached()
    }

    /// Requests the read for this block as the first one to be entered. The memory that `waits` gets must be
    /// [received](Self::receive) before the cursor moves.
    ///
    /// # Errors
    /// If no queue for reading ahead can be created.
    pub fn ask<W>(&mut self, block: u32, reads: &mut Reads<'_, W>, waits: W) -> Result<()> {
        self.window.ask(block, self.direction, reads, waits)
    }

    /// Takes back the memory of a finished read.
    pub fn receive(&mut self, memory: storage::Block) {
        self.window.receive(memory);
    }

    /// Goes to the next record. False behind the last. After an error the cursor is behind the last.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read.
    pub fn advance(&mut self) -> Result<bool> {
        self.direction = Direction::Up;
        let (block, run) = match self.state {
            CursorPosition::Start => (Some(self.window.within().start), 0),
            CursorPosition::On(record) if record + 1 < self.records.len() => return self.stand(record + 1),
            CursorPosition::On(_) if self.run + 1 < self.runs => (None, self.run + 1),
            CursorPosition::On(_) => (Some(self.block + 1), 0),
            CursorPosition::End => return Ok(false),
        };
        let left = self.leave(CursorPosition::End);
        if let Some(block) = block {
            if block >= self.window.within().end {
                return Ok(false);
            }
            self.enter(block)?;
        }
        self.take(run)?;
        if left && *self.left >= *self.records.key(0) {
            return self.out_of_order();
        }
        self.stand(0)
    }

    /// Goes to the record before. False before the first. After an error the cursor is before the first.
    ///
    /// # Errors
    /// As for [`advance`](Self::advance).
    pub fn retreat(&mut self) -> Result<bool> {
        self.direction = Direction::Down;
        let behind = match self.state {
            CursorPosition::Start => return Ok(false),
            CursorPosition::On(record) if record > 0 => return self.stand(record - 1),
            CursorPosition::On(_) if self.run > 0 => None,
            CursorPosition::On(_) => Some(self.block),
            CursorPosition::End => Some(self.window.within().end),
        };
        let left = self.leave(CursorPosition::Start);
        let runs = match behind {
            None => self.run,
            Some(behind) if behind <= self.window.within().start => return Ok(false),
            Some(behind) => {
                self.enter(behind - 1)?;
                self.runs
            }
        };
        self.take(runs - 1)?;
        let last = self.records.len() - 1;
        if left && *self.records.key(last) >= *self.left {
            return self.out_of_order();
        }
        self.stand(last)
    }

    /// Goes to the first record at or above a key, by the key's candidate blocks. If these blocks have none, gives
    /// false and is behind the last record, as after an error.
    ///
    /// # Errors
    /// As for [`advance`](Self::advance).
    pub fn seek(&mut self, mut left: Candidates, key: &[u8]) -> Result<bool> {
        let (first, last) = self.window.table().range();
        if key <= first {
            self.state = CursorPosition::Start;
            return self.advance();
        }
        self.state = CursorPosition::End;
        if key > last {
            return Ok(false);
        }
        loop {
            let block = left.first;
            match self.settle(block, key)? {
                Ordering::Equal => return Ok(true),
                Ordering::Less if !left.go_down() => return self.begin(block),
                Ordering::Greater if !left.go_up() => return self.begin(block + 1),
                Ordering::Less | Ordering::Greater => {}
            }
        }
    }

    /// The present key.
    ///
    /// # Panics
    /// If the cursor is on no record.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.records.key(self.record())
    }

    /// The present value; `None` for a tombstone.
    ///
    /// # Panics
    /// As [`key`](Self::key).
    #[inline]
    pub fn value(&self) -> Option<&[u8]> {
        self.records.value(self.record()).map(|place| &self.window.bytes(self.block)[place])
    }

    fn record(&self) -> usize {
        match self.state {
            CursorPosition::On(record) => record,
            CursorPosition::Start | CursorPosition::End => panic!("the cursor is on no record"),
        }
    }

    fn stand(&mut self, record: usize) -> Result<bool> {
        self.state = CursorPosition::On(record);
        Ok(true)
    }

    /// Leaves the present record, if there is one, and keeps its key. Whether there was one.
    fn leave(&mut self, state: CursorPosition) -> bool {
        let CursorPosition::On(record) = mem::replace(&mut self.state, state) else { return false };
        self.left.clear();
        self.left.extend_from_slice(self.records.key(record));
        true
    }

    /// Makes a block the present one.
    fn enter(&mut self, block: u32) -> Result<()> {
        self.runs = self.window.enter(block, self.direction)?.runs();
        self.block = block;
        Ok(())
    }

    /// Takes the records of a run of the present block.
    fn take(&mut self, run: usize) -> Result<()> {
        let block = self.window.block(self.block)?;
        self.run = run;
        block.entries(run).and_then(|entries| self.records.take(entries)).map_err(|e| self.damaged(e))
    }

    /// Goes to the lower bound of a key in a block, if it lies within the block. Otherwise says on which side of the
    /// block the key lies. Blocks outside the cursor's range are not read.
    fn settle(&mut self, block: u32, key: &[u8]) -> Result<Ordering> {
        let within = self.window.within();
        if !within.contains(&block) {
            return Ok(if block < within.start { Ordering::Greater } else { Ordering::Less });
        }
        self.enter(block)?;
        let Some(run) = self.window.block(block)?.run_of(key).map_err(|e| self.damaged(e))? else {
            return Ok(Ordering::Less);
        };
        self.take(run)?;
        let record = self.records.below(key);
        if record < self.records.len() {
            self.state = CursorPosition::On(record);
        } else if run + 1 < self.runs {
            self.take(run + 1)?;
            self.state = CursorPosition::On(0);
        } else {
            return Ok(Ordering::Greater);
        }
        Ok(Ordering::Equal)
    }

    /// Goes to the first record of a block, or of the cursor's first block if that lies behind it.
    fn begin(&mut self, block: u32) -> Result<bool> {
        let within = self.window.within();
        let block = block.max(within.start);
        if block >= within.end {
            return Ok(false);
        }
        self.enter(block)?;
        self.take(0)?;
        self.stand(0)
    }

    fn damaged(&self, what: Malformed) -> Error {
        self.window.table().damaged(self.block, what)
    }

    fn out_of_order(&self) -> Result<bool> {
        Err(self.damaged(Malformed::new(0, "the records of the table are out of order")))
    }
}
