//! A run: sorted records in a file that never changes, with its fences in memory (hash.md, "Cold tier").

use std::{
    ops::{Range, RangeInclusive},
    sync::Arc,
};

use ecotone_substrate::{
    Error, Result,
    codec::Malformed,
    environment::Environment,
    limits::PAGE,
    memory::Component,
    storage::{self, File},
    table::{Answer, FileIdentity, Pages},
};
use ecotone_sys::chunk::Size;

use super::{
    block::Block,
    fences::{self, Fences},
    hash_range::HashRange,
    header::{Header, RunKind},
    tags::{TagPages, TagsForm},
};

/// The read for a block: whole units of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub offset: u64,
    /// Number of bytes.
    pub len: usize,
    /// Where the block begins in the bytes that were read.
    pub at: usize,
}

/// An open run.
#[derive(Debug)]
pub struct Run {
    file: Arc<dyn File>,
    name: FileIdentity,
    header: Header,
    fences: Fences,
}

impl Run {
    /// Opens a run and loads its fences.
    ///
    /// # Errors
    /// If the file is another one, is damaged where it is read, or cannot be read; if there is no memory for the
    /// fences.
    pub fn open(environment: &Environment, name: FileIdentity) -> Result<Run> {
        let (file, header) = Header::open(environment, name)?;
        let (at, count) = (header.fences_at(), fences::pages(header.blocks));
        let lease = || environment.memory.lease_essential(Component::ColdIndex, Size::Frame);
        let pages = Pages::read(environment, &lease, &file, at, count, header.fences_checksum)?;
        let fences = Fences::parse(pages, header.blocks).map_err(|e| e.at(name.file(), at))?;
        let run = Run { file, name, header, fences };
        run.check_hash_range()?;
        Ok(run)
    }

    /// A run that was just written.
    pub(super) fn of(file: Arc<dyn File>, name: FileIdentity, header: Header, fences: Fences) -> Run {
        Run { file, name, header, fences }
    }

    fn check_hash_range(&self) -> Result<()> {
        let hash_range = self.hash_range();
        if !self.fences.ends().into_iter().all(|hash| hash_range.has(hash)) {
            return Err(Error::corruption(
                self.name.file(),
                self.header.fences_at(),
                "the fences lie outside of the partition",
            ));
        }
        Ok(())
    }

    /// The identity of the file.
    pub fn name(&self) -> FileIdentity {
        self.name
    }

    /// The kind of the run.
    pub fn kind(&self) -> RunKind {
        self.header.kind
    }

    /// The hashes that keys of the run may have.
    pub fn hash_range(&self) -> HashRange {
        self.header.kind.hash_range()
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        self.header.blocks
    }

    /// Number of records, tombstones included.
    pub fn records(&self) -> u64 {
        self.header.records
    }

    /// Number of tombstones.
    pub fn tombstones(&self) -> u64 {
        self.header.tombstones
    }

    /// Bytes of the fences, which are in memory.
    pub fn index_bytes(&self) -> u64 {
        self.fences.pages().len() as u64 * PAGE as u64
    }

    /// The file, for reads by a queue.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// The blocks that may have keys of a hash. Search them from the last one: a key that begins a block is there, and
    /// for other keys fewer than one search in 500 has to read the block before too.
    #[inline]
    pub fn candidates(&self, hash: u64) -> Range<u32> {
        self.fences.candidates(hash)
    }

    /// The blocks that may have keys of these hashes. The first and the last may have others too.
    pub fn blocks_of(&self, hashes: &RangeInclusive<u64>) -> Range<u32> {
        self.candidates(*hashes.start()).start..self.candidates(*hashes.end()).end
    }

    /// Bytes of these blocks.
    pub fn bytes_of(&self, hashes: &RangeInclusive<u64>) -> u64 {
        self.blocks_of(hashes).len() as u64 * self.header.block as u64
    }

    /// Bytes of all blocks.
    pub fn bytes(&self) -> u64 {
        u64::from(self.header.blocks) * self.header.block as u64
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> usize {
        self.header.block
    }

    /// The read for a block, in one request.
    pub fn extent(&self, block: u32) -> Extent {
        self.extent_of(block..block + 1)
    }

    /// The read for consecutive blocks, in one request.
    pub(super) fn extent_of(&self, blocks: Range<u32>) -> Extent {
        let [start, end] =
            [blocks.start, blocks.end].map(|block| PAGE as u64 + u64::from(block) * self.header.block as u64);
        let at = (start % PAGE as u64) as usize;
        let offset = start - at as u64;
        Extent { offset, len: (end.next_multiple_of(PAGE as u64) - offset) as usize, at }
    }

    /// Parses the block in the bytes that were read for it.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn parse<'a>(&self, block: u32, read: &'a [u8]) -> Result<Block<'a>> {
        self.parse_at(block, read, self.extent(block).at)
    }

    /// Parses the block that begins at `at` in bytes that were read.
    pub(super) fn parse_at<'a>(&self, block: u32, read: &'a [u8], at: usize) -> Result<Block<'a>> {
        let bytes = read.get(at..at + self.header.block).unwrap_or_default();
        let parsed = Block::parse(bytes, self.name.place(block)).map_err(|e| self.damaged(block, e))?;
        if !self.fences.fits(block, parsed.first_hash()) {
            return Err(self.damaged(block, Malformed::new(8, "the block begins with another hash than its fence")));
        }
        Ok(parsed)
    }

    /// The error for damage in a block.
    pub fn damaged(&self, block: u32, what: Malformed) -> Error {
        what.at(self.name.file(), PAGE as u64 + u64::from(block) * self.header.block as u64)
    }

    /// Reads a block in one request.
    ///
    /// # Errors
    /// If it is damaged or cannot be read.
    pub fn read<'a>(&self, block: u32, frame: &'a mut storage::Block) -> Result<Block<'a>> {
        let extent = self.extent(block);
        self.file.read(&mut frame[..extent.len], extent.offset)?;
        self.parse(block, frame)
    }

    /// Frees the disk space of blocks that no reader needs any more, as far as they fill whole pages.
    ///
    /// # Errors
    /// If the file cannot be changed.
    pub(super) fn punch(&self, blocks: Range<u32>) -> Result<()> {
        let at = |block: u32| PAGE as u64 + u64::from(block) * self.header.block as u64;
        let (start, end) = (at(blocks.start).next_multiple_of(PAGE as u64), at(blocks.end) / PAGE as u64 * PAGE as u64);
        if start < end { self.file.punch(start, end - start).map(drop) } else { Ok(()) }
    }

    /// Searches for a key, in one request if only one block may have it. A value is appended to `value`.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read.
    pub fn find(
        &self,
        hash: u64,
        key: &[u8],
        frame: &mut storage::Block,
        value: &mut Vec<u8>,
    ) -> Result<Option<Answer>> {
        for block in self.candidates(hash).rev() {
            let parsed = self.read(block, frame)?;
            if let Some(answer) = self.find_in(&parsed, block, hash, key, value)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Searches for a key in a block that was read. A value is appended to `value`.
    ///
    /// # Errors
    /// If a record is damaged.
    pub fn find_in(
        &self,
        parsed: &Block<'_>,
        block: u32,
        hash: u64,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<Answer>> {
        let found = parsed.find(hash, key).map_err(|e| self.damaged(block, e))?;
        Ok(found.map(|entry| Answer::of(entry.value, value)))
    }

    /// Number of tags. A base has none.
    pub(super) fn tag_count(&self) -> u64 {
        if let RunKind::Delta { .. } = self.header.kind { self.header.records } else { 0 }
    }

    /// The layout of the tags in their pages.
    pub(super) fn tags_form(&self) -> TagsForm {
        self.header.tags
    }

    /// Offset of the tags' pages.
    pub(super) fn tags_at(&self) -> u64 {
        self.header.tags_at()
    }

    /// What the checksums of the tags' pages depend on.
    pub(super) fn tag_pages(&self) -> TagPages {
        TagPages { name: self.name, blocks: self.header.blocks }
    }

    /// The error for damage in a page of tags.
    pub(super) fn damaged_tags(&self, page: u64, what: &'static str) -> Error {
        Error::corruption(self.name.file(), self.tags_at() + page * PAGE as u64, what)
    }
}
