//! Builds blocks from records in ascending order.

use ecotone_substrate::{
    Result,
    limits::{MAX_KEY, MAX_RECORD},
    memory::{Component, Memory},
    storage,
    table::BlockAddress,
};
use ecotone_sys::chunk::Size;

use crate::table::{
    block::Block,
    block_format::{HEADER, PLAIN, RESTART, RESTART_INTERVAL},
    compression::{BlockCompressor, Compression, plain_room},
    entry::Entry,
    prefix_compare::common_prefix_len,
};

/// An owned record; a value of `None` is a tombstone.
type Record = (Vec<u8>, Option<Vec<u8>>);

/// Fills blocks, one after the other, in one buffer.
#[derive(Debug)]
pub struct BlockBuilder {
    piece: storage::Block,
    size: usize,
    /// Most bytes of the plain block.
    limit: usize,
    count: usize,
    end: usize,
    restarts: Vec<u16>,
    first: Vec<u8>,
    last: Vec<u8>,
    packer: Option<BlockCompressor>,
    /// The record count at the last packing of the block, and the packed bytes if they fit.
    packed: Option<(usize, Option<usize>)>,
    /// Records that did not fit after packing. They go to the next blocks; the last one is first here.
    left: Vec<Record>,
}

impl BlockBuilder {
    /// A builder of blocks of `size` bytes: 4096, 8192 or 16384.
    ///
    /// # Errors
    /// If there is no memory for one.
    pub fn new(memory: &Memory, size: usize, compression: Compression) -> Result<BlockBuilder> {
        assert!((4096..=16384).contains(&size) && size.is_power_of_two());
        let packer = (compression == Compression::Lz4).then(|| BlockCompressor::new(memory, size)).transpose()?;
        let slab = packer.is_some() || size > Size::Frame.bytes();
        let mut piece = memory.lease_essential(Component::Frames, if slab { Size::Slab } else { Size::Frame })?;
        piece.fill(0);
        let (restarts, first, last) = (Vec::new(), Vec::new(), Vec::new());
        let (count, end, limit) = (0, HEADER, size);
        Ok(BlockBuilder {
            piece,
            size,
            limit,
            count,
            end,
            restarts,
            first,
            last,
            packer,
            packed: None,
            left: Vec::new(),
        })
    }

    /// The number of records in the block so far.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The first key of the block.
    pub(super) fn first_key(&self) -> &[u8] {
        &self.first
    }

    /// The last key of the block.
    pub(super) fn last_key(&self) -> &[u8] {
        &self.last
    }

    /// The last key that was pushed.
    pub(super) fn newest_key(&self) -> &[u8] {
        self.left.first().map_or(&self.last, |(key, _)| key)
    }

    /// Adds a record whose key is above the last one's. Gives `false` and changes nothing if it does not fit. A value
    /// of `None` is a tombstone.
    ///
    /// # Panics
    /// If a limit is exceeded.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> bool {
        let bytes = value.map_or(0, <[u8]>::len);
        assert!(
            !key.is_empty() && key.len() <= MAX_KEY && key.len() + bytes <= MAX_RECORD,
            "a record exceeds the limits"
        );
        self.left.is_empty() && self.add(key, value, true)
    }

    /// Adds a record, unless it exceeds the limit of the block. `raise` allows the limit to be raised.
    fn add(&mut self, key: &[u8], value: Option<&[u8]>, raise: bool) -> bool {
        let begins = self.count.is_multiple_of(RESTART_INTERVAL);
        let shared = if begins { 0 } else { common_prefix_len(&self.last, key) };
        let entry = Entry { shared, rest: &key[shared..], value };
        let bytes = self.plain() + entry.len() + if begins { RESTART } else { 0 };
        if bytes > self.limit && !(raise && self.raise_limit(bytes)) {
            return false;
        }
        if begins {
            self.restarts.push(self.end as u16);
        }
        if self.count == 0 {
            self.first.clear();
            self.first.extend_from_slice(key);
        }
        entry.write(&mut self.piece[self.end..]);
        self.end += entry.len();
        self.count += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
        true
    }

    /// Bytes of the plain block so far.
    fn plain(&self) -> usize {
        self.end + RESTART * self.restarts.len()
    }

    /// Raises the limit to the plain bytes that should pack into one block, if `bytes` fit and the limit grows by an
    /// eighth at least. Whether it was raised.
    fn raise_limit(&mut self, bytes: usize) -> bool {
        if self.packer.is_none() || bytes > plain_room(self.size) || self.pack().is_none() {
            return false;
        }
        let (limit, least) = (self.limit_by_rate(), bytes.max(self.limit + self.limit / 8));
        if limit >= least {
            self.limit = limit;
        }
        limit >= least
    }

    fn limit_by_rate(&self) -> usize {
        self.packer.as_ref().map_or(self.size, BlockCompressor::limit)
    }

    /// Packs the block, unless that was done. Gives the packed bytes, or `None` if they do not fit.
    fn pack(&mut self) -> Option<usize> {
        if let Some((_, packed)) = self.packed.filter(|(count, _)| *count == self.count) {
            return packed;
        }
        self.complete(self.plain());
        let entries = HEADER..self.plain();
        let packed = self.packer.as_mut()?.pack(&self.piece[entries]);
        self.packed = Some((self.count, packed));
        packed
    }

    /// Keeps in the block the records that fit, one at least, and leaves the others for the next blocks. Gives the
    /// packed bytes, or `None` if the block is plain.
    pub(super) fn close(&mut self) -> Option<usize> {
        if self.plain() > self.size && self.pack().is_none() {
            self.keep(self.limit_by_rate());
        }
        if self.plain() > self.size && self.pack().is_none() {
            self.keep(self.size);
        }
        if self.plain() > self.size { self.pack() } else { None }
    }

    /// Keeps the first records up to `limit` bytes, and leaves the others for the next blocks.
    fn keep(&mut self, limit: usize) {
        self.complete(self.plain());
        let block = Block::reparse(&self.piece[..self.plain()]).expect("it was made here");
        let mut records = Vec::with_capacity(self.count);
        let each = block.each(|key, value| {
            records.push((key.to_vec(), value.map(<[u8]>::to_vec)));
            Ok(())
        });
        each.expect("they were written here");
        self.clear();
        self.limit = limit;
        let kept = records.iter().take_while(|(key, value)| self.add(key, value.as_deref(), false)).count();
        self.left.extend(records.drain(kept..).rev());
    }

    /// Completes a plain block of `bytes` bytes in the buffer, except for the checksum.
    fn complete(&mut self, bytes: usize) {
        let restarts = bytes - RESTART * self.restarts.len();
        self.piece[..HEADER].fill(0);
        self.piece[4] = PLAIN;
        self.piece[6..8].copy_from_slice(&(self.count as u16).to_le_bytes());
        self.piece[8..10].copy_from_slice(&(self.end as u16).to_le_bytes());
        self.piece[self.end..restarts].fill(0);
        let (places, _) = self.piece[restarts..bytes].as_chunks_mut();
        places.iter_mut().zip(&self.restarts).for_each(|(bytes, restart)| *bytes = restart.to_le_bytes());
    }

    /// Completes the block and gives its bytes to `take`. The next block begins with the records that did not fit.
    pub fn finish<T>(&mut self, place: BlockAddress, take: impl FnOnce(&[u8]) -> T) -> T {
        let (packed, count, end, plain) = (self.close(), self.count, self.end, self.plain());
        if packed.is_none() {
            self.complete(self.size);
        }
        let block = match (packed, &mut self.packer) {
            (Some(packed), Some(packer)) => packer.block(count, end, packed, plain),
            _ => &mut self.piece[..self.size],
        };
        let sum = place.checksum(block);
        block[..4].copy_from_slice(&sum.to_le_bytes());
        let taken = take(block);
        self.clear();
        while let Some((key, value)) = self.left.pop() {
            if !self.add(&key, value.as_deref(), true) {
                self.left.push((key, value));
                break;
            }
        }
        taken
    }

    fn clear(&mut self) {
        (self.count, self.end, self.packed, self.limit) = (0, HEADER, None, self.limit_by_rate());
        self.restarts.clear();
    }
}

const _: () = assert!(2 * (MAX_RECORD + 7 + RESTART) + HEADER <= 4096, "a block of 4096 bytes takes any record twice");
