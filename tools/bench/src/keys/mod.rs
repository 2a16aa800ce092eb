//! The key of each record.

mod numbers;
mod source;
mod strings;
mod synthetic;
#[cfg(test)]
mod tests;

use std::path::Path;

pub(crate) use self::synthetic::Synthetic;
use self::{
    numbers::Numbers,
    source::{Format, Source},
    strings::Strings,
};
use crate::error::Result;

/// Where keys come from. Shared by all threads; a key is found by the number of its record.
#[derive(Debug)]
pub(crate) enum Keys {
    /// Made from the record's number.
    Synthetic(Synthetic),
    /// 64-bit numbers of a file.
    Numbers(Numbers),
    /// Lines of a file.
    Strings(Strings),
}

impl Keys {
    /// Reads a file window by window and leaves what is needed to find a key by its number in `directory`. The kind of the file follows from its
    /// name: `.u64`, `.u64.zst`, `.du64`, `.du64.zst`, anything else is lines of text, compressed if it ends in `.zst`. Numbers give keys
    /// of `key_size` bytes, 8 if it is not given; text gives its own lengths.
    pub(crate) fn open(file: &Path, directory: &Path, key_size: Option<usize>) -> Result<Keys> {
        let source = Source::open(file)?;
        match (source.format, key_size) {
            (Format::Text, None) => Ok(Keys::Strings(Strings::unpack(source, directory)?)),
            (Format::Text, Some(_)) => Err("--key-size has no meaning with a file of strings; leave it out".into()),
            (_, size) => Ok(Keys::Numbers(Numbers::unpack(source, directory, size.unwrap_or(8))?)),
        }
    }

    /// How many records can have a key.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Keys::Synthetic(keys) => keys.count(),
            Keys::Numbers(keys) => keys.count(),
            Keys::Strings(keys) => keys.count(),
        }
    }

    /// Whether a key is made without looking at a file.
    pub(crate) fn are_computed(&self) -> bool {
        matches!(self, Keys::Synthetic(_))
    }

    /// Puts the key of a record, which is below [`count`](Self::count), into `buffer`.
    pub(crate) fn write(&self, record: u64, buffer: &mut Vec<u8>) -> Result<()> {
        match self {
            Keys::Synthetic(keys) => {
                keys.write(record, buffer);
                Ok(())
            }
            Keys::Numbers(keys) => keys.write(record, buffer),
            Keys::Strings(keys) => keys.write(record, buffer),
        }
    }

    /// The mean length of a key in bytes.
    pub(crate) fn mean_bytes(&self) -> f64 {
        match self {
            Keys::Synthetic(keys) => keys.key_size() as f64,
            Keys::Numbers(keys) => keys.key_size() as f64,
            Keys::Strings(keys) => keys.mean_bytes(),
        }
    }
}
