//! The byte layout of a page, shared by its builder and its reader.

use std::fmt;

use ecotone_sys::checksum::crc32c;

use crate::{
    Error,
    codec::{Malformed, Reader, Writer},
    limits::{MAX_KEY, MAX_RECORD, PAGE},
};

pub(super) const VERSION: u8 = 1;
pub(super) const HEADER: usize = 40;
pub(super) const SLOT: usize = 10;
/// Bytes of a record beside its suffix and value: its slot and its kind.
pub(super) const RECORD_OVERHEAD: usize = SLOT + 1;
/// The page has no upper fence.
pub(super) const NO_UPPER: u16 = 1;

const _: () = assert!(
    HEADER + 2 * MAX_KEY + MAX_RECORD + RECORD_OVERHEAD <= PAGE,
    "the largest record fits beside the longest fences"
);

/// The use of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// Records of a data page.
    Base = 1,
    /// Records that did not fit into a base page.
    Overflow = 2,
    /// Lowest level of an index.
    Index = 3,
    /// Upper levels of an index.
    IndexInner = 4,
    /// The test kit's own.
    Bucket = 5,
}

impl PageKind {
    pub(super) fn of(byte: u8) -> Option<Self> {
        use PageKind::{Base, Bucket, Index, IndexInner, Overflow};
        [Base, Overflow, Index, IndexInner, Bucket].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The kind of a record. 3 to 6 are reserved: out-of-line value, expiry, merge operand, range delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// The key has this value.
    Value = 1,
    /// The key is deleted.
    Tombstone = 2,
}

impl RecordKind {
    #[inline]
    pub(super) fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(RecordKind::Value),
            2 => Some(RecordKind::Tombstone),
            _ => None,
        }
    }
}

/// The address of a page. The checksum covers it, so that a page found elsewhere does not verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageAddress {
    /// [`FileId::identity`](crate::storage::FileId::identity) of the file.
    pub file: u64,
    /// Number of the page in the file; it begins at byte `page * 4096`.
    pub page: u32,
}

/// Why bytes are not a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageError {
    /// The checksum does not match: torn, damaged, misplaced or never written.
    Checksum,
    /// The checksum matches, and the page has this later version.
    Newer(u8),
    /// The checksum matches, and this part is malformed.
    Malformed(&'static str),
}

impl PageError {
    /// As an error of `file`, for its page number `page`.
    pub fn at(self, file: impl fmt::Display, page: u32) -> Error {
        match self {
            PageError::Newer(found) => {
                Error::NewerFormat { file: file.to_string(), found: found.into(), known: VERSION.into() }
            }
            _ => Error::corruption(file, u64::from(page) * PAGE as u64, self.to_string()),
        }
    }
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageError::Checksum => f.write_str("the page checksum does not match"),
            PageError::Newer(version) => write!(f, "the page is of the later version {version}"),
            PageError::Malformed(what) => write!(f, "the page is malformed: {what}"),
        }
    }
}

impl std::error::Error for PageError {}

impl From<Malformed> for PageError {
    fn from(malformed: Malformed) -> Self {
        PageError::Malformed(malformed.what)
    }
}

/// The fields of a header, not checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) checksum: u32,
    pub(super) version: u8,
    pub(super) kind: u8,
    pub(super) flags: u16,
    pub(super) sequence: u64,
    pub(super) page: u32,
    pub(super) related: u32,
    pub(super) count: u16,
    pub(super) heap: u16,
    pub(super) lower: u16,
    pub(super) upper: u16,
    pub(super) prefix: u16,
    pub(super) reserved: [u8; 6],
}

impl Header {
    #[inline]
    pub(super) fn read(page: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(page);
        Ok(Header {
            checksum: r.u32()?,
            version: r.u8()?,
            kind: r.u8()?,
            flags: r.u16()?,
            sequence: r.u64()?,
            page: r.u32()?,
            related: r.u32()?,
            count: r.u16()?,
            heap: r.u16()?,
            lower: r.u16()?,
            upper: r.u16()?,
            prefix: r.u16()?,
            reserved: r.array()?,
        })
    }

    pub(super) fn write(&self, page: &mut [u8]) {
        let mut w = Writer::onto(Vec::with_capacity(HEADER));
        w.u32(self.checksum).u8(self.version).u8(self.kind).u16(self.flags);
        w.u64(self.sequence).u32(self.page).u32(self.related);
        w.u16(self.count).u16(self.heap).u16(self.lower).u16(self.upper).u16(self.prefix);
        w.bytes(&self.reserved);
        page[..HEADER].copy_from_slice(w.as_slice());
    }
}

/// The checksum of a page at `place`.
pub(super) fn checksum(page: &[u8], place: PageAddress) -> u32 {
    let seed = crc32c(crc32c(0, &place.file.to_le_bytes()), &place.page.to_le_bytes());
    crc32c(seed, page.get(4..).unwrap_or_default())
}

/// The first four bytes of a suffix, zero-padded. Where two heads differ they order their suffixes.
#[inline]
pub(super) fn head(suffix: &[u8]) -> u32 {
    match suffix.first_chunk::<4>() {
        Some(first) => u32::from_be_bytes(*first),
        None => suffix.iter().rev().fold(0, |head, &byte| (head >> 8) | (u32::from(byte) << 24)),
    }
}
