//! Bytes in and out: little-endian integers, variable-length integers, and annotated hex for the golden tests.

pub mod hex;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{Malformed, Reader};
pub use writer::{Writer, put_length, varint_len};

/// Longest encoding of a variable-length integer, in bytes.
const MAX_VARINT: usize = 10;
