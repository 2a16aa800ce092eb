//! Encodings shared by the root and structure edits (`docs/format/hash.md`).

use ecotone_substrate::codec::{Malformed, Reader, Writer};

use super::{FileRef, LogFile, MAX_INDEX_BITS, PartitionEntry};
use crate::{
    cold::HashRange,
    log::{Address, PAGE},
};

pub(crate) fn push_segment(w: &mut Writer, segment: LogFile) {
    FileRef::encode(Some(segment.file), w);
    w.u64(segment.from.get()).u64(segment.bytes);
}

pub(crate) fn push_part(w: &mut Writer, part: PartitionEntry) {
    w.u8(part.hash_range.bits()).u8(part.hash_range.number());
    FileRef::encode(part.base, w);
}

pub(crate) fn segment(r: &mut Reader<'_>) -> Result<LogFile, Malformed> {
    Ok(LogFile { file: FileRef::decode_some(r)?, from: address(r)?, bytes: r.u64()? })
}

pub(crate) fn part(r: &mut Reader<'_>) -> Result<PartitionEntry, Malformed> {
    match HashRange::new(r.u8()?, r.u8()?) {
        Some(hash_range) => Ok(PartitionEntry { hash_range, base: FileRef::decode(r)? }),
        None => r.fail("there is no such partition"),
    }
}

/// A page boundary.
pub(crate) fn address(r: &mut Reader<'_>) -> Result<Address, Malformed> {
    match r.u64()? {
        bytes if bytes.is_multiple_of(PAGE) => Ok(Address::new(bytes)),
        _ => r.fail("an address is not that of a page"),
    }
}

pub(crate) fn index_bits(r: &mut Reader<'_>) -> Result<u8, Malformed> {
    match r.u8()? {
        bits if bits <= MAX_INDEX_BITS => Ok(bits),
        _ => r.fail("a hash has not so many bits"),
    }
}
