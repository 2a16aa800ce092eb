//! Blocks of a table that are read together, because they are wanted one after the other.

use std::{mem, ops::Range, sync::Arc};

use ecotone_substrate::{
    Result,
    environment::Environment,
    limits::PAGE,
    memory::Component,
    storage::{self, Completion, Op, Queue, Reads, Request},
};
use ecotone_sys::chunk::Size;

use super::{Block, Table, pack};
use crate::{
    lengths::{ReadAhead, Stride},
    rest::Direction,
};

/// As many blocks as there is memory for. Behind them is room to unpack the one that was entered last, if blocks may be
/// packed.
#[derive(Debug)]
pub(super) struct Window {
    table: Arc<Table>,
    /// Those that may be asked for.
    within: Range<u32>,
    /// None while what was asked for is being read into it.
    memory: Option<storage::Block>,
    /// Those that are in memory.
    there: Range<u32>,
    /// Where they come from.
    origin: Origin,
    /// Whether the block that was entered last is there, for who goes through all.
    is_cached: bool,
    ahead: Option<Ahead>,
    /// How it reads ahead, if it is that of a scan.
    follows: Option<ReadAhead>,
    progress: Progress,
    /// The block that was entered last.
    entered: Option<u32>,
}

/// How far somebody has come, by tables before as well.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Progress {
    /// Pages that he came to.
    pub(crate) pages: usize,
    /// Requests to the disk.
    pub(crate) requests: u32,
}

/// Where blocks come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The block cache, which has them from who checked them.
    Cache,
    /// The file, for who has not gone far: they may come into the block cache.
    Short,
    /// The file, for others.
    Long,
}

/// Reads of a scan whose blocks may come into the block cache.
const SHORT: u32 = 2;

/// Why there is memory.
const RECEIVED: &str = "what was asked for was received";

impl Window {
    /// For some blocks of a table, in memory for one of them or more.
    pub(super) fn new(table: Arc<Table>, within: Range<u32>, memory: storage::Block) -> Window {
        assert!(within.end <= table.blocks() && memory.len() >= table.bytes_for_a_block());
        let (memory, there, origin, is_cached) = (Some(memory), 0..0, Origin::Long, false);
        let (ahead, follows, progress, entered) = (None, None, Progress::default(), None);
        Window { table, within, memory, there, origin, is_cached, ahead, follows, progress, entered }
    }

    /// It is of somebody who has come so far. Each read takes what it should for a scan, if it is one and there is
    /// memory.
    pub(super) fn follow(&mut self, follows: Option<ReadAhead>, progress: Progress) {
        (self.follows, self.progress) = (follows, progress);
    }

    /// How far that is by now.
    pub(super) fn progress(&self) -> Progress {
        self.progress
    }

    /// How many blocks the next read takes: all that have room, but for a scan no more than it should. That of a long
    /// one has others ahead.
    fn widen(&mut self) -> Result<u32> {
        let stride = self.stride();
        let table = self.table.clone();
        let Environment { memory, storage, .. } = table.environment();
        let component = self.follows.as_ref().map_or(Component::Frames, |follows| follows.memory);
        let blocks = stride.flatten().map_or(u32::MAX, |stride| stride.pages.div_ceil(self.pages()) as u32);
        if stride.is_some() && blocks > 1 && self.memory().len() < Size::Slab.bytes() {
            // Without it one block goes on being read at a time.
            self.memory = memory.lease_essential(component, Size::Slab).ok().or(self.memory.take());
        }
        let is_long = stride == Some(None) && self.ahead.is_none() && self.memory().len() == Size::Slab.bytes();
        if let Some(slab) = is_long.then(|| memory.lease(component, Size::Slab)).flatten() {
            self.read_ahead(storage.queue()?, slab);
        }
        Ok(blocks.min(self.most()))
    }

    /// What the next read should take, if this is a scan; then nothing for a long one.
    fn stride(&self) -> Option<Option<Stride>> {
        self.follows.as_ref().map(|follows| follows.lengths.stride(self.progress.pages))
    }

    /// Blocks that have room.
    fn most(&self) -> u32 {
        (self.room() / self.table.block_size()) as u32
    }

    /// Pages of a block.
    fn pages(&self) -> usize {
        self.table.block_size() / PAGE
    }

    /// From now on the blocks behind the window are read while it is looked at, into memory of the same size.
    pub(super) fn read_ahead(&mut self, queue: Box<dyn Queue>, memory: storage::Block) {
        assert_eq!(memory.len(), self.memory().len());
        self.ahead = Some(Ahead { queue, free: Some(memory), blocks: 0..0, done: Vec::new() });
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The blocks that may be asked for.
    pub(super) fn within(&self) -> Range<u32> {
        self.within.clone()
    }

    /// Brings a block into memory, unless it is there, and checks it, unless somebody has. Others come along, those
    /// first that are next in this direction.
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

    /// Whether it looks into the block cache: unless all is gone through, or it has gone on for long (a long scan and a
    /// compaction leave that as it is).
    fn is_short(&self) -> bool {
        self.progress.requests <= SHORT && self.ahead.is_none() && self.stride().flatten().is_some()
    }

    /// Takes a block from the block cache, if it is there.
    fn take_cached(&mut self, block: u32) -> bool {
        let Some(cache) = self.table.blocks.as_ref().filter(|_| self.is_short()) else { return false };
        let memory = self.memory.as_mut().expect(RECEIVED);
        let found = cache.copy(block, &mut memory[..self.table.block_size()]);
        if found {
            (self.there, self.origin) = (block..block + 1, Origin::Cache);
        }
        found
    }

    /// Asks for what is read when this block is the first to be entered, unless that is in the block cache. What
    /// `waits` gets has to be [received](Self::receive) before.
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

    /// What was asked for was read into its memory.
    pub(super) fn receive(&mut self, memory: storage::Block) {
        self.memory = Some(memory);
    }

    fn memory(&self) -> &storage::Block {
        self.memory.as_ref().expect(RECEIVED)
    }

    /// The block that was entered last.
    ///
    /// # Errors
    /// If none was.
    pub(super) fn block(&self, block: u32) -> Result<Block<'_>> {
        Block::reparse(self.bytes(block)).map_err(|e| self.table.damaged(block, e))
    }

    /// Whether the block that was entered last is in the block cache, for who goes through all.
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
        match pack::plain_bytes(bytes) {
            Some(plain) if self.table.may_be_packed() => &self.memory()[self.room()..][..plain],
            _ => bytes,
        }
    }

    /// Where a block is that is in memory.
    fn place(&self, block: u32) -> Range<usize> {
        let (at, size) = ((block - self.there.start) as usize, self.table.block_size());
        at * size..(at + 1) * size
    }

    /// Where the room begins to unpack one.
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

    /// The blocks that are read together for this one, where they lie, and how many bytes they have. Nothing else is
    /// wanted any more.
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

    /// Leaves off those that would come last and that the block cache has, if a scan looks there.
    fn without_cached(&self, mut blocks: Range<u32>, direction: Direction) -> Range<u32> {
        let Some(cache) = self.table.blocks.as_ref().filter(|_| self.origin == Origin::Short) else { return blocks };
        let has = |block| cache.has(block, self.table.block_size());
        while blocks.len() > 1 && has(if direction == Direction::Up { blocks.end - 1 } else { blocks.start }) {
            _ = if direction == Direction::Up { blocks.next_back() } else { blocks.next() };
        }
        blocks
    }

    /// So many blocks from this one on, if there are.
    fn forward(&self, first: u32, blocks: u32) -> Range<u32> {
        first..self.within.end.min(first.saturating_add(blocks))
    }

    /// So many below this one.
    fn backward(&self, end: u32, blocks: u32) -> Range<u32> {
        self.within.start.max(end.saturating_sub(blocks))..end
    }

    /// Makes what was read ahead the window, if it has a block. Whether it has.
    fn take_ahead(&mut self, block: u32) -> Result<bool> {
        let Some(ahead) = &mut self.ahead else { return Ok(false) };
        let Some((memory, read)) = ahead.end() else { return Ok(false) };
        let blocks = mem::take(&mut ahead.blocks);
        if !blocks.contains(&block) {
            // Nobody asked for them, so it does not matter whether they could be read.
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

/// The next window.
#[derive(Debug)]
struct Ahead {
    queue: Box<dyn Queue>,
    /// Its memory, unless it is being read.
    free: Option<storage::Block>,
    /// What is being read.
    blocks: Range<u32>,
    /// What has been read, if that was at once.
    done: Vec<Completion>,
}

impl Ahead {
    /// Begins to read these blocks, if there are any.
    fn begin(&mut self, table: &Table, blocks: Range<u32>) {
        let Some(block) = self.free.take_if(|_| !blocks.is_empty()) else { return };
        let (offset, len) = (table.block_at(blocks.start), blocks.len() * table.block_size());
        self.queue.submit(Request { file: table.file().clone(), op: Op::Read, offset, block, len, tag: 0 });
        // It starts, and nobody waits for it.
        self.queue.complete(0, &mut self.done);
        self.blocks = blocks;
    }

    /// Waits for what is being read, if anything is.
    fn end(&mut self) -> Option<(storage::Block, Result<()>)> {
        if self.free.is_none() && self.done.is_empty() {
            self.queue.complete(1, &mut self.done);
        }
        self.done.pop().map(|Completion { request, result }| (request.block, result))
    }
}
