//! Keys from a file of 64-bit numbers.

use std::path::Path;

use super::{
    source::{Format, Source},
    synthetic::{check_size, stretch},
    words::{U64File, Writer},
};
use crate::error::Result;

/// Name of the unpacked copy.
const UNPACKED: &str = "keys.u64";

/// The numbers of a plain file.
#[derive(Debug)]
pub(crate) struct Numbers {
    words: U64File,
    key_size: usize,
}

impl Numbers {
    /// Keys of `key_size` bytes.
    pub(super) fn new(words: U64File, key_size: usize) -> Result<Self> {
        check_size(key_size)?;
        if key_size < 8 {
            return Err(format!(
                "--key-size is {key_size}, and the numbers of {} have 8 bytes",
                words.path().display()
            )
            .into());
        }
        Ok(Numbers { words, key_size })
    }

    pub(super) fn count(&self) -> u64 {
        self.words.count()
    }

    pub(super) fn key_size(&self) -> usize {
        self.key_size
    }

    pub(super) fn write(&self, record: u64, buffer: &mut Vec<u8>) -> Result<()> {
        stretch(self.words.get(record)?, self.key_size, buffer);
        Ok(())
    }
}

/// Unpacks a compressed or differential file into `directory`; a plain file is used in place.
pub(super) fn unpack(mut source: Source, directory: &Path) -> Result<U64File> {
    if !source.compressed && source.format == Format::Numbers {
        return U64File::open(source.path);
    }
    let mut copy = Writer::create(directory.join(UNPACKED))?;
    while let Some(words) = source.words()? {
        words.iter().try_for_each(|word| copy.push(*word))?;
    }
    copy.finish()
}
