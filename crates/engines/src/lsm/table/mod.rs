//! Tables: files of sorted records that never change, and what finds a key in them (L1 to L5; `docs/format/lsm.md`).
//!
//! Neither the log nor the database is known here: an engine that is made of tables takes them as they are.

mod block;
mod blocks;
mod boundaries;
mod builder;
mod check;
mod cursor;
mod entry;
mod filter;
mod header;
mod index;
mod pack;
mod rank;
mod records;
mod remains;
#[cfg(test)]
mod tests;
mod window;
mod writer;

use std::{mem, sync::Arc};

use ecotone_substrate::{
    Error, Result,
    codec::Malformed,
    environment::Environment,
    limits::PAGE,
    memory::Component,
    storage::{self, File},
    table::{Name, Pages},
};
use ecotone_sys::{chunk::Size, primitive::Mutex};

pub(super) use self::rank::common;
pub(super) use self::remains::{Outline, Remains, Step};
pub(super) use self::window::Progress;
pub use self::{
    block::{Block, Find},
    builder::BlockBuilder,
    cursor::Cursor,
    filter::Filter,
    index::{Candidates, Index, Kind, Located, Partition, Wanted, WholeIndex},
    pack::{Compression, plain_room},
    writer::{Options, TableWriter, block_size},
};
use self::{blocks::Blocks, header::Header, window::Window};
use crate::{page_cache::PageCache, rest::Direction};
pub use ecotone_substrate::table::Answer;

/// What gives frames of memory.
pub type Lease<'l> = &'l dyn Fn() -> Result<storage::Block>;

/// An open table, without its index and filter, which come and go.
#[derive(Debug)]
pub struct Table {
    environment: Environment,
    file: Arc<dyn File>,
    name: Name,
    header: Header,
    /// Its part in the block cache, if it has one.
    blocks: Option<Blocks>,
    /// Blocks that are to come there.
    warm: Mutex<Vec<u32>>,
}

impl Table {
    /// Opens a table and reads its first page.
    ///
    /// # Errors
    /// If the file is another one, is damaged there, or cannot be read.
    pub fn open(environment: &Environment, name: Name) -> Result<Table> {
        let (file, header) = Header::open(environment, name)?;
        Ok(Table::of(environment.clone(), file, name, header, Vec::new()))
    }

    /// A table of which these blocks are to come into the block cache.
    fn of(environment: Environment, file: Arc<dyn File>, name: Name, header: Header, warm: Vec<u32>) -> Table {
        Table { environment, file, name, header, blocks: None, warm: Mutex::new(warm) }
    }

    /// The same, whose blocks are kept in a cache when scans come to them.
    pub(crate) fn cached(self, cache: &Arc<PageCache>) -> Table {
        Table { blocks: Blocks::new(cache), ..self }
    }

    /// Brings blocks into the cache of which most records were there before they were merged into this table: what
    /// scans come to again and again stays in memory while its tables change. They are read in large requests. One that
    /// cannot be read is left to who asks for it, and so are all if there is no memory for that.
    pub(crate) fn warm(self: &Arc<Self>) {
        let (warm, Some(cache)) = (mem::take(&mut *self.warm.lock()), &self.blocks) else { return };
        if warm.is_empty() {
            return;
        }
        let Some(slab) = self.environment.memory.lease(Component::Frames, Size::Slab) else { return };
        let mut window = Window::new(self.clone(), 0..self.blocks(), slab);
        for block in warm {
            if window.enter(block, Direction::Up).is_err() {
                return;
            }
            cache.admit(block, window.stored_bytes(block));
        }
    }

    /// Gives back the memory that its blocks have in the cache, when other tables have its records.
    pub(crate) fn forget_blocks(&self) {
        let forget = |cache: &Blocks| (0..self.blocks()).for_each(|block| cache.forget(block, self.block_size()));
        self.blocks.iter().for_each(forget);
    }

    /// What it was made or opened with.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Its name.
    pub fn name(&self) -> Name {
        self.name
    }

    /// Its first and its last key.
    pub fn range(&self) -> (&[u8], &[u8]) {
        (&self.header.first, &self.header.last)
    }

    /// Whether a key may be in it, by its range.
    pub fn covers(&self, key: &[u8]) -> bool {
        *self.header.first <= *key && *key <= *self.header.last
    }

    /// The smallest and the largest sequence of its records.
    pub fn sequences(&self) -> (u64, u64) {
        self.header.sequences
    }

    /// Its records, tombstones included.
    pub fn records(&self) -> u64 {
        self.header.records
    }

    /// Its tombstones.
    pub fn tombstones(&self) -> u64 {
        self.header.tombstones
    }

    /// Bytes of its keys and values.
    pub fn bytes(&self) -> u64 {
        self.header.bytes
    }

    /// Bytes of its file.
    pub fn file_bytes(&self) -> u64 {
        self.header.end()
    }

    /// Its blocks.
    pub fn blocks(&self) -> u32 {
        self.header.blocks
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> usize {
        self.header.block
    }

    /// Partitions of its index.
    pub fn partitions(&self) -> u32 {
        self.header.partitions
    }

    /// Pages of its index, without partitions.
    pub fn index_pages(&self) -> usize {
        self.header.index_pages()
    }

    /// Bytes of memory of its index, without partitions.
    pub fn index_memory(&self) -> usize {
        Index::memory(self.header.index_bytes as usize)
    }

    /// Bytes of memory of its filter; none without one.
    pub fn filter_memory(&self) -> usize {
        filter::memory(self.header.filter_lines)
    }

    /// Pages of its filter; none without one.
    pub fn filter_pages(&self) -> usize {
        filter::pages(self.header.filter_lines)
    }

    /// The blocks that can have a key, or what is next to it.
    pub fn locate(&self, index: &WholeIndex, key: &[u8]) -> Candidates {
        let (first, last) = self.range();
        match key {
            key if key <= first => Candidates::one(0),
            key if key > last => Candidates::one(self.blocks() - 1),
            _ => index.locate(key),
        }
    }

    /// The file, for who reads by a queue.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Where a block lies in the file.
    pub fn block_at(&self, block: u32) -> u64 {
        self.header.block_at(block)
    }

    /// Loads the index, without partitions, into frames that `lease` gives.
    ///
    /// # Errors
    /// If it is damaged or cannot be read, or there is no memory for it.
    pub fn index(&self, environment: &Environment, lease: Lease<'_>) -> Result<Index> {
        let (count, checksum) = (self.header.index_pages(), self.header.index_checksum);
        self.parse_index(Pages::read(environment, lease, &self.file, self.index_at(), count, checksum)?)
    }

    /// The index, whose pages were read into these frames.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn index_in(&self, frames: Vec<storage::Block>) -> Result<Index> {
        self.parse_index(Pages::checked(frames, &self.file, self.index_at(), self.header.index_checksum)?)
    }

    fn parse_index(&self, pages: Pages) -> Result<Index> {
        let header = &self.header;
        let parsed = Index::parse(header.kind, pages, header.index_bytes as usize, header.shape());
        parsed.map_err(|e| e.at(self.name.file(), self.index_at()))
    }

    /// Where the index lies in the file, without partitions.
    pub fn index_at(&self) -> u64 {
        self.header.index_at()
    }

    /// Where a partition of the index lies in the file, which has one page.
    pub fn partition_at(&self, number: u32) -> u64 {
        self.header.partition_at(number)
    }

    /// Loads a partition of the index, into a frame that `lease` gives.
    ///
    /// # Errors
    /// If it is damaged or cannot be read, or there is no memory for it.
    pub fn partition(&self, number: u32, lease: Lease<'_>) -> Result<Partition> {
        let mut frame = lease()?;
        self.file.read(&mut frame[..PAGE], self.partition_at(number))?;
        self.partition_in(number, frame)
    }

    /// A partition of the index, which was read into this frame.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn partition_in(&self, number: u32, frame: storage::Block) -> Result<Partition> {
        let blocks = self.blocks();
        let parsed = Partition::parse(Pages::one(frame), self.name.place(blocks + number), blocks);
        parsed.map_err(|e| e.at(self.name.file(), self.partition_at(number)))
    }

    /// Loads the index and all of its partitions, into frames that `lease` gives.
    ///
    /// # Errors
    /// If something of it is damaged or cannot be read, or there is no memory for it.
    pub fn whole_index(&self, environment: &Environment, lease: Lease<'_>) -> Result<WholeIndex> {
        let index = self.index(environment, lease)?;
        let partitions = (0..self.partitions()).map(|number| self.partition(number, lease)).collect::<Result<_>>()?;
        Ok(WholeIndex::new(index, partitions))
    }

    /// Loads the filter, into frames that `lease` gives.
    ///
    /// # Errors
    /// If it is damaged or cannot be read, or there is no memory for it.
    ///
    /// # Panics
    /// If the table has none.
    pub fn filter(&self, environment: &Environment, lease: Lease<'_>) -> Result<Filter> {
        let (at, lines) = (self.header.filter_at(), self.header.filter_lines);
        assert!(lines > 0, "a table without filter was asked for it");
        let (count, checksum) = (filter::pages(lines), self.header.filter_checksum);
        let pages = Pages::read(environment, lease, &self.file, at, count, checksum)?;
        Filter::parse(pages, lines).map_err(|e| e.at(self.name.file(), at))
    }

    /// A block that was read into the beginning of [its memory](Self::memory_for_a_block), and is unpacked to what is
    /// behind it.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn parse<'a>(&self, block: u32, memory: &'a mut [u8]) -> Result<Block<'a>> {
        let (bytes, room) = memory.split_at_mut(self.header.block.min(memory.len()));
        let room = if self.may_be_packed() { room } else { &mut [] };
        Block::unpack(bytes, self.name.place(block), room).map_err(|e| self.damaged(block, e))
    }

    /// Whether there may be packed blocks.
    fn may_be_packed(&self) -> bool {
        self.header.compression != Compression::None
    }

    /// Damage in a block.
    pub fn damaged(&self, block: u32, what: Malformed) -> Error {
        what.at(self.name.file(), self.block_at(block))
    }

    /// Reads a block in one request, into memory that is long enough.
    ///
    /// # Errors
    /// If it is damaged or cannot be read.
    pub fn read<'a>(&self, block: u32, memory: &'a mut storage::Block) -> Result<Block<'a>> {
        self.file.read(&mut memory[..self.header.block], self.block_at(block))?;
        self.parse(block, memory)
    }

    /// Bytes of memory that a block takes, with room to unpack it.
    pub fn bytes_for_a_block(&self) -> usize {
        self.header.block + if self.may_be_packed() { plain_room(self.header.block) } else { 0 }
    }

    /// Memory for a block.
    ///
    /// # Errors
    /// If there is none.
    pub fn memory_for_a_block(&self, environment: &Environment) -> Result<storage::Block> {
        environment.memory.lease_essential(Component::Frames, self.size_for_a_block())
    }

    /// Its size.
    pub fn size_for_a_block(&self) -> Size {
        if self.bytes_for_a_block() > Size::Frame.bytes() { Size::Slab } else { Size::Frame }
    }

    /// Looks for a key that the table covers in the blocks that can have it, with one request for most. A value is
    /// appended to `value`.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read.
    pub fn find(
        &self,
        mut left: Candidates,
        key: &[u8],
        memory: &mut storage::Block,
        value: &mut Vec<u8>,
    ) -> Result<Option<Answer>> {
        loop {
            let block = left.first;
            let found = self.read(block, memory)?.find(key).map_err(|e| self.damaged(block, e))?;
            let goes_on = match found {
                Find::Found(record) => return Ok(Some(Answer::of(record, value))),
                Find::Within => false,
                Find::Before => left.go_down(),
                Find::After => left.go_up(),
            };
            if !goes_on {
                return Ok(None);
            }
        }
    }
}
