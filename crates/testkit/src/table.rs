//! Shared tests for all kinds of files that are written once (`ecotone_substrate::table`).

use ecotone_substrate::{
    Error, Result,
    limits::PAGE,
    storage::FileId,
    table::{BlockAddress, FileIdentity},
};
use ecotone_sys::checksum::crc32c;

use crate::sim::SimStorage;

/// The first 64 bytes, for golden files.
pub const BEGINNING: [(usize, &str); 10] = [
    (4, "checksum"),
    (8, "magic"),
    (4, "format version"),
    (8, "features: compatible"),
    (8, "read-compatible"),
    (8, "incompatible"),
    (8, "database"),
    (4, "keyspace"),
    (4, "number"),
    (8, "birth"),
];

/// Puts a right checksum into the first page of a file.
pub fn seal_header(file: FileId, bytes: &mut [u8]) {
    let sum = crc32c(crc32c(0, &file.identity().to_le_bytes()), &bytes[4..PAGE]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Puts a right checksum into a block.
pub fn seal_block(place: BlockAddress, bytes: &mut [u8]) {
    let sum = place.checksum(bytes);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}

/// A table on a disk that is damaged repeatedly, and a call that reads all of it.
pub struct Damaged<'t> {
    disk: &'t SimStorage,
    name: FileIdentity,
    whole: Vec<u8>,
    read: &'t dyn Fn() -> Result<()>,
}

impl<'t> Damaged<'t> {
    /// Takes a table that is whole.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn new(disk: &'t SimStorage, name: FileIdentity, read: &'t dyn Fn() -> Result<()>) -> Damaged<'t> {
        read().expect("the table is whole");
        Damaged { disk, name, whole: disk.files()[&name.file()].clone(), read }
    }

    /// The bytes of the whole table.
    pub fn whole(&self) -> &[u8] {
        &self.whole
    }

    /// The offset in the table that an error names.
    pub fn place(&self, error: &Error) -> Option<u64> {
        match error {
            Error::Corruption { file, offset, .. } if *file == self.name.file().to_string() => Some(*offset),
            _ => None,
        }
    }

    /// Flips a bit of one byte, and reads.
    pub fn flip(&self, offset: usize) -> Result<()> {
        let mut bytes = self.whole.clone();
        bytes[offset] ^= 1 << (offset % 8);
        self.replace(&bytes)
    }

    /// Replaces the bytes of the table, and reads.
    pub fn replace(&self, bytes: &[u8]) -> Result<()> {
        let file = self.name.file();
        self.disk.put(file, bytes);
        let read = (self.read)();
        self.disk.put(file, &self.whole);
        read
    }

    /// Cuts the table at many lengths, and makes it longer.
    ///
    /// # Panics
    /// If the table is read without an error that names an offset.
    pub fn every_other_length_is_noticed(&self) {
        let length = self.whole.len();
        for length in [0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, length - PAGE, length - 1, length + PAGE] {
            let mut bytes = self.whole.clone();
            bytes.resize(length, 0);
            let error = self.replace(&bytes).expect_err("its length is another");
            assert!(self.place(&error).is_some(), "{length} bytes: {error}");
        }
    }

    /// Flips each bit of the header up to byte `end`, and puts the checksum right. Bytes of which `may_be` is true may
    /// have other values.
    ///
    /// # Panics
    /// If an impossible header is read without an error that names an offset.
    pub fn a_header_that_makes_no_sense_is_noticed(&self, end: usize, may_be: impl Fn(usize) -> bool) {
        for (offset, bit) in (4..end).flat_map(|offset| (0..8).map(move |bit| (offset, bit))) {
            let mut bytes = self.whole.clone();
            bytes[offset] ^= 1 << bit;
            seal_header(self.name.file(), &mut bytes);
            let read = self.replace(&bytes);
            match offset {
                // A later version, features that may be ignored, features that may not.
                12..16 | 24..40 => {
                    assert!(
                        matches!(read, Err(Error::NewerFormat { .. } | Error::Corruption { .. })),
                        "{offset}: {read:?}"
                    )
                }
                16..24 => assert!(read.is_ok(), "byte {offset}: {read:?}"),
                _ if may_be(offset) && read.is_ok() => {}
                _ => assert!(read.as_ref().is_err_and(|error| self.place(error).is_some()), "byte {offset}: {read:?}"),
            }
        }
    }
}
