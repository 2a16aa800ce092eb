//! Bytes in and out: little-endian integers, variable-length integers, and annotated hex for the golden tests.

pub mod hex;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{Malformed, Reader};
pub use writer::{Writer, put_length, varint_len};

/// Whether all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    const ZERO: [u8; 256] = [0; 256];
    // Comparing long slices is many times faster than checking each byte, most of all without optimisation.
    bytes.chunks(ZERO.len()).all(|run| *run == ZERO[..run.len()])
}

/// Longest encoding of a variable-length integer, in bytes.
const MAX_VARINT: usize = 10;
