//! Compression of the entries of a block by LZ4 (`docs/format/lsm.md`, "Block", form 2).

use std::result;

use ecotone_engine::option_value;
use ecotone_substrate::{
    Result,
    codec::{Malformed, Reader, is_zero},
    memory::{Component, Memory},
    storage,
};
use ecotone_sys::chunk::Size;
use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use crate::table::block_format::{HEADER, PACKED, PLAIN, RESTART, RESTART_INTERVAL};

/// The compression of a table's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Records are stored as they are.
    #[default]
    None,
    /// A block holds as many records as LZ4 packs into it, if these are more than fit plain.
    Lz4,
}

impl Compression {
    const ALL: [Compression; 2] = [Compression::None, Compression::Lz4];

    /// Its number in files.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// The compression with a number.
    pub(crate) fn of(number: u8) -> Option<Compression> {
        Self::ALL.into_iter().find(|compression| compression.number() == number)
    }

    /// Returns its name among the options.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
        }
    }
}

option_value!(Compression, "compression");

/// Most bytes of a plain block that are packed into one of `size` bytes. The plain form and the block together fit into
/// a slab.
pub const fn plain_room(size: usize) -> usize {
    let (four, rest) = (4 * size, Size::Slab.bytes() - 16384);
    if four < rest { four } else { rest }
}

/// Bytes of the plain form of a packed block; `None` if the block is plain.
pub(super) fn plain_bytes(bytes: &[u8]) -> Option<usize> {
    let (form, plain) = (bytes.get(4)?, bytes.get(12..)?.first_chunk()?);
    (*form == PACKED).then_some(u16::from_le_bytes(*plain).into())
}

/// Unpacks a packed block with a verified checksum.
pub(super) fn unpack<'r>(bytes: &[u8], room: &'r mut [u8]) -> result::Result<&'r [u8], Malformed> {
    let mut r = Reader::new(bytes);
    r.u32()?;
    let (_form, reserved, count, end) = (r.u8()?, r.u8()?, r.u16()?, r.u16()?);
    let (packed, plain) = (usize::from(r.u16()?), usize::from(r.u16()?));
    if reserved != 0 || r.u16()? != 0 {
        return Err(Malformed::new(5, "reserved bytes are not zero"));
    }
    let packed = r.bytes(packed)?;
    let restarts = RESTART * usize::from(count).div_ceil(RESTART_INTERVAL);
    if plain != usize::from(end) + restarts || !(HEADER..=plain_room(bytes.len())).contains(&plain) {
        return Err(Malformed::new(12, "a packed block says of what length it is without, and cannot be"));
    }
    if bytes.get(r.position()..).is_some_and(|gap| !is_zero(gap)) {
        return Err(Malformed::new(r.position(), "the gap behind what is packed is not zero"));
    }
    let Some((header, entries)) = room.get_mut(..plain).and_then(|room| room.split_first_chunk_mut::<HEADER>()) else {
        return Err(Malformed::new(12, "a packed block stands where none may be"));
    };
    let unpacked = decompress_into(packed, entries);
    if unpacked.ok() != Some(entries.len()) {
        return Err(Malformed::new(HEADER, "what is packed cannot be unpacked"));
    }
    *header = [0; HEADER];
    header[4] = PLAIN;
    header[6..8].copy_from_slice(&count.to_le_bytes());
    header[8..10].copy_from_slice(&end.to_le_bytes());
    Ok(&room[..plain])
}

/// Packs blocks, one after the other, in one buffer.
#[derive(Debug)]
pub(super) struct BlockCompressor {
    /// The buffer of the packed block.
    memory: storage::Block,
    size: usize,
    /// Packed bytes per plain byte of the last block.
    rate: f64,
}

/// Blocks are filled to this fraction of the last block's rate, since the next block may compress worse.
const FILL: f64 = 0.95;

impl BlockCompressor {
    /// For blocks of `size` bytes.
    ///
    /// # Errors
    /// If there is no memory for one.
    pub(super) fn new(memory: &Memory, size: usize) -> Result<BlockCompressor> {
        let memory = memory.lease_essential(Component::Frames, Size::Slab)?;
        assert!(HEADER + get_maximum_output_size(plain_room(size)) <= memory.len());
        Ok(BlockCompressor { memory, size, rate: 1.0 })
    }

    /// Bytes of a plain block that should fit, by the last rate.
    pub(super) fn limit(&self) -> usize {
        ((self.room() as f64 / self.rate * FILL) as usize).clamp(self.size, plain_room(self.size))
    }

    /// Packs the entries and restarts of a block. Gives the packed bytes, or `None` if they do not fit.
    pub(super) fn pack(&mut self, entries: &[u8]) -> Option<usize> {
        let room = self.room();
        let packed = compress_into(entries, &mut self.memory[HEADER..]).expect("there is room for the worst");
        self.rate = packed as f64 / entries.len() as f64;
        (packed <= room).then_some(packed)
    }

    /// Completes the block that was packed last, but for its checksum.
    pub(super) fn block(&mut self, count: usize, end: usize, packed: usize, plain: usize) -> &mut [u8] {
        let block = &mut self.memory[..self.size];
        block[..HEADER].fill(0);
        block[4] = PACKED;
        for (field, number) in block[6..14].chunks_mut(2).zip([count, end, packed, plain]) {
            field.copy_from_slice(&(number as u16).to_le_bytes());
        }
        block[HEADER + packed..].fill(0);
        block
    }

    fn room(&self) -> usize {
        self.size - HEADER
    }
}
