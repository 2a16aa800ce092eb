//! Tables: immutable files of sorted records, with the indexes and filters that find a key in them (L1 to L5;
//! `docs/format/lsm.md`).
//!
//! This module knows neither the log nor the database. Any engine that stores records in tables can use it.

mod block;
mod block_format;
mod boundaries;
mod builder;
mod cached_blocks;
mod check;
mod compression;
mod cursor;
mod decoded;
mod entry;
mod filter;
mod header;
mod index;
mod prefix_compare;
mod salvage;
#[cfg(test)]
mod tests;
mod window;
mod writer;

use std::sync::Arc;

use ecotone_engine::page_cache::PageCache;
pub use ecotone_substrate::table::Answer;
use ecotone_substrate::{
    Error, Result,
    codec::Malformed,
    environment::Environment,
    limits::PAGE,
    memory::Component,
    storage::{self, File},
    table::{FileIdentity, Pages},
};
use ecotone_sys::{chunk::Size, primitive::Mutex};

pub(super) use crate::table::prefix_compare::common_prefix_len;
pub(super) use crate::table::salvage::{SalvageHeader, SalvageReader, Step};
pub(super) use crate::table::window::ScanProgress;
pub use crate::table::{
    block::{Block, BlockSearch},
    builder::BlockBuilder,
    compression::{Compression, plain_room},
    cursor::Cursor,
    filter::Filter,
    index::{Candidates, Index, IndexKind, IndexOptions, Located, Partition, WholeIndex},
    writer::{Options, TableWriter, block_size},
};
use crate::table::{cached_blocks::CachedBlocks, header::Header};

/// A function that leases frames of memory.
pub type Lease<'l> = &'l dyn Fn() -> Result<storage::Block>;

/// An open table, without its index and filter. Those are loaded lazily and may be evicted.
#[derive(Debug)]
pub struct Table {
    environment: Environment,
    file: Arc<dyn File>,
    name: FileIdentity,
    header: Header,
    /// Its blocks in the block cache, if there is one.
    blocks: Option<CachedBlocks>,
    /// Blocks that [`warm`](Table::warm) is to bring into the block cache.
    warm: Mutex<Vec<u32>>,
}

impl Table {
    /// Opens a table and reads its first page.
    ///
    /// # Errors
    /// If it is a file of another identity, its first page is damaged, or it cannot be read.
    pub fn open(environment: &Environment, name: FileIdentity) -> Result<Table> {
        let (file, header) = Header::open(environment, name)?;
        Ok(Table::of(environment.clone(), file, name, header, Vec::new()))
    }

    /// A table, with the blocks that [`warm`](Table::warm) is to bring into the block cache.
    fn of(environment: Environment, file: Arc<dyn File>, name: FileIdentity, header: Header, warm: Vec<u32>) -> Table {
        Table { environment, file, name, header, blocks: None, warm: Mutex::new(warm) }
    }

    /// The same table with a block cache, which keeps the blocks that scans read.
    pub(crate) fn cached(self, cache: &Arc<PageCache>) -> Table {
        Table { blocks: CachedBlocks::new(cache), ..self }
    }

    /// Frees the memory of its blocks in the block cache, once other tables have its records.
    pub(crate) fn forget_blocks(&self) {
        let forget = |cache: &CachedBlocks| (0..self.blocks()).for_each(|block| cache.forget(block, self.block_size()));
        self.blocks.iter().for_each(forget);
    }

    /// The environment that it was created or opened with.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Its identity.
    pub fn name(&self) -> FileIdentity {
        self.name
    }

    /// Its first and its last key.
    pub fn range(&self) -> (&[u8], &[u8]) {
        (&self.header.first, &self.header.last)
    }

    /// Whether a key lies within its key range.
    pub fn covers(&self, key: &[u8]) -> bool {
        *self.header.first <= *key && *key <= *self.header.last
    }

    /// The smallest and the largest sequence of its records.
    pub fn sequences(&self) -> (u64, u64) {
        self.header.sequences
    }

    /// The number of its records, tombstones included.
    pub fn records(&self) -> u64 {
        self.header.records
    }

    /// The number of its tombstones.
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

    /// The number of its blocks.
    pub fn blocks(&self) -> u32 {
        self.header.blocks
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> usize {
        self.header.block
    }

    /// The number of partitions of its index.
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

    /// The blocks that can have a key, or its neighbours if it is absent.
    pub fn locate(&self, index: &WholeIndex, key: &[u8]) -> Candidates {
        let (first, last) = self.range();
        match key {
            key if key <= first => Candidates::one(0),
            key if key > last => Candidates::one(self.blocks() - 1),
            _ => index.locate(key),
        }
    }

    /// Its file, for callers that read through a queue.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// The file offset of a block.
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

    /// The file offset of the index, without partitions.
    pub fn index_at(&self) -> u64 {
        self.header.index_at()
    }

    /// The file offset of a partition of the index. A partition is one page.
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
    /// If a part of it is damaged or cannot be read, or there is no memory for it.
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

    /// Parses a block that was read into the beginning of [its memory](Self::memory_for_a_block). A packed block is
    /// unpacked into the rest of that memory.
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

    /// The error for damage in a block.
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

    /// The size class of that memory.
    pub fn size_for_a_block(&self) -> Size {
        if self.bytes_for_a_block() > Size::Frame.bytes() { Size::Slab } else { Size::Frame }
    }

    /// Looks for a key within the table's range in its candidate blocks. Most lookups take one request. A value is
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
                BlockSearch::Found(record) => return Ok(Some(Answer::of(record, value))),
                BlockSearch::Within => false,
                BlockSearch::Before => left.go_down(),
                BlockSearch::After => left.go_up(),
            };
            if !goes_on {
                return Ok(None);
            }
        }
    }
}
