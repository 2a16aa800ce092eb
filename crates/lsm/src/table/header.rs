//! The first page of a table: the file's identity, the layout of the file, and statistics of its records
//! (`docs/format/lsm.md`, "Header").

use std::{result, sync::Arc};

use ecotone_substrate::{
    Result,
    codec::{Malformed, Reader},
    environment::Environment,
    limits::{MAX_KEY, MAX_RECORD, PAGE},
    storage::File,
    table::{self, FileIdentity},
};

use crate::table::{
    compression::{Compression, plain_room},
    filter,
    index::{IndexKind, Shape},
    prefix_compare::common_prefix_len,
};

const FORMAT: table::Header = table::Header { role: table::FileRole::Table, magic: b"ECOlstab", version: 1 };
/// Blocks are from 4096 to 16384 bytes long.
pub(super) const BLOCK_BITS: std::ops::RangeInclusive<u8> = 12..=14;
/// Most bits of a key in a filter.
const MOST_FILTER_BITS: u16 = 32;
/// Most bytes of an index.
const MOST_INDEX: u32 = 16 << 20;
/// Most bytes of all blocks, with the header page.
const MOST_BLOCK_BYTES: u64 = 256 << 20;

/// The contents of the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of a block.
    pub(super) block: usize,
    pub(super) kind: IndexKind,
    pub(super) filter_bits: u16,
    pub(super) compression: Compression,
    pub(super) blocks: u32,
    /// Records, tombstones included.
    pub(super) records: u64,
    pub(super) tombstones: u64,
    /// Bytes of all keys and values.
    pub(super) bytes: u64,
    /// The smallest and the largest sequence of the records.
    pub(super) sequences: (u64, u64),
    /// Pages of a partitioned index.
    pub(super) partitions: u32,
    pub(super) index_bytes: u32,
    pub(super) filter_lines: u32,
    pub(super) index_checksum: u32,
    pub(super) filter_checksum: u32,
    pub(super) first: Box<[u8]>,
    pub(super) last: Box<[u8]>,
}

impl Header {
    /// The shape of the table, for its index.
    pub(super) fn shape(&self) -> Shape {
        let skip = common_prefix_len(&self.first, &self.last);
        Shape { blocks: self.blocks, block: self.block, skip, partitions: self.partitions }
    }

    /// The file offset of a block.
    pub(super) fn block_at(&self, block: u32) -> u64 {
        PAGE as u64 + u64::from(block) * self.block as u64
    }

    /// The file offset of a partition of the index. Partitions lie behind the blocks.
    pub(super) fn partition_at(&self, number: u32) -> u64 {
        self.block_at(self.blocks) + u64::from(number) * PAGE as u64
    }

    /// The file offset of the index, which lies behind its partitions.
    pub(super) fn index_at(&self) -> u64 {
        self.partition_at(self.partitions)
    }

    /// Pages of the index.
    pub(super) fn index_pages(&self) -> usize {
        (self.index_bytes as usize).div_ceil(PAGE)
    }

    /// The file offset of the filter, behind the index. Without a filter it is the end of the file.
    pub(super) fn filter_at(&self) -> u64 {
        self.index_at() + (self.index_pages() * PAGE) as u64
    }

    /// The length of the file.
    pub(super) fn end(&self) -> u64 {
        self.filter_at() + (filter::pages(self.filter_lines) * PAGE) as u64
    }

    /// Encodes the header into a page.
    pub(super) fn encode(&self, name: FileIdentity, page: &mut [u8]) {
        let mut w = FORMAT.begin(name);
        w.u8(self.block.trailing_zeros() as u8).u8(self.kind.number());
        w.u8(self.filter_bits as u8).u8(self.compression.number());
        w.u32(self.blocks).u64(self.records).u64(self.tombstones).u64(self.bytes);
        w.u64(self.sequences.0).u64(self.sequences.1);
        w.u32(self.partitions)
            .u32(self.index_bytes)
            .u32(self.filter_lines)
            .u32(self.index_checksum)
            .u32(self.filter_checksum);
        w.u16(self.first.len() as u16).u16(self.last.len() as u16).bytes(&self.first).bytes(&self.last);
        FORMAT.seal(name, &w, page);
    }

    /// Opens the file of this identity.
    pub(super) fn open(environment: &Environment, name: FileIdentity) -> Result<(Arc<dyn File>, Header)> {
        FORMAT.open_whole(environment, name, fields, Header::end)
    }

    /// The header of the file of this identity. The file may have another length than its header says.
    pub(super) fn open_part(environment: &Environment, name: FileIdentity) -> Result<Header> {
        FORMAT.open(environment, name, fields).map(|(_, header)| header)
    }

    fn plausible(&self) -> result::Result<(), Malformed> {
        let fail = |offset, what| Err(Malformed::new(offset, what));
        if self.blocks == 0 || self.block_at(self.blocks) > MOST_BLOCK_BYTES {
            return fail(68, "a table has no blocks, or too many");
        }
        if self.records < self.blocks.into() || self.tombstones > self.records {
            return fail(72, "a table has fewer records than blocks, or more tombstones than records");
        }
        // Bounds the statistics, so that sums over many tables cannot overflow.
        if self.records > u64::from(self.blocks) * plain_room(self.block) as u64 {
            return fail(72, "a table has more records than its blocks can have");
        }
        if self.bytes > self.records * MAX_RECORD as u64 {
            return fail(88, "the records of a table are longer than they can be");
        }
        if self.sequences.0 > self.sequences.1 || self.first > self.last {
            return fail(96, "what comes first in a table comes last");
        }
        if (self.kind == IndexKind::Partitioned) != (self.partitions > 0) || self.partitions > self.blocks {
            return fail(112, "an index has pages that its kind has not, or more than there are blocks");
        }
        if self.index_bytes == 0 || self.index_bytes > MOST_INDEX {
            return fail(116, "a table has no index, or one that is too long");
        }
        let bits =
            self.filter_bits <= MOST_FILTER_BITS && self.filter_lines == filter::lines(self.records, self.filter_bits);
        if !bits || (self.filter_lines == 0 && self.filter_checksum != 0) {
            return fail(120, "a filter has another length than its bits and records say");
        }
        Ok(())
    }
}

fn fields(r: &mut Reader<'_>) -> result::Result<Header, Malformed> {
    let block = r.u8()?;
    if !BLOCK_BITS.contains(&block) {
        return r.fail("there are no blocks of this size");
    }
    let Some(kind) = IndexKind::of(r.u8()?) else { return r.fail("there is no such kind of index") };
    let filter_bits = r.u8()?.into();
    let Some(compression) = Compression::of(r.u8()?) else { return r.fail("there is no such compression") };
    let blocks = r.u32()?;
    let (records, tombstones, bytes, sequences) = (r.u64()?, r.u64()?, r.u64()?, (r.u64()?, r.u64()?));
    let (partitions, index_bytes, filter_lines) = (r.u32()?, r.u32()?, r.u32()?);
    let (index_checksum, filter_checksum) = (r.u32()?, r.u32()?);
    let (first, last) = (usize::from(r.u16()?), usize::from(r.u16()?));
    if !(1..=MAX_KEY).contains(&first) || !(1..=MAX_KEY).contains(&last) {
        return r.fail("a key is longer or shorter than keys are");
    }
    let (first, last) = (r.bytes(first)?.into(), r.bytes(last)?.into());
    let header = Header {
        block: 1 << block,
        kind,
        filter_bits,
        compression,
        blocks,
        records,
        tombstones,
        bytes,
        sequences,
        partitions,
        index_bytes,
        filter_lines,
        index_checksum,
        filter_checksum,
        first,
        last,
    };
    header.plausible()?;
    Ok(header)
}
