//! The records of a table, one after the other in either direction, read a window at a time.

use std::{cmp::Ordering, mem, ops::Range, sync::Arc};

use ecotone_substrate::{
    Error, Result,
    codec::Malformed,
    storage::{self, Queue, Reads},
};

use super::{
    Candidates, Table,
    records::Records,
    window::{Progress, Window},
};
use crate::lengths::ReadAhead;
use crate::rest::Direction;

/// A place among the records of some blocks of a table: one of them, before the first, or behind the last.
#[derive(Debug)]
pub struct Cursor {
    window: Window,
    /// Where it went last.
    direction: Direction,
    state: State,
    /// The records of the present run.
    records: Records,
    block: u32,
    run: usize,
    /// Runs of the present block.
    runs: usize,
    /// The key that was left for another run.
    left: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first record.
    Start,
    /// On one of the run.
    On(usize),
    /// Behind the last record.
    End,
}

impl Cursor {
    /// Before the first record of these blocks, to go forward. The window has memory for as many blocks as are read in
    /// one request.
    pub fn forward(table: Arc<Table>, blocks: Range<u32>, window: storage::Block) -> Cursor {
        Cursor::new(Direction::Up, table, blocks, window)
    }

    /// Behind the last record of these blocks, to go backward.
    pub fn backward(table: Arc<Table>, blocks: Range<u32>, window: storage::Block) -> Cursor {
        Cursor::new(Direction::Down, table, blocks, window)
    }

    /// Before the first record of these blocks in a direction, to go on in it.
    pub(crate) fn new(direction: Direction, table: Arc<Table>, blocks: Range<u32>, window: storage::Block) -> Cursor {
        let state = match direction {
            Direction::Up => State::Start,
            Direction::Down => State::End,
        };
        let window = Window::new(table, blocks, window);
        Cursor { window, direction, state, records: Records::default(), block: 0, run: 0, runs: 0, left: Vec::new() }
    }

    /// From now on the next window is read while the present one is looked at, into memory of the same size.
    pub fn read_ahead(&mut self, queue: Box<dyn Queue>, window: storage::Block) {
        self.window.read_ahead(queue, window);
    }

    /// It is of somebody who has come so far. Each read takes what it should for a scan, if it is one and there is
    /// memory.
    pub(crate) fn follow(&mut self, follows: Option<ReadAhead>, progress: Progress) {
        self.window.follow(follows, progress);
    }

    /// How far that is by now.
    pub(crate) fn progress(&self) -> Progress {
        self.window.progress()
    }

    /// Whether the block of the present record is in the block cache, for who goes through all of a table.
    pub(crate) fn is_cached(&self) -> bool {
        self.window.is_cached()
    }

    /// Asks for what is read when this block is the first to be entered, in its direction. What `waits` gets has to be
    /// [received](Self::receive) before it goes anywhere.
    ///
    /// # Errors
    /// If there is no queue to read ahead.
    pub fn ask<W>(&mut self, block: u32, reads: &mut Reads<'_, W>, waits: W) -> Result<()> {
        self.window.ask(block, self.direction, reads, waits)
    }

    /// What was asked for was read into its memory.
    pub fn receive(&mut self, memory: storage::Block) {
        self.window.receive(memory);
    }

    /// Goes to the next record. False behind the last. After an error it is behind the last.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read.
    pub fn advance(&mut self) -> Result<bool> {
        self.direction = Direction::Up;
        let (block, run) = match self.state {
            State::Start => (Some(self.window.within().start), 0),
            State::On(record) if record + 1 < self.records.len() => return self.stand(record + 1),
            State::On(_) if self.run + 1 < self.runs => (None, self.run + 1),
            State::On(_) => (Some(self.block + 1), 0),
            State::End => return Ok(false),
        };
        let left = self.leave(State::End);
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

    /// Goes to the record before. False before the first. After an error it is before the first.
    ///
    /// # Errors
    /// As for [`advance`](Self::advance).
    pub fn retreat(&mut self) -> Result<bool> {
        self.direction = Direction::Down;
        let behind = match self.state {
            State::Start => return Ok(false),
            State::On(record) if record > 0 => return self.stand(record - 1),
            State::On(_) if self.run > 0 => None,
            State::On(_) => Some(self.block),
            State::End => Some(self.window.within().end),
        };
        let left = self.leave(State::Start);
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

    /// Goes to the first record whose key is not below this one, by the blocks that can have the key. False, and behind
    /// the last, if there is none in these blocks. After an error it is there too.
    ///
    /// # Errors
    /// As for [`advance`](Self::advance).
    pub fn seek(&mut self, mut left: Candidates, key: &[u8]) -> Result<bool> {
        let (first, last) = self.window.table().range();
        if key <= first {
            self.state = State::Start;
            return self.advance();
        }
        self.state = State::End;
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
    /// If it is on no record.
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
            State::On(record) => record,
            State::Start | State::End => panic!("the cursor is on no record"),
        }
    }

    fn stand(&mut self, record: usize) -> Result<bool> {
        self.state = State::On(record);
        Ok(true)
    }

    /// Leaves the present record, if it is on one, and keeps its key. Whether it was.
    fn leave(&mut self, state: State) -> bool {
        let State::On(record) = mem::replace(&mut self.state, state) else { return false };
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
        self.records.take(&block, run).map_err(|e| self.damaged(e))
    }

    /// Goes to where a key is or would be in a block, if that is within it. Else says on which side of it the key lies;
    /// blocks that are left out are not looked at.
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
            self.state = State::On(record);
        } else if run + 1 < self.runs {
            self.take(run + 1)?;
            self.state = State::On(0);
        } else {
            return Ok(Ordering::Greater);
        }
        Ok(Ordering::Equal)
    }

    /// Goes to the first record of a block, or of the next one that is not left out.
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
