//! A file as roots and structural records name it.

use super::Name;
use crate::{
    codec::{Malformed, Reader, Writer},
    limits::MAX_TABLES,
};

/// A file of a keyspace, by a number that may have been another's before, and a birth that was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct File {
    /// Its number, which is not 0.
    pub number: u32,
    /// Its birth.
    pub birth: u64,
}

impl From<Name> for File {
    fn from(Name { number, birth, .. }: Name) -> File {
        File { number, birth }
    }
}

impl File {
    /// Appends a file, or that there is none.
    pub fn encode(file: Option<File>, w: &mut Writer) {
        match file {
            Some(File { number, birth }) => w.varint(number.into()).varint(birth),
            None => w.varint(0),
        };
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn decode(r: &mut Reader<'_>) -> Result<Option<File>, Malformed> {
        let number = r.varint()?;
        match u32::try_from(number).ok().filter(|number| *number < MAX_TABLES) {
            Some(0) => Ok(None),
            Some(number) => Ok(Some(File { number, birth: r.varint()? })),
            None => r.fail("a file has a number that none has"),
        }
    }

    /// The same where there must be one.
    ///
    /// # Errors
    /// If there is none.
    pub fn decode_some(r: &mut Reader<'_>) -> Result<File, Malformed> {
        match File::decode(r)? {
            Some(file) => Ok(file),
            None => r.fail("a file is wanting"),
        }
    }
}
