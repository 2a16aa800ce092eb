//! A plain file of 64-bit little-endian numbers, read in place.

use std::{
    fs::File,
    io::{BufWriter, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use crate::error::{Context, Result};

/// Numbers in one window.
pub(crate) const WINDOW: usize = 8192;
/// Numbers in one read.
const PART: usize = 512;

/// The open file.
#[derive(Debug)]
pub(crate) struct U64File {
    file: File,
    path: PathBuf,
    count: u64,
}

impl U64File {
    /// Opens a file with at least one number.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        let file = File::open(&path).context("open", &path)?;
        let bytes = file.metadata().context("read", &path)?.len();
        if bytes % 8 != 0 || bytes == 0 {
            return Err(format!("{} has {bytes} bytes, which are not whole 64-bit numbers", path.display()).into());
        }
        Ok(U64File { file, path, count: bytes / 8 })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of numbers.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The number at `index`, below the count.
    pub(crate) fn get(&self, index: u64) -> Result<u64> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, index * 8).context("read", &self.path)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Fills `words` with the numbers from `first` on, all of which the file has.
    pub(crate) fn read(&self, first: u64, words: &mut [u64]) -> Result<()> {
        let mut bytes = [0; PART * 8];
        for (first, part) in (first..).step_by(PART).zip(words.chunks_mut(PART)) {
            let bytes = &mut bytes[..part.len() * 8];
            self.file.read_exact_at(bytes, first * 8).context("read", &self.path)?;
            part.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        }
        Ok(())
    }

    /// Passes all numbers to `visit`, window by window.
    pub(crate) fn scan(&self, mut visit: impl FnMut(&[u64]) -> Result<()>) -> Result<()> {
        let mut window = vec![0; WINDOW];
        for first in (0..self.count).step_by(WINDOW) {
            let words = &mut window[..(self.count - first).min(WINDOW as u64) as usize];
            self.read(first, words)?;
            visit(words)?;
        }
        Ok(())
    }
}

/// Writes such a file sequentially.
#[derive(Debug)]
pub(crate) struct Writer {
    file: BufWriter<File>,
    path: PathBuf,
}

impl Writer {
    /// Creates the file, replacing an old one.
    pub(crate) fn create(path: PathBuf) -> Result<Self> {
        let file = BufWriter::with_capacity(WINDOW * 8, File::create(&path).context("create", &path)?);
        Ok(Writer { file, path })
    }

    pub(crate) fn push(&mut self, word: u64) -> Result<()> {
        self.file.write_all(&word.to_le_bytes()).context("write", &self.path)
    }

    /// Finishes the file and opens it for reading.
    pub(crate) fn finish(mut self) -> Result<U64File> {
        self.file.flush().context("write", &self.path)?;
        U64File::open(self.path)
    }
}
