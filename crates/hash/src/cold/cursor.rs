//! A cursor over the records of a run in a range of hashes, which reads a window of blocks at a time.

use std::{
    cmp::Ordering,
    ops::{Range, RangeInclusive},
    sync::Arc,
};

use ecotone_substrate::{Result, codec::Malformed, storage};

use super::{block::Places, run::Run};

/// Hashes a key.
pub type HashOf<'h> = dyn Fn(&[u8]) -> u64 + 'h;

/// A position in a run.
#[derive(Debug)]
pub struct Cursor {
    run: Arc<Run>,
    hashes: RangeInclusive<u64>,
    window: storage::Block,
    /// Blocks that have not been read.
    left: Range<u32>,
    /// Blocks of the window that have not been processed, and where the first of them begins in the window.
    there: Range<u32>,
    at: usize,
    /// The current block's records in the hash range, by hash and positions in the window; and the number of the next
    /// one.
    records: Vec<(u64, Places)>,
    next: usize,
    /// Hash and key of the last record of the previous block.
    before: (u64, Vec<u8>),
}

impl Cursor {
    /// A cursor before the first record in the hash range. The window is the read-ahead buffer.
    pub fn new(run: Arc<Run>, hashes: RangeInclusive<u64>, window: storage::Block) -> Cursor {
        let left = run.blocks_of(&hashes);
        let (records, before) = (Vec::new(), (0, Vec::new()));
        Cursor { run, hashes, window, left, there: 0..0, at: 0, records, next: 0, before }
    }

    /// Moves to the next record. False after the last.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read.
    pub fn advance(&mut self, hash_of: &HashOf<'_>) -> Result<bool> {
        self.next += 1;
        while self.next > self.records.len() {
            if !self.next_block(hash_of)? {
                return Ok(false);
            }
            self.next = 1;
        }
        Ok(true)
    }

    /// Returns the window, for a cursor over another run.
    pub fn into_window(self) -> storage::Block {
        self.window
    }

    /// The hash of the current record.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.present().0
    }

    /// The key of the current record.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.window[self.present().1.key.clone()]
    }

    /// The value of the current record; `None` for a tombstone.
    #[inline]
    pub fn value(&self) -> Option<&[u8]> {
        self.present().1.value.clone().map(|place| &self.window[place])
    }

    fn present(&self) -> &(u64, Places) {
        &self.records[self.next - 1]
    }

    /// Moves to the next block, which may have no record in the hash range.
    fn next_block(&mut self, hash_of: &HashOf<'_>) -> Result<bool> {
        if let Some((hash, places)) = self.records.last() {
            self.before.0 = *hash;
            self.before.1.clear();
            self.before.1.extend_from_slice(&self.window[places.key.clone()]);
        }
        self.records.clear();
        if self.there.is_empty() && !self.read()? {
            return Ok(false);
        }
        let (block, at) = (self.there.start, self.at);
        self.there.start += 1;
        self.at += self.run.block_size();
        self.take(block, at, hash_of)?;
        Ok(true)
    }

    /// Reads as many blocks as fit into the window.
    fn read(&mut self) -> Result<bool> {
        let fit = (self.window.len() / self.run.block_size()) as u32;
        // The window begins at a page boundary; the first block may begin within that page.
        let first = self.run.extent(self.left.start).at / self.run.block_size();
        let end = self.left.end.min(self.left.start + fit - first as u32);
        self.there = self.left.start..end;
        self.left.start = end;
        if self.there.is_empty() {
            return Ok(false);
        }
        let extent = self.run.extent_of(self.there.clone());
        self.run.file().read(&mut self.window[..extent.len], extent.offset)?;
        self.at = extent.at;
        Ok(true)
    }

    /// Loads the records of a block and checks their order, since they may be written again.
    fn take(&mut self, block: u32, at: usize, hash_of: &HashOf<'_>) -> Result<()> {
        let parsed = self.run.parse_at(block, &self.window, at)?;
        let mut last: (u64, &[u8]) = (self.before.0, &self.before.1);
        let moved = |place: Range<usize>| place.start + at..place.end + at;
        for record in parsed.places() {
            let (entry, places) = record.map_err(|e| self.run.damaged(block, e))?;
            let hash = hash_of(entry.key);
            if !self.hashes.contains(&hash) {
                continue;
            }
            if last.cmp(&(hash, entry.key)) != Ordering::Less {
                return Err(self.run.damaged(block, Malformed::new(0, "the records of the run are out of order")));
            }
            last = (hash, entry.key);
            self.records.push((hash, Places { key: moved(places.key), value: places.value.map(moved) }));
        }
        Ok(())
    }
}
