//! The bytes of one batch in memory, in the form of the area's file.

use ecotone_sys::{
    checksum::crc32c,
    chunk::{Block, Size},
};

use super::PageWrite;
use crate::{
    Error, Result,
    codec::{Malformed, Reader, Writer},
    limits::{DOUBLE_WRITE_PAGES, PAGE, SECTOR},
    memory::{Component, Memory},
    storage::File,
};

const MAGIC: [u8; 8] = *b"ECODBLWR";
const VERSION: u32 = 1;
const HEADER: usize = 40;
const ENTRY: usize = 17;
/// Offset and end of the checksum in the header.
const CHECKSUM: std::ops::Range<usize> = 12..16;
/// Offset of the batch's number in the header; the total follows it.
const BATCH: usize = 16;
const TOTAL: usize = BATCH + size_of::<u64>();
/// One write request of the area.
pub(super) const BLOCK_BYTES: usize = 64 << 10;
const BLOCKS: usize = 17;
/// Bytes of the file.
pub(super) const AREA_BYTES: usize = BLOCKS * BLOCK_BYTES;

const _: () =
    assert!(data_start(DOUBLE_WRITE_PAGES) + DOUBLE_WRITE_PAGES * PAGE <= AREA_BYTES, "the largest batch fits");
const _: () = assert!(data_start(DOUBLE_WRITE_PAGES) <= BLOCK_BYTES, "header and entries are in the first block");
const _: () = assert!(BLOCK_BYTES.is_multiple_of(SECTOR), "no sector crosses two blocks");

/// Where the sectors of a batch begin.
const fn data_start(entries: usize) -> usize {
    (HEADER + entries * ENTRY).next_multiple_of(SECTOR)
}

type Decoded<T> = std::result::Result<T, Malformed>;

/// One entry of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) file: u64,
    pub(super) page: u32,
    /// Checksum of the whole new page.
    pub(super) crc: u32,
    pub(super) sectors: u8,
    /// Offset of the first of its sectors in the area.
    pub(super) data: usize,
}

/// Memory for a whole area.
#[derive(Debug)]
pub(super) struct Area {
    blocks: Vec<Block>,
    batch: u64,
    /// Bytes of the last batch that was filled in, or the unchecked total in the header of a loaded one.
    total: usize,
}

impl Area {
    /// An area without contents. Its memory is not touched before a batch needs it.
    pub(super) fn new(memory: &Memory) -> Result<Self> {
        let lease = |_| memory.lease_essential(Component::DoubleWrite, Size::Slab);
        Ok(Area { blocks: (0..BLOCKS).map(lease).collect::<Result<_>>()?, batch: 0, total: 0 })
    }

    /// Writes zeros to all of the file.
    pub(super) fn clear(&mut self, file: &dyn File) -> Result<()> {
        let zeros = &mut self.blocks[0];
        zeros.fill(0);
        (0..BLOCKS).try_for_each(|i| file.write(zeros, (i * BLOCK_BYTES) as u64))
    }

    /// Reads the bytes of the batch in the file, and the file's end, so that a truncated file is noticed. The next
    /// batch gets another number than the one in the file.
    pub(super) fn load(&mut self, file: &dyn File) -> Result<()> {
        let [first, .., last] = &mut self.blocks[..] else { return Ok(()) };
        file.read(&mut last[..PAGE], (AREA_BYTES - PAGE) as u64)?;
        file.read(first, 0)?;
        let mut r = Reader::new(first);
        (self.batch, self.total) = r.bytes(BATCH).and_then(|_| Ok((r.u64()?, r.u32()? as usize))).unwrap_or_default();
        let used = self.total.min(AREA_BYTES).div_ceil(BLOCK_BYTES);
        let mut more = self.blocks.iter_mut().enumerate().take(used).skip(1);
        more.try_for_each(|(i, block)| file.read(block, (i * BLOCK_BYTES) as u64))
    }

    /// Fills in the next batch.
    pub(super) fn fill(&mut self, pages: &[PageWrite]) {
        self.batch = self.batch.wrapping_add(1);
        let sectors: usize = pages.iter().map(|write| write.sectors.count_ones() as usize).sum();
        self.total = data_start(pages.len()) + sectors * SECTOR;
        self.fill_head(pages);
        let mut at = data_start(pages.len());
        for sector in pages.iter().flat_map(sectors_of) {
            self.blocks[at / BLOCK_BYTES][at % BLOCK_BYTES..][..SECTOR].copy_from_slice(sector);
            at += SECTOR;
        }
        self.zero_to(at.next_multiple_of(PAGE));
        let sum = self.checksum(self.total);
        self.blocks[0][CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    }

    fn fill_head(&mut self, pages: &[PageWrite]) {
        let mut w = Writer::new();
        w.bytes(&MAGIC).u32(VERSION).u32(0).u64(self.batch);
        w.u32(self.total as u32).u32(pages.len() as u32).u64(0);
        for write in pages {
            w.u64(write.file.id().identity()).u32(write.page).u32(crc32c(0, &write.block)).u8(write.sectors);
        }
        let (head, rest) = self.blocks[0].split_at_mut(w.len());
        head.copy_from_slice(w.as_slice());
        rest[..data_start(pages.len()) - w.len()].fill(0);
    }

    /// Zeros from the end of the batch to `end`, so that the last page of the area does not depend on the batch before.
    fn zero_to(&mut self, end: usize) {
        if let Some(block) = self.blocks.get_mut(self.total / BLOCK_BYTES) {
            let start = self.total % BLOCK_BYTES;
            block[start..][..end - self.total].fill(0);
        }
    }

    /// The blocks of the batch, with the bytes to write of each. [`put_back`](Self::put_back) returns them.
    pub(super) fn take(&mut self) -> Vec<(Block, usize)> {
        let end = self.total.next_multiple_of(PAGE);
        let used = self.blocks.drain(..end.div_ceil(BLOCK_BYTES)).enumerate();
        used.map(|(i, block)| (block, (end - i * BLOCK_BYTES).min(BLOCK_BYTES))).collect()
    }

    /// Takes the blocks back; their order does not matter any more.
    pub(super) fn put_back(&mut self, blocks: impl Iterator<Item = Block>) {
        self.blocks.extend(blocks);
    }

    /// The entries of the loaded batch; none if the batch is not whole. A newer format is an error, since its pages
    /// might need repair.
    pub(super) fn entries(&self, file: &dyn File) -> Result<Vec<Entry>> {
        match self.whole_version() {
            Ok(version) if version > VERSION => {
                Err(Error::NewerFormat { file: file.id().to_string(), found: version.into(), known: VERSION.into() })
            }
            Ok(VERSION) => Ok(self.decode().unwrap_or_default()),
            _ => Ok(Vec::new()),
        }
    }

    /// The version of an area whose checksum is right. Nothing else is used before the check, except the total within
    /// its bounds. Both have the same offsets in all versions.
    fn whole_version(&self) -> Decoded<u32> {
        let mut r = Reader::new(self.first());
        if r.array()? != MAGIC {
            return r.fail("the magic");
        }
        let (version, checksum, _batch, total) = (r.u32()?, r.u32()?, r.u64()?, r.u32()? as usize);
        if !(HEADER..=AREA_BYTES).contains(&total) || self.checksum(total) != checksum {
            return r.fail("the area is not whole");
        }
        Ok(version)
    }

    /// Decodes an area whose checksum is right.
    fn decode(&self) -> Decoded<Vec<Entry>> {
        let mut r = Reader::new(self.first());
        r.bytes(TOTAL)?;
        let (total, count, reserved) = (r.u32()? as usize, r.u32()? as usize, r.u64()?);
        if count > DOUBLE_WRITE_PAGES || total < data_start(count) || reserved != 0 {
            return r.fail("the header is out of bounds");
        }
        let mut data = data_start(count);
        let entries = (0..count).map(|_| read_entry(&mut r, &mut data)).collect::<Decoded<Vec<_>>>()?;
        if data == total { Ok(entries) } else { r.fail("the sectors are not as many as the entries say") }
    }

    /// Lays an entry's sectors over the page in place.
    pub(super) fn overlay(&self, entry: &Entry, page: &mut [u8]) {
        let mut at = entry.data;
        for (_, sector) in page.chunks_exact_mut(SECTOR).enumerate().filter(|(i, _)| entry.sectors & (1 << i) != 0) {
            let block = self.blocks.get(at / BLOCK_BYTES);
            if let Some(saved) = block.and_then(|block| block.get(at % BLOCK_BYTES..)?.first_chunk::<SECTOR>()) {
                sector.copy_from_slice(saved);
            }
            at += SECTOR;
        }
    }

    fn first(&self) -> &[u8] {
        self.blocks.first().map_or(&[], |block| block)
    }

    /// Checksum of the first `total` bytes without the checksum itself.
    fn checksum(&self, total: usize) -> u32 {
        let (mut sum, mut at) = (0, 0);
        for block in &self.blocks {
            let part = block.get(..(total - at).min(BLOCK_BYTES)).unwrap_or_default();
            let (before, after) = if at == 0 { (CHECKSUM.start, CHECKSUM.end) } else { (0, 0) };
            sum = crc32c(sum, part.get(..before).unwrap_or_default());
            sum = crc32c(sum, part.get(after..).unwrap_or_default());
            at += part.len();
        }
        sum
    }
}

/// The changed sectors of a page, lowest first.
fn sectors_of(write: &PageWrite) -> impl Iterator<Item = &[u8]> {
    let sectors = write.block.chunks_exact(SECTOR).enumerate();
    sectors.filter(|(i, _)| write.sectors & (1 << i) != 0).map(|(_, sector)| sector)
}

/// Reads an entry, whose sectors begin at `data`.
fn read_entry(r: &mut Reader<'_>, data: &mut usize) -> Decoded<Entry> {
    let entry = Entry { file: r.u64()?, page: r.u32()?, crc: r.u32()?, sectors: r.u8()?, data: *data };
    *data += entry.sectors.count_ones() as usize * SECTOR;
    Ok(entry)
}
