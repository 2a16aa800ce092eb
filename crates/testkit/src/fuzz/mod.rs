//! Bodies of the fuzz targets (`fuzz/README.md`). Ordinary tests run them as well, on inputs of their own.

pub mod hot_log;
pub mod run;
pub mod structure;
pub mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;

use ecotone_substrate::{limits::PAGE, table::FileIdentity};
use ecotone_sys::checksum::crc32c;

/// The file that an input stands for.
pub const NAME: FileIdentity = FileIdentity { database: 7, keyspace: 3, number: 9, birth: 41 };

/// A hash for tests. It is not the product's hash, because any function may take its place.
pub fn hash(key: &[u8]) -> u64 {
    u64::from(crc32c(0, key)) << 32 | u64::from(crc32c(1, key))
}

/// The input, padded with zeros or cut to the length.
fn padded(input: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes.iter_mut().zip(input).for_each(|(byte, given)| *byte = *given);
    bytes
}

/// The checksum of the bytes between two offsets, as far as there are any.
fn sum(bytes: &[u8], from: usize, until: usize) -> [u8; 4] {
    let until = until.min(bytes.len());
    crc32c(0, &bytes[from.min(until)..until]).to_le_bytes()
}

/// The number at an offset of a header.
fn number<const N: usize>(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + N].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// Makes a header one of [`NAME`], in the first version.
fn name(bytes: &mut [u8], magic: &[u8; 8]) {
    bytes[4..12].copy_from_slice(magic);
    bytes[12..40].fill(0);
    bytes[12] = 1;
    bytes[40..48].copy_from_slice(&NAME.database.to_le_bytes());
    bytes[48..52].copy_from_slice(&NAME.keyspace.to_le_bytes());
    bytes[52..56].copy_from_slice(&NAME.number.to_le_bytes());
    bytes[56..64].copy_from_slice(&NAME.birth.to_le_bytes());
}

/// Puts right checksums into the blocks behind the first page; `first` is the number of the first block.
fn seal_blocks(bytes: &mut [u8], Range { start, end }: Range<usize>, size: usize, first: u32) {
    let start = start.clamp(PAGE, bytes.len());
    let end = end.clamp(start, bytes.len());
    for (number, block) in (0..).zip(bytes[start..end].chunks_mut(size)) {
        crate::table::seal_block(NAME.place(first.wrapping_add(number)), block);
    }
}
