//! The bytes of a run on their way to its file: in large pieces, several in flight.

use std::{mem, sync::Arc};

use ecotone_substrate::{
    Result,
    environment::Environment,
    health::Health,
    limits::PAGE,
    memory::Component,
    storage::{Block, File, Op, Queue, Request},
};
use ecotone_sys::chunk::Size;

/// Pieces in memory, if there is enough for them.
const PIECES: usize = 4;
/// Bytes of which the space is reserved at a time.
const RESERVE: u64 = 1 << 20;

/// A file that is written from byte 4096 on, front to back.
#[derive(Debug)]
pub(super) struct Output {
    file: Arc<dyn File>,
    health: Arc<Health>,
    queue: Box<dyn Queue>,
    free: Vec<Block>,
    piece: Block,
    filled: usize,
    /// Where the piece belongs.
    offset: u64,
    reserved: u64,
}

impl Output {
    pub(super) fn new(environment: &Environment, file: Arc<dyn File>) -> Result<Output> {
        environment.health.check()?;
        let memory = &environment.memory;
        let piece = memory.lease_essential(Component::Frames, Size::Slab)?;
        let free = (1..PIECES).map_while(|_| memory.lease(Component::Frames, Size::Slab)).collect();
        let (health, queue) = (environment.health.clone(), environment.storage.queue()?);
        Ok(Output { file, health, queue, free, piece, filled: 0, offset: PAGE as u64, reserved: 0 })
    }

    /// Appends bytes, of which a whole number fills a piece.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.piece[self.filled..][..bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
        if self.filled == self.piece.len() { self.flush() } else { Ok(()) }
    }

    /// Fills up with zeros to the next page.
    pub(super) fn pad(&mut self) -> Result<()> {
        let padding = self.filled.next_multiple_of(PAGE) - self.filled;
        self.append(&[0; PAGE][..padding])
    }

    /// Writes the rest and the first page, and syncs. `first` is the whole page.
    pub(super) fn finish(mut self, first: Block) -> Result<()> {
        if self.filled > 0 {
            self.flush()?;
        }
        let in_flight = self.queue.in_flight();
        let written = self.queue.take_back(in_flight, &mut self.free);
        let written = written.and_then(|()| self.file.write(&first, 0)).and_then(|()| self.file.set_len(self.offset));
        written.and_then(|()| self.file.sync()).map_err(|e| self.health.poison(e))
    }

    fn flush(&mut self) -> Result<()> {
        let len = mem::take(&mut self.filled);
        self.reserve(self.offset + len as u64)?;
        if self.free.is_empty() {
            self.queue.take_back(1, &mut self.free).map_err(|e| self.health.poison(e))?;
        }
        match self.free.pop() {
            Some(next) => self.submit(next, len),
            // There is memory for one piece alone.
            None => self.file.write(&self.piece[..len], self.offset).map_err(|e| self.health.poison(e))?,
        }
        self.offset += len as u64;
        Ok(())
    }

    fn submit(&mut self, next: Block, len: usize) {
        let block = mem::replace(&mut self.piece, next);
        self.queue.submit(Request { file: self.file.clone(), op: Op::Write, offset: self.offset, block, len, tag: 0 });
    }

    /// Nothing but this fails on a full disk.
    fn reserve(&mut self, end: u64) -> Result<()> {
        if end > self.reserved {
            let more = (end - self.reserved).max(RESERVE);
            self.file.preallocate(self.reserved, more)?;
            self.reserved += more;
        }
        Ok(())
    }
}
