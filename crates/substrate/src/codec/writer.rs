//! Appends values to a buffer, in the forms that [`Reader`](super::Reader) takes.

/// Bytes that a variable-length integer takes.
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Collects encoded values.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends to the contents of `bytes`, so that a buffer can be reused.
    pub fn onto(bytes: Vec<u8>) -> Self {
        Writer { bytes }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// A variable-length integer, see [`Reader::varint`](super::Reader::varint).
    pub fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8)
    }

    /// Raw bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Bytes with their length before them as a variable-length integer.
    pub fn prefixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.varint(bytes.len() as u64).bytes(bytes)
    }

    /// The bytes written.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes written.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Writes a length as a varint of one or two bytes at a position of a buffer, and returns the position behind it.
///
/// # Panics
/// If the length is 16,384 or more.
pub fn put_length(bytes: &mut [u8], at: usize, length: usize) -> usize {
    assert!(length < 1 << 14, "a length of at most two bytes");
    let low = (length & 0x7f) as u8;
    if length < 0x80 {
        bytes[at] = low;
        return at + 1;
    }
    bytes[at..at + 2].copy_from_slice(&[low | 0x80, (length >> 7) as u8]);
    at + 2
}
