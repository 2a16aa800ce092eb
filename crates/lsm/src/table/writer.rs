//! Writes a table from records in ascending order.

use std::mem;

use ecotone_substrate::{
    Result,
    environment::Environment,
    limits::PAGE,
    memory::Component,
    table::{FileIdentity, Output, Pages},
};
use ecotone_sys::chunk::Size;

use crate::table::{
    Table,
    boundaries::Boundaries,
    builder::BlockBuilder,
    compression::Compression,
    filter::FilterBuilder,
    header::Header,
    index::{self, IndexOptions},
};

/// Half a record, the space lost at the end of a block on average, is at most one part in this many of a block.
const MOST_WASTE: usize = 16;

/// The smallest block size in which half a record of the mean size is no more than a sixteenth.
pub fn block_size(mean: usize) -> usize {
    [4096, 8192].into_iter().find(|size| mean / 2 * MOST_WASTE <= *size).unwrap_or(16384)
}

/// Options of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Bytes of a block: 4096, 8192 or 16384.
    pub block: usize,
    /// Bits of each key in the filter; 0 for none.
    pub filter_bits: u16,
    /// The compression of its blocks.
    pub compression: Compression,
    /// Its index.
    pub index: IndexOptions,
}

/// A table that is being written. If the writer is dropped before [`finish`](Self::finish), its file is removed.
#[derive(Debug)]
pub struct TableWriter {
    environment: Environment,
    name: FileIdentity,
    options: Options,
    output: Output,
    block: BlockBuilder,
    blocks: u32,
    boundaries: Boundaries,
    filter: FilterBuilder,
    records: u64,
    tombstones: u64,
    bytes: u64,
    /// The number of records of the present block that were in the block cache, and the blocks of which most records
    /// were.
    cached: usize,
    warm: Vec<u32>,
}

impl TableWriter {
    /// Creates the file.
    ///
    /// # Errors
    /// If it cannot be created, or there is no memory for writing it. Then there is no file.
    pub fn create(environment: &Environment, name: FileIdentity, options: Options) -> Result<TableWriter> {
        let block = BlockBuilder::new(&environment.memory, options.block, options.compression)?;
        let output = Output::create(environment, name)?;
        Ok(TableWriter {
            environment: environment.clone(),
            name,
            options,
            output,
            block,
            blocks: 0,
            boundaries: Boundaries::default(),
            filter: FilterBuilder::default(),
            records: 0,
            tombstones: 0,
            bytes: 0,
            cached: 0,
            warm: Vec::new(),
        })
    }

    /// Records so far.
    pub fn len(&self) -> u64 {
        self.records
    }

    /// Whether there are no records yet.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Bytes of the blocks so far, the present one included.
    pub fn block_bytes(&self) -> u64 {
        (u64::from(self.blocks) + u64::from(self.block.count() > 0)) * self.options.block as u64
    }

    /// Adds a record; a value of `None` is a tombstone. `hash` is the hash of the key for the filter.
    ///
    /// # Errors
    /// If there is no memory or no space on the disk, or a write fails.
    ///
    /// # Panics
    /// If the key is not above the last one's, or a limit is exceeded: the record would be lost.
    pub fn push(&mut self, hash: u64, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        assert!(self.block.newest_key() < key, "a record of a table is out of order");
        while !self.block.push(key, value) {
            self.end_block()?;
        }
        if self.options.filter_bits > 0 {
            self.filter.push(&self.environment.memory, hash)?;
        }
        self.records += 1;
        self.tombstones += u64::from(value.is_none());
        self.bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        Ok(())
    }

    /// Says that the last record was in the block cache. If most records of a block were, [`Table::warm`] brings the
    /// block there.
    pub fn note_cached(&mut self) {
        self.cached += 1;
    }

    /// Writes the rest and syncs the file. `sequences` are the smallest and the largest sequence of the records. The
    /// file's name is durable after [`Storage::sync_dir`](ecotone_substrate::storage::Storage::sync_dir). `None`, and
    /// no file, if there were no records.
    ///
    /// # Errors
    /// As for [`push`](Self::push). Then there is no file.
    pub fn finish(mut self, sequences: (u64, u64)) -> Result<Option<Table>> {
        if self.is_empty() {
            return Ok(None);
        }
        while self.block.count() > 0 {
            self.end_block()?;
        }
        let (memory, options) = (&self.environment.memory, self.options);
        let mut index = index::build(&self.boundaries, options.block, options.index);
        (self.blocks..)
            .zip(&mut index.partitions)
            .for_each(|(number, page)| index::seal(page, self.name.place(number)));
        let index_pages = Pages::of(memory, Component::Frames, &index.bytes)?;
        let filter = self.filter.finish(memory, options.filter_bits)?;
        let header = Header {
            block: options.block,
            kind: index.kind,
            filter_bits: options.filter_bits,
            compression: options.compression,
            blocks: self.blocks,
            records: self.records,
            tombstones: self.tombstones,
            bytes: self.bytes,
            sequences,
            partitions: index.partitions.len() as u32,
            index_bytes: index.bytes.len() as u32,
            filter_lines: filter.as_ref().map_or(0, |filter| filter.lines()),
            index_checksum: index_pages.checksum(),
            filter_checksum: filter.as_ref().map_or(0, |filter| filter.pages().checksum()),
            first: self.boundaries.first_key().into(),
            last: self.boundaries.last_key().into(),
        };
        let mut first = memory.lease_essential(Component::Frames, Size::Frame)?;
        header.encode(self.name, &mut first);
        let filter_pages = filter.iter().flat_map(|filter| filter.pages().iter());
        let output = &mut self.output;
        let partitions = index.partitions.iter().map(Vec::as_slice);
        partitions.chain(index_pages.iter()).chain(filter_pages).try_for_each(|page| output.append(page))?;
        let file = self.output.finish(first)?;
        Ok(Some(Table::of(self.environment, file, self.name, header, self.warm)))
    }

    fn end_block(&mut self) -> Result<()> {
        let (place, output) = (self.name.place(self.blocks), &mut self.output);
        self.block.close();
        self.boundaries.push(self.block.first_key(), self.block.last_key(), self.block.count() as u32);
        if 2 * mem::take(&mut self.cached) > self.block.count() {
            self.warm.push(self.blocks);
        }
        self.blocks += 1;
        self.block.finish(place, |bytes| bytes.chunks(PAGE).try_for_each(|page| output.append(page)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_record_is_no_more_than_a_sixteenth_of_a_block() {
        for (mean, size) in
            [(20, 4096), (116, 4096), (512, 4096), (520, 8192), (1024, 8192), (1100, 16384), (1900, 16384)]
        {
            assert_eq!(block_size(mean), size, "{mean}");
        }
    }
}
