//! Bodies of fuzz targets (`fuzz/README.md`) that ordinary tests run as well, on inputs of their own.

pub mod hot_log;
pub mod run;
pub mod structure;
pub mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;

use ecotone_substrate::{limits::PAGE, table::Name};
use ecotone_sys::checksum::crc32c;

/// The file that an input is.
pub const NAME: Name = Name { database: 7, keyspace: 3, number: 9, birth: 41 };

/// Not the product's hash, which any function may take the place of.
pub fn hash(key: &[u8]) -> u64 {
    u64::from(crc32c(0, key)) << 32 | u64::from(crc32c(1, key))
}

/// The input with zeros behind it, or its beginning.
fn padded(input: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes.iter_mut().zip(input).for_each(|(byte, given)| *byte = *given);
    bytes
}

/// The checksum of what lies between two places, as far as there is something.
fn sum(bytes: &[u8], from: usize, until: usize) -> [u8; 4] {
    let until = until.min(bytes.len());
    crc32c(0, &bytes[from.min(until)..until]).to_le_bytes()
}

/// The number at a place of a header.
fn number<const N: usize>(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + N].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// Makes a header that of [`NAME`], in the first version.
fn name(bytes: &mut [u8], magic: &[u8; 8]) {
    bytes[4..12].copy_from_slice(magic);
    bytes[12..40].fill(0);
    bytes[12] = 1;
    bytes[40..48].copy_from_slice(&NAME.database.to_le_bytes());
    bytes[48..52].copy_from_slice(&NAME.keyspace.to_le_bytes());
    bytes[52..56].copy_from_slice(&NAME.number.to_le_bytes());
    bytes[56..64].copy_from_slice(&NAME.birth.to_le_bytes());
}

/// Puts right checksums into blocks, which lie behind the first page; `first` is the number of the first of them.
fn seal_blocks(bytes: &mut [u8], Range { start, end }: Range<usize>, size: usize, first: u32) {
    let start = start.clamp(PAGE, bytes.len());
    let end = end.clamp(start, bytes.len());
    for (number, block) in (0..).zip(bytes[start..end].chunks_mut(size)) {
        crate::table::seal_block(NAME.place(first.wrapping_add(number)), block);
    }
}
