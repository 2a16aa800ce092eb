//! A file of keys as a stream.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use crate::error::{Context, Result};

/// Bytes that are read from the file at a time.
const WINDOW: usize = 64 << 10;

/// The content of a file of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// 64-bit little-endian numbers.
    Numbers,
    /// Differences of such numbers; they are summed modulo 2⁶⁴.
    Differences,
    /// Lines.
    Text,
}

/// An open file of keys.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    pub(crate) compressed: bool,
    reader: Box<dyn Read>,
    /// The last number of a file of differences.
    sum: u64,
    words: Vec<u64>,
}

impl Source {
    /// Opens a file; the name determines the format.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let plain = name.strip_suffix(".zst");
        let format = match plain.unwrap_or(name).rsplit_once('.') {
            Some((_, "u64")) => Format::Numbers,
            Some((_, "du64")) => Format::Differences,
            _ => Format::Text,
        };
        let file = BufReader::with_capacity(WINDOW, File::open(path).context("open", path)?);
        let reader: Box<dyn Read> = match plain {
            None => Box::new(file),
            Some(_) => Box::new(ruzstd::decoding::StreamingDecoder::new(file).context("decompress", path)?),
        };
        Ok(Source { path: path.to_owned(), format, compressed: plain.is_some(), reader, sum: 0, words: Vec::new() })
    }

    /// Fills `window` as far as the file goes and returns the number of bytes; 0 at the end.
    pub(crate) fn read(&mut self, window: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < window.len() {
            match self.reader.read(&mut window[filled..]).context("read", &self.path)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }

    /// The next numbers; `None` after the last. Differences are summed up.
    pub(crate) fn words(&mut self) -> Result<Option<&[u64]>> {
        let mut window = Self::window();
        let filled = self.read(&mut window)?;
        let (words, rest) = window[..filled].as_chunks();
        if !rest.is_empty() {
            return Err(format!("{} does not end with a whole 64-bit number", self.path.display()).into());
        }
        self.words.clear();
        self.words.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        if self.format == Format::Differences {
            for word in &mut self.words {
                self.sum = self.sum.wrapping_add(*word);
                *word = self.sum;
            }
        }
        Ok(Some(&self.words[..]).filter(|words| !words.is_empty()))
    }

    /// A buffer for [`read`](Self::read); its size is a multiple of eight.
    pub(crate) fn window() -> Vec<u8> {
        vec![0; WINDOW]
    }
}
