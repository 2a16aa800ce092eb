//! The first page of each file of a hash keyspace: which file of which database this is (`docs/format/hash.md`, "Files").

use ecotone_substrate::{
    Error, Result,
    codec::{Malformed, Reader, Writer},
    limits::PAGE,
    storage::FileId,
};
use ecotone_sys::checksum::crc32c;

const VERSION: u32 = 1;

/// A file of a hash keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    /// Identity of the database.
    pub(super) database: u64,
    /// The file, whose number may have been another one's before.
    pub(super) file: FileId,
    /// Its birth, which no other file of the keyspace has or had.
    pub(super) birth: u64,
}

impl Identity {
    /// Keyspace and number.
    fn numbers(self) -> (u32, u32) {
        match self.file {
            FileId::Table { keyspace, number } | FileId::Segment { keyspace, number } => (keyspace, number),
            other => unreachable!("{other} is no file of a hash keyspace"),
        }
    }
}

/// Fills a page: what all kinds have, then what `fields` adds.
pub(super) fn encode(magic: &[u8; 8], identity: Identity, page: &mut [u8], fields: impl FnOnce(&mut Writer)) {
    let ((keyspace, number), mut w) = (identity.numbers(), Writer::new());
    w.u32(0).bytes(magic).u32(VERSION);
    // Feature bits: compatible, compatible for readers, incompatible. None exists yet.
    w.u64(0).u64(0).u64(0);
    w.u64(identity.database).u32(keyspace).u32(number).u64(identity.birth);
    fields(&mut w);
    page.fill(0);
    page[..w.len()].copy_from_slice(w.as_slice());
    let sum = checksum(identity.file, page);
    page[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Reads the first page of this very file, which begins with `magic`; what its kind has is decoded by `fields`, and the rest is zero.
pub(super) fn decode<T>(
    magic: &[u8; 8],
    identity: Identity,
    page: &[u8],
    fields: impl FnOnce(&mut Reader<'_>) -> std::result::Result<T, Malformed>,
) -> Result<T> {
    let damaged = |e: Malformed| e.at(identity.file, 0);
    let (version, unknown) = identify(magic, identity.file, page).map_err(damaged)?;
    let newer = |found, known| Err(Error::NewerFormat { file: identity.file.to_string(), found, known });
    if version > VERSION {
        return newer(version.into(), VERSION.into());
    }
    if unknown != 0 {
        return newer(unknown, 0);
    }
    known(identity, page, fields).map_err(damaged)
}

/// The version, and the feature bits that forbid writing or reading, of a page with a right checksum.
fn identify(magic: &[u8; 8], file: FileId, page: &[u8]) -> std::result::Result<(u32, u64), Malformed> {
    let mut r = Reader::new(page);
    if r.u32()? != checksum(file, page) {
        return Err(Malformed::new(0, "the checksum of the file header does not match"));
    }
    if r.array()? != *magic {
        return r.fail("the file does not begin as its kind does");
    }
    let version = r.u32()?;
    if version == 0 {
        return r.fail("there is no format version 0");
    }
    let (_compatible, read_only, incompatible) = (r.u64()?, r.u64()?, r.u64()?);
    Ok((version, read_only | incompatible))
}

fn known<T>(
    identity: Identity,
    page: &[u8],
    fields: impl FnOnce(&mut Reader<'_>) -> std::result::Result<T, Malformed>,
) -> std::result::Result<T, Malformed> {
    let mut r = Reader::new(page);
    r.bytes(40)?;
    let (keyspace, number) = identity.numbers();
    if (r.u64()?, r.u32()?, r.u32()?, r.u64()?) != (identity.database, keyspace, number, identity.birth) {
        return r.fail("the file is another one than was named");
    }
    let found = fields(&mut r)?;
    if page.get(r.position()..PAGE).is_none_or(|rest| rest.iter().any(|&byte| byte != 0)) {
        return r.fail("reserved bytes are not zero");
    }
    Ok(found)
}

fn checksum(file: FileId, page: &[u8]) -> u32 {
    crc32c(crc32c(0, &file.identity().to_le_bytes()), page.get(4..PAGE).unwrap_or_default())
}
