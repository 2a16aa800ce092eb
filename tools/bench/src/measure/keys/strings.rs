//! Keys from a file of lines.

use std::{
    fs::File,
    io::{BufWriter, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::source::Source;
use crate::error::{Context, Result};

/// Name of the unpacked text.
const UNPACKED: &str = "keys.text";
/// Name of the file of offsets: the start of each line, eight bytes each, and the end of the last.
const OFFSETS: &str = "keys.offsets";

/// Lines of a plain file and their start offsets.
#[derive(Debug)]
pub(crate) struct Strings {
    text: File,
    offsets: File,
    path: PathBuf,
    count: u64,
    bytes: u64,
}

impl Strings {
    /// Unpacks a compressed file into `directory` (a plain file is used in place) and stores the offsets of its lines.
    pub(super) fn unpack(mut source: Source, directory: &Path) -> Result<Self> {
        let offsets = directory.join(OFFSETS);
        let path = if source.compressed { directory.join(UNPACKED) } else { source.path.clone() };
        let mut copy = source.compressed.then(|| File::create(&path).context("create", &path)).transpose()?;
        let name = source.path.clone();
        let mut lines = Lines::new(&name, &offsets)?;
        let mut window = Source::window();
        loop {
            let filled = source.read(&mut window)?;
            lines.take(&window[..filled])?;
            if let Some(copy) = &mut copy {
                copy.write_all(&window[..filled]).context("write", &path)?;
            }
            if filled < window.len() {
                break;
            }
        }
        let (count, bytes) = lines.finish()?;
        let open = |path: &Path| File::open(path).context("open", path);
        Ok(Strings { text: open(&path)?, offsets: open(&offsets)?, path, count, bytes })
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.count as f64
    }

    pub(super) fn write(&self, record: u64, buffer: &mut Vec<u8>) -> Result<()> {
        let mut bounds = [0; 16];
        self.offsets.read_exact_at(&mut bounds, record * 8).context("read", Path::new(OFFSETS))?;
        let (words, _) = bounds.as_chunks::<8>();
        let (start, next) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
        // Lines were checked to be short when their offsets were written.
        buffer.resize((next - start - 1) as usize, 0);
        self.text.read_exact_at(buffer, start).context("read", &self.path)
    }
}

/// Finds the starts of lines.
struct Lines<'a> {
    source: &'a Path,
    path: &'a Path,
    offsets: BufWriter<File>,
    count: u64,
    position: u64,
    start: u64,
}

impl<'a> Lines<'a> {
    fn new(source: &'a Path, path: &'a Path) -> Result<Self> {
        let offsets = BufWriter::new(File::create(path).context("create", path)?);
        Ok(Lines { source, path, offsets, count: 0, position: 0, start: 0 })
    }

    fn take(&mut self, window: &[u8]) -> Result<()> {
        for byte in window {
            if *byte == b'\n' {
                self.end_line()?;
            }
            self.position += 1;
        }
        Ok(())
    }

    /// Ends the line from `start`, just before `position`.
    fn end_line(&mut self) -> Result<()> {
        self.count += 1;
        let (length, limit) = (self.position - self.start, ecotone::limits::MAX_KEY as u64);
        if !(1..=limit).contains(&length) {
            let (file, line) = (self.source.display(), self.count);
            return Err(format!("line {line} of {file} has {length} bytes, and keys have 1 to {limit}").into());
        }
        self.offsets.write_all(&self.start.to_le_bytes()).context("write", self.path)?;
        self.start = self.position + 1;
        Ok(())
    }

    /// Returns the number of lines and their bytes without line ends.
    fn finish(mut self) -> Result<(u64, u64)> {
        if self.position > self.start {
            self.end_line()?;
        }
        if self.count == 0 {
            return Err(format!("{} has no lines", self.source.display()).into());
        }
        self.offsets.write_all(&self.start.to_le_bytes()).context("write", self.path)?;
        self.offsets.flush().context("write", self.path)?;
        Ok((self.count, self.start - self.count))
    }
}
