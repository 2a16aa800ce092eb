//! The header of a page file, its page 0: format version, database and keyspace.

use std::result;

use ecotone_substrate::{
    Error, Result,
    codec::{Malformed, Reader, Writer},
    limits::PAGE,
    storage::FileId,
};
use ecotone_sys::checksum::crc32c;

const MAGIC: &[u8; 8] = b"ECOpages";
const VERSION: u32 = 1;

/// The identity that the header of a page file stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Identity of the database.
    pub(super) database: u64,
    /// Number of the keyspace.
    pub(super) keyspace: u32,
}

impl Header {
    /// Writes the header into a page.
    pub(super) fn encode(self, page: &mut [u8]) {
        let mut w = Writer::new();
        w.u32(0).bytes(MAGIC).u32(VERSION);
        // Feature bits: compatible, compatible for readers, incompatible. None exists yet.
        w.u64(0).u64(0).u64(0);
        w.u64(self.database).u32(self.keyspace);
        page.fill(0);
        page[..w.len()].copy_from_slice(w.as_slice());
        seal(page, self.keyspace);
    }

    /// Fails unless `page` is the header of exactly this file.
    pub(super) fn check(self, page: &[u8]) -> Result<()> {
        let id = FileId::Pages(self.keyspace);
        let fields = Fields::read(page).map_err(|e| e.at(id, 0))?;
        if fields.checksum != checksum(page, self.keyspace) {
            return Err(Error::corruption(id, 0, "the checksum of the file header does not match"));
        }
        let newer = |found, known| Err(Error::NewerFormat { file: id.to_string(), found, known });
        if fields.version > VERSION {
            return newer(fields.version.into(), VERSION.into());
        }
        if fields.version != VERSION {
            return Err(Error::corruption(id, 12, "there is no format version 0"));
        }
        if fields.unknown_features != 0 {
            return newer(fields.unknown_features, 0);
        }
        if fields.header != self {
            return Err(Error::corruption(id, 0, "the file belongs to another database or keyspace"));
        }
        Ok(())
    }
}

/// The fields of the page. They are trusted only after the checksum is verified.
struct Fields {
    checksum: u32,
    version: u32,
    /// Feature bits that forbid writing or reading.
    unknown_features: u64,
    header: Header,
}

impl Fields {
    fn read(page: &[u8]) -> result::Result<Self, Malformed> {
        let mut r = Reader::new(page);
        let checksum = r.u32()?;
        if r.array()? != *MAGIC {
            return r.fail("the file does not begin like a page file");
        }
        let version = r.u32()?;
        let (_compatible, read_only, incompatible) = (r.u64()?, r.u64()?, r.u64()?);
        let header = Header { database: r.u64()?, keyspace: r.u32()? };
        Ok(Fields { checksum, version, unknown_features: read_only | incompatible, header })
    }
}

/// Writes the checksum into the page.
pub(super) fn seal(page: &mut [u8], keyspace: u32) {
    let sum = checksum(page, keyspace);
    page[..4].copy_from_slice(&sum.to_le_bytes());
}

fn checksum(page: &[u8], keyspace: u32) -> u32 {
    let seed = crc32c(0, &FileId::Pages(keyspace).identity().to_le_bytes());
    crc32c(seed, page.get(4..PAGE).unwrap_or_default())
}
