//! An external sort of outlines by lower fence. Outlines stay in memory while they fit; otherwise they are written to
//! scratch files as sorted runs, which are merged.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use ecotone_engine::repair::SalvageSource;
use ecotone_substrate::{
    Result,
    codec::Writer,
    memory::{Component, Memory},
    storage::{Access, Block, File, FileId, Storage},
};
use ecotone_sys::chunk::Size;

use super::outline::{Outline, lower_of};

/// Outlines may take the memory budget divided by this before they are written to disk.
const PART: usize = 8;
/// Bytes of the length before each outline in a run.
const LENGTH: usize = 2;

/// Collects outlines.
#[derive(Debug)]
pub(super) struct Sorter {
    memory: Arc<Memory>,
    scratch: Arc<dyn Storage>,
    /// Blocks that may be filled before a run is written.
    most: usize,
    batch: Batch,
    runs: Vec<Run>,
}

/// Outlines in memory.
#[derive(Debug, Default)]
struct Batch {
    blocks: Vec<Block>,
    /// Bytes used of the last block.
    used: usize,
    /// Block, offset and length of each outline.
    entries: Vec<(u32, u16, u16)>,
}

impl Batch {
    fn get(&self, entry: (u32, u16, u16)) -> &[u8] {
        let (block, offset, length) = entry;
        let (block, offset) = (self.blocks.get(block as usize), usize::from(offset));
        block.and_then(|block| block.get(offset..offset + usize::from(length))).unwrap_or_default()
    }

    /// Whether `length` more bytes fit into the last block.
    fn fits(&self, length: usize) -> bool {
        self.blocks.last().is_some_and(|block| self.used + length < block.len())
    }

    fn push(&mut self, bytes: &[u8]) {
        let block = self.blocks.len() - 1;
        self.blocks[block][self.used..][..bytes.len()].copy_from_slice(bytes);
        self.entries.push((block as u32, self.used as u16, bytes.len() as u16));
        self.used += bytes.len();
    }

    /// The entries, sorted.
    fn sorted(&mut self) -> Vec<(u32, u16, u16)> {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_by(|a, b| lower_of(self.get(*a)).cmp(lower_of(self.get(*b))));
        entries
    }
}

impl Sorter {
    pub(super) fn new(source: &SalvageSource) -> Self {
        let SalvageSource { memory, scratch, .. } = source.clone();
        let most = (memory.budget() / PART / Size::Slab.bytes()).max(2);
        Sorter { memory, scratch, most, batch: Batch::default(), runs: Vec::new() }
    }

    pub(super) fn push(&mut self, outline: &Outline) -> Result<()> {
        let mut writer = Writer::new();
        outline.encode(&mut writer);
        if !self.batch.fits(writer.len()) {
            self.grow()?;
        }
        self.batch.push(writer.as_slice());
        Ok(())
    }

    /// Adds a block. Writes the outlines in memory to disk first if there is no memory for another block.
    fn grow(&mut self) -> Result<()> {
        let mut block = None;
        if self.batch.blocks.len() < self.most {
            block = self.memory.lease(Component::Other, Size::Slab);
        }
        if block.is_none() && !self.batch.blocks.is_empty() {
            self.write_run()?;
        }
        let block = block.map_or_else(|| self.memory.lease_essential(Component::Other, Size::Slab), Ok)?;
        self.batch.blocks.push(block);
        self.batch.used = 0;
        Ok(())
    }

    /// Writes the outlines in memory to disk as a run.
    fn write_run(&mut self) -> Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        let id = FileId::Scratch(self.runs.len() as u32);
        let file = self.scratch.create(id, Access::Cached)?;
        let (mut length, mut piece) = (0, Vec::with_capacity(Size::Slab.bytes()));
        for entry in batch.sorted() {
            let bytes = batch.get(entry);
            piece.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            piece.extend_from_slice(bytes);
            if piece.len() > Size::Slab.bytes() / 2 {
                append(&*file, &mut length, &mut piece)?;
            }
        }
        append(&*file, &mut length, &mut piece)?;
        self.runs.push(Run::File { file, offset: 0, length, window: None });
        Ok(())
    }

    /// Ends the input, and returns all outlines in order.
    pub(super) fn finish(mut self) -> Result<Sorted> {
        let files = self.runs.len() as u32;
        let entries = self.batch.sorted().into_iter();
        self.runs.push(Run::Memory { batch: self.batch, entries });
        let mut sorted =
            Sorted { memory: self.memory, scratch: self.scratch, files, runs: self.runs, heads: BinaryHeap::new() };
        (0..sorted.runs.len()).try_for_each(|run| sorted.advance(run))?;
        Ok(sorted)
    }
}

fn append(file: &dyn File, length: &mut u64, piece: &mut Vec<u8>) -> Result<()> {
    file.preallocate(*length, piece.len() as u64)?;
    file.write(piece, *length)?;
    *length += piece.len() as u64;
    piece.clear();
    Ok(())
}

/// A sorted run of outlines.
#[derive(Debug)]
enum Run {
    Memory {
        batch: Batch,
        entries: std::vec::IntoIter<(u32, u16, u16)>,
    },
    File {
        file: Arc<dyn File>,
        /// Offset of the next outline.
        offset: u64,
        length: u64,
        /// A buffered part of the file: its offset, its length, and its bytes.
        window: Option<(u64, usize, Block)>,
    },
}

impl Run {
    /// The next outline, encoded.
    fn next(&mut self, memory: &Memory) -> Result<Option<Vec<u8>>> {
        match self {
            Run::Memory { batch, entries } => Ok(entries.next().map(|entry| batch.get(entry).to_vec())),
            Run::File { file, offset, length, window } => {
                if *offset >= *length {
                    *window = None;
                    return Ok(None);
                }
                let head = bytes_at(&**file, *length, window, *offset, LENGTH, memory)?;
                let size = usize::from(u16::from_le_bytes([head[0], head[1]]));
                let bytes = bytes_at(&**file, *length, window, *offset + LENGTH as u64, size, memory)?.to_vec();
                *offset += (LENGTH + size) as u64;
                Ok(Some(bytes))
            }
        }
    }
}

/// `size` bytes of a run at `offset`, through its window.
fn bytes_at<'a>(
    file: &dyn File,
    length: u64,
    window: &'a mut Option<(u64, usize, Block)>,
    offset: u64,
    size: usize,
    memory: &Memory,
) -> Result<&'a [u8]> {
    let end = offset + size as u64;
    let short = |what| ecotone_substrate::Error::corruption(file.id(), offset, what);
    if !window.as_ref().is_some_and(|(start, held, _)| *start <= offset && end <= *start + *held as u64) {
        let mut block = match window.take() {
            Some((_, _, block)) => block,
            None => memory.lease_essential(Component::Other, Size::Slab)?,
        };
        let held = usize::try_from(length - offset.min(length)).unwrap_or(usize::MAX).min(block.len());
        file.read(&mut block[..held], offset)?;
        *window = Some((offset, held, block));
    }
    let (start, held, block) = window.as_ref().expect("it was just filled");
    let from = (offset - start) as usize;
    block[..*held].get(from..from + size).ok_or_else(|| short("a run of outlines ends early"))
}

/// The next outline of a run: its lower fence, the run, its bytes.
type Head = (Vec<u8>, usize, Vec<u8>);

/// All outlines in order of their lower fences.
#[derive(Debug)]
pub(super) struct Sorted {
    memory: Arc<Memory>,
    scratch: Arc<dyn Storage>,
    /// Scratch files.
    files: u32,
    runs: Vec<Run>,
    /// The next outline of each run: lower fence, run, and the outline encoded.
    heads: BinaryHeap<Reverse<Head>>,
}

impl Sorted {
    fn advance(&mut self, run: usize) -> Result<()> {
        if let Some(bytes) = self.runs[run].next(&self.memory)? {
            self.heads.push(Reverse((lower_of(&bytes).to_vec(), run, bytes)));
        }
        Ok(())
    }

    /// The lower fence of the next outline.
    pub(super) fn peek(&self) -> Option<&[u8]> {
        self.heads.peek().map(|Reverse((lower, ..))| lower.as_slice())
    }

    pub(super) fn next(&mut self) -> Result<Option<Outline>> {
        let Some(Reverse((_, run, bytes))) = self.heads.pop() else { return Ok(None) };
        self.advance(run)?;
        Outline::decode(&bytes).map(Some).map_err(|malformed| malformed.at("a scratch file", 0))
    }
}

impl Drop for Sorted {
    fn drop(&mut self) {
        self.runs.clear();
        // A file that stays is removed when the database is opened.
        (0..self.files).for_each(|number| _ = self.scratch.remove(FileId::Scratch(number)));
    }
}
