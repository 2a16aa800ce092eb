//! Sequential output to a file: in large pieces, several in flight.

use std::{mem, sync::Arc};

use super::FileIdentity;
use crate::{
    Result,
    environment::Environment,
    health::Health,
    limits::PAGE,
    memory::Component,
    storage::{Access, Block, File, Op, Queue, Request, Storage},
};

/// Pieces in memory, if there is memory for them.
const PIECES: usize = 4;
/// Bytes of disk that are reserved at a time.
const RESERVE: u64 = 1 << 20;

/// A file that is written front to back from byte 4096 on. Dropping it unfinished removes the file.
#[derive(Debug)]
pub struct Output {
    storage: Arc<dyn Storage>,
    file: Arc<dyn File>,
    finished: bool,
    health: Arc<Health>,
    queue: Box<dyn Queue>,
    free: Vec<Block>,
    piece: Block,
    filled: usize,
    /// The piece's offset in the file.
    offset: u64,
    reserved: u64,
}

impl Output {
    /// Makes the file.
    ///
    /// # Errors
    /// If writing has stopped, there is no memory for a piece, or the file cannot be made. Then there is no file.
    pub fn create(environment: &Environment, name: FileIdentity) -> Result<Output> {
        environment.health.check()?;
        let (storage, memory) = (environment.storage.clone(), &environment.memory);
        let mut free = memory.lease_in_turn(Component::Frames, PIECES)?;
        let piece = free.swap_remove(0);
        let (health, queue) = (environment.health.clone(), storage.queue()?);
        let file = storage.create(name.file(), Access::Direct)?;
        Ok(Output {
            storage,
            file,
            finished: false,
            health,
            queue,
            free,
            piece,
            filled: 0,
            offset: PAGE as u64,
            reserved: 0,
        })
    }

    /// Appends bytes. A piece of 64 KiB must be filled by a whole number of them.
    ///
    /// # Errors
    /// If there is no space on the disk, or a write fails.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.piece[self.filled..][..bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
        if self.filled == self.piece.len() { self.flush() } else { Ok(()) }
    }

    /// Pads with zeros to the next page.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    pub fn pad(&mut self) -> Result<()> {
        let padding = self.filled.next_multiple_of(PAGE) - self.filled;
        self.append(&[0; PAGE][..padding])
    }

    /// Writes the rest and the first page `first`, and syncs. Returns the file. Its name is durable after
    /// [`sync_dir`](Storage::sync_dir).
    ///
    /// # Errors
    /// As for [`append`](Self::append); or if the sync fails. Then there is no file.
    pub fn finish(mut self, first: Block) -> Result<Arc<dyn File>> {
        if self.filled > 0 {
            self.flush()?;
        }
        let in_flight = self.queue.in_flight();
        let written = self.queue.take_back(in_flight, &mut self.free);
        let written = written.and_then(|()| self.file.write(&first, 0)).and_then(|()| self.file.set_len(self.offset));
        let synced = written.and_then(|()| if bug!(SkipTableSync) { Ok(()) } else { self.file.sync() });
        synced.map_err(|e| self.health.poison(e))?;
        self.finished = true;
        Ok(self.file.clone())
    }

    fn flush(&mut self) -> Result<()> {
        let len = mem::take(&mut self.filled);
        self.reserve(self.offset + len as u64)?;
        if self.free.is_empty() {
            self.queue.take_back(1, &mut self.free).map_err(|e| self.health.poison(e))?;
        }
        match self.free.pop() {
            Some(next) => self.submit(next, len)?,
            // There is memory for one piece only.
            None => self.file.write(&self.piece[..len], self.offset).map_err(|e| self.health.poison(e))?,
        }
        self.offset += len as u64;
        Ok(())
    }

    /// Starts writing a piece, without waiting for it.
    fn submit(&mut self, next: Block, len: usize) -> Result<()> {
        let block = mem::replace(&mut self.piece, next);
        self.queue.submit(Request { file: self.file.clone(), op: Op::Write, offset: self.offset, block, len, tag: 0 });
        self.queue.take_back(0, &mut self.free).map_err(|e| self.health.poison(e))
    }

    /// The only step that fails on a full disk.
    fn reserve(&mut self, end: u64) -> Result<()> {
        if end > self.reserved {
            let more = (end - self.reserved).max(RESERVE);
            self.file.preallocate(self.reserved, more)?;
            self.reserved += more;
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // Nothing is in flight when the name is removed. The caller needs the first error, and a file that stays is an
        // orphan, which the next opening removes.
        let in_flight = self.queue.in_flight();
        let _ = self.queue.take_back(in_flight, &mut self.free);
        let _ = self.storage.remove(self.file.id());
    }
}
