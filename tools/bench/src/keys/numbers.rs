//! Keys from a file of 64-bit numbers.

use std::{
    fs::File,
    io::{BufWriter, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::{
    source::{Format, Source},
    synthetic::{check_size, stretch},
};
use crate::error::{Context, Result};

/// Name of the unpacked copy.
const UNPACKED: &str = "keys.u64";

/// Numbers in a plain file: eight bytes each, read where they lie.
#[derive(Debug)]
pub(crate) struct Numbers {
    file: File,
    path: PathBuf,
    count: u64,
    key_size: usize,
}

impl Numbers {
    /// Unpacks a compressed or differential file into `directory`; a plain one is used where it is.
    pub(super) fn unpack(source: Source, directory: &Path, key_size: usize) -> Result<Self> {
        check_size(key_size)?;
        if key_size < 8 {
            return Err(format!("--key-size is {key_size}, and the numbers of {} have 8 bytes", source.path.display()).into());
        }
        let path = if source.compressed || source.format == Format::Differences { copy(source, directory)? } else { source.path };
        let file = File::open(&path).context("open", &path)?;
        let bytes = file.metadata().context("read", &path)?.len();
        if bytes % 8 != 0 || bytes == 0 {
            return Err(format!("{} has {bytes} bytes, which are not whole 64-bit numbers", path.display()).into());
        }
        Ok(Numbers { file, path, count: bytes / 8, key_size })
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn key_size(&self) -> usize {
        self.key_size
    }

    pub(super) fn write(&self, record: u64, buffer: &mut Vec<u8>) -> Result<()> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, record * 8).context("read", &self.path)?;
        stretch(u64::from_le_bytes(word), self.key_size, buffer);
        Ok(())
    }
}

fn copy(mut source: Source, directory: &Path) -> Result<PathBuf> {
    let path = directory.join(UNPACKED);
    let mut target = BufWriter::new(File::create(&path).context("create", &path)?);
    let (mut window, mut sum) = (Source::window(), 0u64);
    loop {
        let filled = source.read(&mut window)?;
        if source.format == Format::Differences {
            for word in window[..filled].as_chunks_mut::<8>().0 {
                sum = sum.wrapping_add(u64::from_le_bytes(*word));
                *word = sum.to_le_bytes();
            }
        }
        target.write_all(&window[..filled]).context("write", &path)?;
        if filled < window.len() {
            break;
        }
    }
    target.flush().context("write", &path)?;
    Ok(path)
}
