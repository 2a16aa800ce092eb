//! Many reads in flight, each with a continuation.

use std::sync::Arc;

use ecotone_sys::chunk::Size;

use super::{Block, Completion, File, Op, Queue, Request};
use crate::{
    Result,
    memory::{Component, Memory},
};

/// Reads in flight, each with the value that waits for it.
#[derive(Debug)]
pub struct Reads<'q, W> {
    queue: &'q mut dyn Queue,
    /// The waiting values, by the tags of their requests.
    waiting: Vec<Option<W>>,
    /// Free tags.
    free: Vec<usize>,
    /// Completions that were not returned yet.
    done: Vec<Completion>,
    /// Reads in flight whose blocks are not of the windows' memory.
    scarce: usize,
}

impl<'q, W> Reads<'q, W> {
    /// No reads in flight, over a queue with none.
    pub fn new(queue: &'q mut dyn Queue) -> Self {
        Reads { queue, waiting: Vec::new(), free: Vec::new(), done: Vec::new(), scarce: 0 }
    }

    /// Number of reads in flight.
    pub fn in_flight(&self) -> usize {
        self.waiting.len() - self.free.len()
    }

    /// A block for one more read of a call that passes the read bytes to its caller's closure, which may hold the block
    /// for long. So the block is of the windows' memory. If windows have their maximum, it is of the memory that other
    /// work needs, for one read at a time: nothing else is in flight then, and the block is given back before the
    /// closure runs. `None` if the reads in flight have to end first.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory) if there is not even one.
    pub fn lease(&self, memory: &Memory, size: Size) -> Result<Option<Block>> {
        if self.scarce > 0 {
            return Ok(None);
        }
        match memory.lease_essential(Component::Windows, size) {
            Ok(block) => Ok(Some(block)),
            Err(_) if self.in_flight() > 0 => Ok(None),
            Err(_) => memory.lease_essential(Component::Frames, size).map(Some),
        }
    }

    /// Whether a read in flight uses memory that other work needs. Until it has ended no other read is started.
    pub fn is_scarce(&self) -> bool {
        self.scarce > 0
    }

    /// Whether a closure may run while this block is held.
    pub fn may_keep(block: &Block) -> bool {
        block.tag() == Component::Windows as u8
    }

    /// Reads `len` bytes of a file from `offset` on into the block. The read starts with the next [`wait`](Self::wait)
    /// at the latest.
    pub fn ask(&mut self, waits: W, file: Arc<dyn File>, offset: u64, len: usize, block: Block) {
        let tag = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        self.waiting[tag] = Some(waits);
        self.scarce += usize::from(!Self::may_keep(&block));
        self.queue.submit(Request { file, op: Op::Read, offset, block, len, tag: tag as u64 });
    }

    /// Waits for the read that ends first. Returns its waiting value and its block. `None` if nothing is in flight.
    ///
    /// # Errors
    /// If the read has failed. The others stay in flight: a caller that does not go on gives the queue back, which
    /// waits for them.
    pub fn wait(&mut self) -> Result<Option<(W, Block)>> {
        if self.done.is_empty() {
            self.queue.complete(1, &mut self.done);
        }
        let Some(Completion { request, result }) = self.done.pop() else { return Ok(None) };
        let tag = request.tag as usize;
        let waits = self.waiting[tag].take().expect("something waits for each read");
        self.free.push(tag);
        self.scarce -= usize::from(!Self::may_keep(&request.block));
        result?;
        Ok(Some((waits, request.block)))
    }
}

#[cfg(test)]
mod tests {
    use ecotone_sys::chunk::{Arena, CHUNK_BYTES, Size};

    use super::*;
    use crate::{
        disk::Disk,
        limits::PAGE,
        storage::{Access, FileId, Storage},
    };

    const PAGES: u8 = 100;

    /// A file whose pages are filled with their numbers, on its own disk.
    fn numbered() -> (tempfile::TempDir, Disk, Arc<dyn File>, Arc<Arena>) {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::open(directory.path(), true).unwrap();
        let file = disk.create(FileId::Pages(1), Access::Cached).unwrap();
        (0..PAGES).for_each(|page| file.write(&[page; PAGE], u64::from(page) * PAGE as u64).unwrap());
        (directory, disk, file, Arena::new(CHUNK_BYTES))
    }

    #[test]
    fn each_read_comes_back_once_to_what_waits_for_it() {
        let (_directory, disk, file, arena) = numbered();
        let mut queue = disk.queue().unwrap();
        let (mut reads, mut left, mut most) = (Reads::new(&mut *queue), (0..PAGES).collect::<Vec<_>>(), 0);
        let mut seen = [0; PAGES as usize];
        loop {
            while reads.in_flight() < 7
                && let Some(page) = left.pop()
            {
                reads.ask(
                    (page, 1),
                    file.clone(),
                    u64::from(page) * PAGE as u64,
                    PAGE,
                    arena.lease(Size::Frame, 0).unwrap(),
                );
            }
            most = most.max(reads.in_flight());
            let Some(((page, times), block)) = reads.wait().unwrap() else { break };
            assert!(block.iter().all(|byte| *byte == page));
            seen[usize::from(page)] += 1;
            // The next read uses the same block.
            if times < 3 {
                reads.ask((page, times + 1), file.clone(), u64::from(page) * PAGE as u64, PAGE, block);
            }
        }
        assert_eq!((most, reads.in_flight(), reads.waiting.len()), (7, 0, 7));
        assert!(seen.iter().all(|times| *times == 3), "{seen:?}");
    }

    #[test]
    fn a_failed_read_is_told_and_the_others_are_whole() {
        let (_directory, disk, file, arena) = numbered();
        let mut queue = disk.queue().unwrap();
        let mut reads = Reads::new(&mut *queue);
        for page in PAGES - 3..PAGES + 1 {
            reads.ask(page, file.clone(), u64::from(page) * PAGE as u64, PAGE, arena.lease(Size::Frame, 0).unwrap());
        }
        let (mut failures, mut pages) = (0, Vec::new());
        loop {
            match reads.wait() {
                Ok(Some((page, block))) => pages.push((page, block[0])),
                Ok(None) => break,
                Err(error) => failures += usize::from(error.is_corruption()),
            }
        }
        pages.sort_unstable();
        assert_eq!((failures, pages), (1, vec![(97, 97), (98, 98), (99, 99)]));
        assert_eq!((reads.in_flight(), arena.held_bytes()), (0, 0));
    }

    #[test]
    fn nothing_is_in_flight_when_a_queue_was_given_back() {
        let (_directory, disk, file, arena) = numbered();
        let mut queue = disk.queue().unwrap();
        let mut reads = Reads::new(&mut *queue);
        for page in 0..PAGES {
            reads.ask(page, file.clone(), u64::from(page) * PAGE as u64, PAGE, arena.lease(Size::Frame, 0).unwrap());
        }
        assert!(reads.wait().unwrap().is_some());
        drop(reads);
        drop(queue);
        assert_eq!(arena.held_bytes(), 0);
    }
}
