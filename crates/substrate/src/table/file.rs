//! The reference to a file in checkpoints and structural records.

use super::FileIdentity;
use crate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_TABLES,
};

/// A file of a keyspace. The number may be reused, the birth is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileRef {
    /// The number, which is not 0.
    pub number: u32,
    /// Its birth.
    pub birth: u64,
}

impl From<FileIdentity> for FileRef {
    fn from(FileIdentity { number, birth, .. }: FileIdentity) -> FileRef {
        FileRef { number, birth }
    }
}

impl FileRef {
    /// Appends a reference, or none.
    pub fn encode(file: Option<FileRef>, w: &mut Writer) {
        match file {
            Some(FileRef { number, birth }) => w.varint(number.into()).varint(birth),
            None => w.varint(0),
        };
    }

    /// Decodes the bytes that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If no such file is possible.
    pub fn decode(r: &mut Reader<'_>) -> Result<Option<FileRef>, Malformed> {
        let number = r.varint()?;
        match u32::try_from(number).ok().filter(|number| *number < MAX_TABLES) {
            Some(0) => Ok(None),
            Some(number) => Ok(Some(FileRef { number, birth: r.varint()? })),
            None => r.fail("a file has a number that none has"),
        }
    }

    /// Like [`decode`](Self::decode), but there must be a file.
    ///
    /// # Errors
    /// If there is none.
    pub fn decode_some(r: &mut Reader<'_>) -> Result<FileRef, Malformed> {
        match FileRef::decode(r)? {
            Some(file) => Ok(file),
            None => r.fail("a file is wanting"),
        }
    }
}
