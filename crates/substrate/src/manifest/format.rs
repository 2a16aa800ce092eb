//! The bytes of a manifest.

use std::collections::HashSet;

use ecotone_sys::checksum::crc32c;

use super::{INCOMPATIBLE, KeyspaceRecord, Manifest, check_features};
use crate::{
    Error, Result,
    codec::{Malformed, Reader, Writer},
    limits::{MAX_KEYSPACES, MAX_MANIFEST, MAX_NAME},
    storage::FileId,
};

type Parsed<T> = std::result::Result<T, Malformed>;

const MAGIC: [u8; 8] = *b"ECOTMAN\0";
/// Version 2 has two copies, and so a generation instead of the file's number. Version 3 has keyspaces without files.
const VERSION: u32 = 3;
/// The header, which all versions share: its checksum stands at the end.
const HEADER: usize = 60;
const CHECKSUM: usize = 4;
const LOGGED: u8 = 1;
const UNWRITTEN: u8 = 2;
const CLEAN: u8 = 1;
/// The segment number that means none.
const NO_SEGMENT: u32 = 0;

impl Manifest {
    /// The manifest as the bytes of the file `manifest.number`: checksums depend on the file, so that a copy under
    /// another name does not pass.
    pub fn encode(&self, number: u64) -> Vec<u8> {
        let body = self.body();
        let mut writer = Writer::new();
        writer.bytes(&MAGIC).u32(VERSION).u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
        writer
            .u64(self.compatible)
            .u64(self.read_compatible)
            .u64(self.incompatible)
            .u64(self.database)
            .u64(self.generation);
        let header = checksum(number, writer.as_slice());
        writer.u32(header).bytes(&body);
        let whole = checksum(number, writer.as_slice());
        writer.u32(whole);
        writer.finish()
    }

    fn body(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer
            .u64(self.incarnation)
            .u64(self.replay)
            .u64(self.synced)
            .u32(self.next_keyspace)
            .u32(self.segment.unwrap_or(NO_SEGMENT))
            .u8(if self.clean { CLEAN } else { 0 })
            .varint(self.keyspaces.len() as u64);
        for keyspace in &self.keyspaces {
            writer.u32(keyspace.id).u8(flags(keyspace)).u64(keyspace.watermark).u64(keyspace.structure_position);
            writer.prefixed(keyspace.name.as_bytes()).prefixed(keyspace.engine.as_bytes()).prefixed(&keyspace.blob);
        }
        writer.finish()
    }

    /// Decodes the bytes of the file `manifest.number`. Bytes behind the manifest are its reserve.
    ///
    /// # Errors
    /// `Corruption`, or `NewerFormat` for a whole header of a later version or with a feature that must be known.
    pub fn decode(bytes: &[u8], number: u64) -> Result<Self> {
        let file = FileId::Manifest(number);
        let mut reader = Reader::new(bytes);
        let (version, length, manifest) =
            header(&mut reader, bytes, number).map_err(|malformed| malformed.at(file, 0))?;
        if version > VERSION {
            return Err(Error::NewerFormat {
                file: file.to_string(),
                found: u64::from(version),
                known: u64::from(VERSION),
            });
        }
        check_features(manifest.incompatible, INCOMPATIBLE, file)?;
        let end = (HEADER + CHECKSUM).saturating_add(length as usize);
        body(bytes.get(..end).unwrap_or(bytes), (version, length), number, manifest)
            .map_err(|malformed| malformed.at(file, 0))
    }
}

fn flags(keyspace: &KeyspaceRecord) -> u8 {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    flag(keyspace.logged, LOGGED) | flag(keyspace.unwritten, UNWRITTEN)
}

fn checksum(number: u64, bytes: &[u8]) -> u32 {
    crc32c(crc32c(0, &FileId::Manifest(number).identity().to_le_bytes()), bytes)
}

/// The fields before the body. The checksum is verified before any other field is used.
fn header(reader: &mut Reader<'_>, bytes: &[u8], number: u64) -> Parsed<(u32, u32, Manifest)> {
    let magic = reader.bytes(MAGIC.len())?;
    let (version, length) = (reader.u32()?, reader.u32()?);
    let (compatible, read_compatible, incompatible) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let (database, generation) = (reader.u64()?, reader.u64()?);
    let sum = reader.u32()?;
    if magic != MAGIC || sum != checksum(number, bytes.get(..HEADER - CHECKSUM).unwrap_or_default()) {
        return Err(Malformed::new(0, "the header of the manifest is damaged"));
    }
    if version == 0 {
        return Err(Malformed::new(MAGIC.len(), "there is no format version 0"));
    }
    if generation > u64::MAX >> 2 {
        return Err(Malformed::new(0, "no manifest has such a generation"));
    }
    let manifest = Manifest { compatible, read_compatible, incompatible, generation, ..Manifest::new(database) };
    Ok((version, length, manifest))
}

fn body(bytes: &[u8], (version, length): (u32, u32), number: u64, header: Manifest) -> Parsed<Manifest> {
    let mut reader = Reader::new(bytes);
    reader.bytes(HEADER)?;
    let end = bytes.len().saturating_sub(CHECKSUM);
    let (sealed, sum) = bytes.split_at_checked(end).unwrap_or_default();
    if sealed.len() != HEADER.saturating_add(length as usize) || bytes.len() > MAX_MANIFEST {
        return reader.fail("the manifest has another length than it says");
    }
    if checksum(number, sealed).to_le_bytes() != *sum {
        return reader.fail("the checksum of the manifest is wrong");
    }
    let (incarnation, replay, synced) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let next_keyspace = reader.u32()?;
    let (segment, flags) = if version == 1 { (NO_SEGMENT, 0) } else { (reader.u32()?, reader.u8()?) };
    if flags & !CLEAN != 0 {
        return reader.fail("the manifest has unknown flags");
    }
    let segment = (segment != NO_SEGMENT).then_some(segment);
    let count = reader.varint()?;
    let mut manifest =
        Manifest { incarnation, replay, synced, segment, clean: flags == CLEAN, next_keyspace, ..header };
    if count > MAX_KEYSPACES as u64 {
        return reader.fail("the manifest has too many keyspaces");
    }
    for _ in 0..count {
        let keyspace = keyspace(&mut reader, version)?;
        manifest.keyspaces.push(keyspace);
    }
    check(&reader, &manifest)?;
    reader.bytes(CHECKSUM)?;
    reader.finish().map(|()| manifest)
}

fn keyspace(reader: &mut Reader<'_>, version: u32) -> Parsed<KeyspaceRecord> {
    let (id, flags, watermark, structure_position) = (reader.u32()?, reader.u8()?, reader.u64()?, reader.u64()?);
    let known = if version < 3 { LOGGED } else { LOGGED | UNWRITTEN };
    if flags & !known != 0 {
        return reader.fail("a keyspace has unknown flags");
    }
    let (name, engine) = (text(reader)?, text(reader)?);
    let blob = reader.prefixed(MAX_MANIFEST)?.to_vec();
    let (logged, unwritten) = (flags & LOGGED != 0, flags & UNWRITTEN != 0);
    Ok(KeyspaceRecord { id, name, engine, logged, unwritten, watermark, structure_position, blob })
}

fn text(reader: &mut Reader<'_>) -> Parsed<String> {
    let bytes = reader.prefixed(MAX_NAME)?;
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => reader.fail("a name is empty or not UTF-8"),
    }
}

fn check(reader: &Reader<'_>, manifest: &Manifest) -> Parsed<()> {
    let ids = || manifest.keyspaces.iter().map(|keyspace| keyspace.id);
    let ascending = ids().zip(ids().skip(1)).all(|(id, next)| id < next);
    if !ascending || ids().next_back().is_some_and(|last| last >= manifest.next_keyspace) {
        return reader.fail("the ids of the keyspaces are out of order");
    }
    let names: HashSet<_> = manifest.keyspaces.iter().map(|keyspace| &keyspace.name).collect();
    if names.len() < manifest.keyspaces.len() {
        return reader.fail("two keyspaces have one name");
    }
    Ok(())
}
