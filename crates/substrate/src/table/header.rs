//! The first 64 bytes of a file that is written once, which are the same for all kinds (`docs/format/hash.md`, "Files").

use std::result;

use ecotone_sys::checksum::crc32c;

use super::{Name, Role};
use crate::{
    Error, Result,
    codec::{Malformed, Reader, Writer},
    limits::PAGE,
};

/// How the first page of one kind of file begins.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// What its files are to the storage.
    pub role: Role,
    /// The first bytes behind the checksum.
    pub magic: &'static [u8; 8],
    /// The latest version that is known.
    pub version: u32,
}

impl Header {
    /// Begins a header. What the kind has of its own follows at byte 64.
    pub fn begin(&self, name: Name) -> Writer {
        let mut w = Writer::new();
        w.u32(0).bytes(self.magic).u32(self.version);
        // Feature bits: compatible, compatible for readers, incompatible. None exists yet.
        w.u64(0).u64(0).u64(0);
        w.u64(name.database).u32(name.keyspace).u32(name.number).u64(name.birth);
        w
    }

    /// Fills a page with a whole header.
    ///
    /// # Panics
    /// If it is longer than the page.
    pub fn seal(&self, name: Name, header: &Writer, page: &mut [u8]) {
        page.fill(0);
        page[..header.len()].copy_from_slice(header.as_slice());
        let sum = self.checksum(name, page);
        page[..4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Checks that a page begins this very file, and gives what follows at byte 64.
    ///
    /// # Errors
    /// If it is damaged, begins another file, or was written by a later version.
    pub fn open<'a>(&self, name: Name, page: &'a [u8]) -> Result<Reader<'a>> {
        let file = self.role.file(name);
        let (version, unknown) = self.identify(name, page).map_err(|e| e.at(file, 0))?;
        let newer = |found, known| Err(Error::NewerFormat { file: file.to_string(), found, known });
        if version > self.version {
            return newer(version.into(), self.version.into());
        }
        if unknown != 0 {
            return newer(unknown, 0);
        }
        named(name, page).map_err(|e| e.at(file, 0))
    }

    /// The version, and the feature bits that forbid writing or reading, of a header with a right checksum.
    fn identify(&self, name: Name, page: &[u8]) -> result::Result<(u32, u64), Malformed> {
        let mut r = Reader::new(page);
        if r.u32()? != self.checksum(name, page) {
            return Err(Malformed::new(0, "the checksum of the file header does not match"));
        }
        if r.array()? != *self.magic {
            return r.fail("the file does not begin as one of its kind");
        }
        let version = r.u32()?;
        if version == 0 {
            return r.fail("there is no format version 0");
        }
        let (_compatible, read_only, incompatible) = (r.u64()?, r.u64()?, r.u64()?);
        Ok((version, read_only | incompatible))
    }

    fn checksum(&self, name: Name, page: &[u8]) -> u32 {
        crc32c(crc32c(0, &self.role.file(name).identity().to_le_bytes()), page.get(4..PAGE).unwrap_or_default())
    }
}

fn named(name: Name, page: &[u8]) -> result::Result<Reader<'_>, Malformed> {
    let mut r = Reader::new(page);
    r.bytes(40)?;
    let found = Name { database: r.u64()?, keyspace: r.u32()?, number: r.u32()?, birth: r.u64()? };
    if found == name { Ok(r) } else { r.fail("the file is another one than was named") }
}
