//! What root and structural records are made of (`docs/format/hash.md`).

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_TABLES,
};

use super::{File, LogFile, MAX_INDEX_BITS, Part};
use crate::hash::{
    cold::Stretch,
    log::{Address, PAGE},
};

pub(in crate::hash) fn push_file(w: &mut Writer, file: Option<File>) {
    match file {
        Some(File { number, birth }) => w.varint(number.into()).varint(birth),
        None => w.varint(0),
    };
}

pub(in crate::hash) fn push_segment(w: &mut Writer, segment: LogFile) {
    push_file(w, Some(segment.file));
    w.u64(segment.from.get()).u64(segment.bytes);
}

pub(in crate::hash) fn push_part(w: &mut Writer, part: Part) {
    w.u8(part.stretch.bits()).u8(part.stretch.number());
    push_file(w, part.base);
}

/// Some things, of which there are `most` at most.
pub(in crate::hash) fn list<T>(
    r: &mut Reader<'_>,
    most: usize,
    one: impl Fn(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = r.varint()?;
    if count > most as u64 {
        return r.fail("there are more than can be");
    }
    (0..count).map(|_| one(r)).collect()
}

/// A file, or none.
pub(in crate::hash) fn file(r: &mut Reader<'_>) -> Result<Option<File>, Malformed> {
    let number = r.varint()?;
    match u32::try_from(number).ok().filter(|number| *number < MAX_TABLES) {
        Some(0) => Ok(None),
        Some(number) => Ok(Some(File { number, birth: r.varint()? })),
        None => r.fail("a file has a number that none has"),
    }
}

pub(in crate::hash) fn some_file(r: &mut Reader<'_>) -> Result<File, Malformed> {
    match file(r)? {
        Some(file) => Ok(file),
        None => r.fail("a file is wanting"),
    }
}

pub(in crate::hash) fn segment(r: &mut Reader<'_>) -> Result<LogFile, Malformed> {
    Ok(LogFile { file: some_file(r)?, from: address(r)?, bytes: r.u64()? })
}

pub(in crate::hash) fn part(r: &mut Reader<'_>) -> Result<Part, Malformed> {
    match Stretch::new(r.u8()?, r.u8()?) {
        Some(stretch) => Ok(Part { stretch, base: file(r)? }),
        None => r.fail("there is no such partition"),
    }
}

/// A page boundary.
pub(in crate::hash) fn address(r: &mut Reader<'_>) -> Result<Address, Malformed> {
    match r.u64()? {
        bytes if bytes.is_multiple_of(PAGE) => Ok(Address::new(bytes)),
        _ => r.fail("an address is not that of a page"),
    }
}

pub(in crate::hash) fn index_bits(r: &mut Reader<'_>) -> Result<u8, Malformed> {
    match r.u8()? {
        bits if bits <= MAX_INDEX_BITS => Ok(bits),
        _ => r.fail("a hash has not so many bits"),
    }
}
