//! A window of adjacent blocks of a table, read together because a cursor needs them one after the other. A scan's
//! window grows and reads ahead, and may use the block cache.

use std::{mem, ops::Range, sync::Arc};

use ecotone_engine::{
    read_ahead::{ReadAhead, ReadWidth},
    remaining_range::Direction,
};
use ecotone_substrate::{
    Result,
    environment::Environment,
    limits::PAGE,
    memory::Component,
    storage::{self, Completion, Op, Queue, Reads, Request},
};
use ecotone_sys::chunk::Size;

use crate::table::{Block, Table, compression};

impl Table {
    /// Brings a new table's blocks into the block cache if most of their records were cached before the merge that
    /// wrote the table. So data that is scanned often stays in memory while compaction replaces its tables. The blocks
    /// are read in large requests. A block that cannot be read is left to its next reader, and so are all blocks if
    /// there is no memory.
    pub(crate) fn warm(self: &Arc<Self>) {
        let (warm, Some(cache)) = (mem::take(&mut *self.warm.lock()), &self.blocks) else { return };
        if warm.is_empty() {
            return;
        }
        let Some(slab) = self.environment.memory.lease(Component::Frames, Size::Slab) else { return };
        let mut window = BlockWindow::new(self.clone(), 0..self.blocks(), slab);
        for block in warm {
            if window.enter(block, Direction::Up).is_err() {
                return;
            }
            cache.admit(block, window.stored_bytes(block));
        }
    }
}

/// As many blocks as the memory holds. If blocks may be packed, the end of the memory is room to unpack the block that
/// was entered last.
#[derive(Debug)]
pub(super) struct BlockWindow {
    table: Arc<Table>,
    /// The blocks that may be entered.
    within: Range<u32>,
    /// `None` while a requested read into it is in flight.
    memory: Option<storage::Block>,
    /// The blocks in memory.
    there: Range<u32>,
    /// The origin of the blocks in memory.
    origin: Origin,
    /// Whether the block that was entered last is in the block cache. Set only for full passes, such as compaction.
    is_cached: bool,
    ahead: Option<ReadAheadBuffer>,
    /// The read-ahead of a scan; `None` for a full pass.
    follows: Option<ReadAhead>,
    progress: ScanProgress,
    /// The block that was entered last.
    entered: Option<u32>,
}

/// The progress of a scan, earlier tables included.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ScanProgress {
    /// Pages entered.
    pub(crate) pages: usize,
    /// Requests to the disk.
    pub(crate) requests: u32,
}

/// The origin of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The block cache. Its blocks were checked at admission.
    Cache,
    /// The file, read by a short scan: the blocks may be admitted to the block cache.
    Short,
    /// The file, read by a long scan or a full pass.
    Long,
}

/// The first reads of a scan, whose blocks may be admitted to the block cache.
const SHORT: u32 = 2;

/// Reason for `expect`: the memory is present.
const RECEIVED: &str = "what was asked for was received";

impl BlockWindow {
    /// A window over some blocks of a table, in memory for one block or more.
    pub(super) fn new(table: Arc<Table>, within: Range<u32>, memory: storage::Block) -> BlockWindow {
        assert!(within.end <= table.blocks() && memory.len() >= table.bytes_for_a_block());
        let (memory, there, origin, is_cached) = (Some(memory), 0..0, Origin::Long, false);
        let (ahead, follows, progress, entered) = (None, None, ScanProgress::default(), None);
        BlockWindow { table, within, memory, there, origin, is_cached, ahead, follows, progress, entered }
    }

    /// Sets the scan that it reads for, and the progress of that scan. Each read then takes as many blocks as the
    /// scan's read-ahead says, if there is memory.
    pub(super) fn follow(&mut self, follows: Option<ReadAhead>, progress: ScanProgress) {
        (self.follows, self.progress) = (follows, progress);
    }

    /// The progress by now.
    pub(super) fn progress(&self) -> ScanProgress {
        self.progress
    }

    /// The number of blocks that the next read takes: all that the memory holds, but for a scan no more than its
    /// read-ahead says. A long scan also gets a read-ahead buffer.
    fn widen(&mut self) -> Result<u32> {
        let stride = self.stride();
        let table = self.table.clone();
        let Environment { memory, storage, .. } = table.environment();
        let component = self.follows.as_ref().map_or(Component::Frames, |follows| follows.memory);
        let blocks = stride.flatten().map_or(u32::MAX, |stride| stride.pages.div_ceil(self.pages()) as u32);
        if stride.is_some() && blocks > 1 && self.memory().len() < Size::Slab.bytes() {
            // Without a slab the scan goes on reading one block at a time.
            self.memory = memory.lease_essential(component, Size::Slab).ok().or(self.memory.take());
        }
        let is_long = stride == Some(None) && self.ahead.is_none() && self.memory().len() == Size::Slab.bytes();
        if let Some(slab) = is_long.then(|| memory.lease(component, Size::Slab)).flatten() {
            self.read_ahead(storage.queue()?, slab);
        }
        Ok(blocks.min(self.most()))
    }

    /// The width of the next read if this is a scan; `Some(None)` for a long scan, which reads full windows.
    fn stride(&self) -> Option<Option<ReadWidth>> {
        self.follows.as_ref().map(|follows| follows.scan_lengths.next_read(self.progress.pages))
    }

    /// The number of blocks that the memory holds.
    fn most(&self) -> u32 {
        (self.room() / self.table.block_size()) as u32
    }

    /// Pages of a block.
    fn pages(&self) -> usize {
        self.table.block_size() / PAGE
    }

    /// From now on the next blocks are read while the present window is used, into memory of the same size.
    pub(super) fn read_ahead(&mut self, queue: Box<dyn Queue>, memory: storage::Block) {
        assert_eq!(memory.len(), self.memory().len());
        self.ahead = Some(ReadAheadBuffer { queue, free: Some(memory), blocks: 0..0, done: Vec::new() });
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The blocks that may be asked for.
    pub(super) fn within(&self) -> Range<u32> {
        self.within.clone()
    }

    /// Brings a block into memory, unless it is there, and checks it, unless it comes from the block cache. Neighbours
    /// are read along with it, first those that are next in this direction.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub(super) fn enter(&mut self, block: u32, direction: Direction) -> Result<Block<'_>> {
        if !self.there.contains(&block) {
            self.fetch(block, direction)?;
        }
        if self.entered.replace(block) != Some(block) {
            self.progress.pages += self.pages();
        }
        let cache = self.table.blocks.as_ref().filter(|_| self.follows.is_none());
        self.is_cached = cache.is_some_and(|cache| cache.has(block, self.table.block_size()));
        let (place, room) = (self.place(block), self.room());
        let memory = self.memory.as_mut().expect(RECEIVED);
        let (blocks, room) = memory.split_at_mut(room);
        let bytes = &blocks[place];
        let parsed = match self.origin {
            Origin::Cache => Block::unpack_verified(bytes, room),
            Origin::Short | Origin::Long => Block::unpack(bytes, self.table.name().place(block), room),
        };
        let parsed = parsed.map_err(|e| self.table.damaged(block, e))?;
        if let Some(cache) = self.table.blocks.as_ref().filter(|_| self.origin == Origin::Short) {
            cache.admit(block, bytes);
        }
        Ok(parsed)
    }

    /// Whether it uses the block cache. Full passes and long scans (and compactions) do not, so that they leave the
    /// cache as it is.
    fn is_short(&self) -> bool {
        self.progress.requests <= SHORT && self.ahead.is_none() && self.stride().flatten().is_some()
    }

    /// Copies a block from the block cache, if it is there.
    fn take_cached(&mut self, block: u32) -> bool {
        let Some(cache) = self.table.blocks.as_ref().filter(|_| self.is_short()) else { return false };
        let memory = self.memory.as_mut().expect(RECEIVED);
        let found = cache.copy(block, &mut memory[..self.table.block_size()]);
        if found {
            (self.there, self.origin) = (block..block + 1, Origin::Cache);
        }
        found
    }

    /// Requests the read for this block as the first one to be entered, unless it is in the block cache. The memory
    /// that `waits` gets must be [received](Self::receive) before the block is entered.
    pub(super) fn ask<W>(
        &mut self,
        block: u32,
        direction: Direction,
        reads: &mut Reads<'_, W>,
        waits: W,
    ) -> Result<()> {
        if self.take_cached(block) {
            return Ok(());
        }
        let (blocks, offset, len) = self.next_read(block, direction)?;
        let memory = self.memory.take().expect(RECEIVED);
        reads.ask(waits, self.table.file().clone(), offset, len, memory);
        self.there = blocks;
        Ok(())
    }

    /// Takes back the memory of a finished read.
    pub(super) fn receive(&mut self, memory: storage::Block) {
        self.memory = Some(memory);
    }

    fn memory(&self) -> &storage::Block {
        self.memory.as_ref().expect(RECEIVED)
    }

    /// The block that was entered last.
    ///
    /// # Errors
    /// If it is malformed.
    pub(super) fn block(&self, block: u32) -> Result<Block<'_>> {
        Block::reparse(self.bytes(block)).map_err(|e| self.table.damaged(block, e))
    }

    /// Whether the block that was entered last is in the block cache. Only for full passes.
    pub(super) fn is_cached(&self) -> bool {
        self.is_cached
    }

    /// The bytes of a block in memory, as they are in the file.
    pub(super) fn stored_bytes(&self, block: u32) -> &[u8] {
        &self.memory()[self.place(block)]
    }

    /// The plain bytes of the block that was entered last.
    pub(super) fn bytes(&self, block: u32) -> &[u8] {
        let bytes = self.stored_bytes(block);
        match compression::plain_bytes(bytes) {
            Some(plain) if self.table.may_be_packed() => &self.memory()[self.room()..][..plain],
            _ => bytes,
        }
    }

    /// The place of a block in the memory.
    fn place(&self, block: u32) -> Range<usize> {
        let (at, size) = ((block - self.there.start) as usize, self.table.block_size());
        at * size..(at + 1) * size
    }

    /// The offset of the room for unpacking a block.
    fn room(&self) -> usize {
        self.memory().len() + self.table.block_size() - self.table.bytes_for_a_block()
    }

    fn fetch(&mut self, block: u32, direction: Direction) -> Result<()> {
        if self.take_cached(block) {
            return Ok(());
        }
        if !self.take_ahead(block)? {
            let (blocks, offset, len) = self.next_read(block, direction)?;
            let memory = self.memory.as_mut().expect(RECEIVED);
            self.table.file().read(&mut memory[..len], offset)?;
            self.there = blocks;
        }
        let next = match direction {
            Direction::Up => self.forward(self.there.end, self.most()),
            Direction::Down => self.backward(self.there.start, self.most()),
        };
        if let Some(ahead) = &mut self.ahead {
            ahead.begin(&self.table, next);
        }
        Ok(())
    }

    /// The blocks that are read together with this one, their file offset, and their bytes. The present window is
    /// dropped.
    fn next_read(&mut self, block: u32, direction: Direction) -> Result<(Range<u32>, u64, usize)> {
        self.there = 0..0;
        self.progress.requests = self.progress.requests.saturating_add(1);
        let most = self.widen()?;
        self.origin = if self.is_short() { Origin::Short } else { Origin::Long };
        let blocks = match direction {
            Direction::Up => self.forward(block, most),
            Direction::Down => self.backward(block + 1, most),
        };
        let blocks = self.without_cached(blocks, direction);
        let (offset, len) = (self.table.block_at(blocks.start), blocks.len() * self.table.block_size());
        Ok((blocks, offset, len))
    }

    /// Drops the farthest blocks that the block cache has, if the scan is short.
    fn without_cached(&self, mut blocks: Range<u32>, direction: Direction) -> Range<u32> {
        let Some(cache) = self.table.blocks.as_ref().filter(|_| self.origin == Origin::Short) else { return blocks };
        let has = |block| cache.has(block, self.table.block_size());
        while blocks.len() > 1 && has(if direction == Direction::Up { blocks.end - 1 } else { blocks.start }) {
            _ = if direction == Direction::Up { blocks.next_back() } else { blocks.next() };
        }
        blocks
    }

    /// Up to `blocks` blocks from this one on.
    fn forward(&self, first: u32, blocks: u32) -> Range<u32> {
        first..self.within.end.min(first.saturating_add(blocks))
    }

    /// Up to `blocks` blocks below this one.
    fn backward(&self, end: u32, blocks: u32) -> Range<u32> {
        self.within.start.max(end.saturating_sub(blocks))..end
    }

    /// Makes the read-ahead buffer the window, if it has a block. Whether it has.
    fn take_ahead(&mut self, block: u32) -> Result<bool> {
        let Some(ahead) = &mut self.ahead else { return Ok(false) };
        let Some((memory, read)) = ahead.end() else { return Ok(false) };
        let blocks = mem::take(&mut ahead.blocks);
        if !blocks.contains(&block) {
            // No reader needs these blocks, so an error of the read does not matter.
            ahead.free = Some(memory);
            return Ok(false);
        }
        ahead.free = self.memory.replace(memory);
        self.there = 0..0;
        read?;
        (self.there, self.origin) = (blocks, Origin::Long);
        Ok(true)
    }
}

/// The next window, which is read in advance.
#[derive(Debug)]
struct ReadAheadBuffer {
    queue: Box<dyn Queue>,
    /// Its memory, unless a read is in flight.
    free: Option<storage::Block>,
    /// The blocks of the read in flight.
    blocks: Range<u32>,
    /// A read that completed at once.
    done: Vec<Completion>,
}

impl ReadAheadBuffer {
    /// Begins to read these blocks, if there are any.
    fn begin(&mut self, table: &Table, blocks: Range<u32>) {
        let Some(block) = self.free.take_if(|_| !blocks.is_empty()) else { return };
        let (offset, len) = (table.block_at(blocks.start), blocks.len() * table.block_size());
        self.queue.submit(Request { file: table.file().clone(), op: Op::Read, offset, block, len, tag: 0 });
        // Starts the read without waiting for it.
        self.queue.complete(0, &mut self.done);
        self.blocks = blocks;
    }

    /// Waits for the read in flight, if there is one.
    fn end(&mut self) -> Option<(storage::Block, Result<()>)> {
        if self.free.is_none() && self.done.is_empty() {
            self.queue.complete(1, &mut self.done);
        }
        self.done.pop().map(|Completion { request, result }| (request.block, result))
    }
}
