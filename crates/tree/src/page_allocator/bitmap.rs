//! A bitmap of the used pages of a file, one bit a page. A tree above the bits finds a free run in a few dozen node
//! visits.

#[cfg(test)]
mod tests;

use std::ops::Range;

/// Pages of one block, a word of the bitmap. No run crosses from one block into the next.
pub(super) const BLOCK: u32 = u64::BITS;
/// Longest run that can be requested, in pages.
pub(super) const MAX_RUN: u32 = 16;
/// Pages of one *piece*, the unit that is taken out of use and put into use again.
pub(super) const PIECE: u32 = 4;
/// Pieces of one block.
const PIECES: u32 = BLOCK / PIECE;
/// Children of one node of the tree.
const FAN: usize = 16;

/// A bit for every page: set if it is used. Bits beyond the last page are set, so that a search needs no bounds.
#[derive(Debug, Default)]
pub(super) struct Bitmap {
    blocks: Vec<u64>,
    /// The tree, the level just above the blocks first, one node in the last. Bit *n* of a node says that a block below
    /// it has a longest free run of *n* pages; longer ones count as [`MAX_RUN`].
    levels: Vec<Vec<u32>>,
    /// Blocks that may have changed since the tree was updated.
    stale: Option<Range<usize>>,
    total: u32,
    free: u32,
    /// Blocks and nodes that were visited.
    #[cfg(test)]
    looks: usize,
}

impl Bitmap {
    /// Pages in all.
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Pages that are not used.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let nodes: usize = self.levels.iter().map(Vec::capacity).sum();
        self.blocks.capacity() * size_of::<u64>() + nodes * size_of::<u32>()
    }

    /// Grows to `total` pages. The new pages are free.
    pub(super) fn grow(&mut self, total: u32) {
        let first = (self.total / BLOCK) as usize;
        self.blocks.resize(total.div_ceil(BLOCK) as usize, u64::MAX);
        for (block, bits) in self.blocks.iter_mut().enumerate().skip(first) {
            let start = block as u32 * BLOCK;
            *bits &= !(below(total - start) & !below(self.total.saturating_sub(start)));
        }
        self.free += total - self.total;
        self.total = total;
        let mut nodes = self.blocks.len();
        for level in 0.. {
            nodes = nodes.div_ceil(FAN);
            if level == self.levels.len() {
                // Blocks below a new root may be older than the root.
                self.levels.push(Vec::new());
                self.touch(0..self.blocks.len());
            }
            self.levels[level].resize(nodes, 0);
            if nodes <= 1 {
                break;
            }
        }
        self.touch(first..self.blocks.len());
    }

    /// Whether `page` is used. A page beyond the end counts as used.
    pub(super) fn is_used(&self, page: u32) -> bool {
        self.blocks.get((page / BLOCK) as usize).is_none_or(|bits| bits & bit(page) != 0)
    }

    /// Marks a free page as used; false if it is used or beyond the end.
    pub(super) fn take(&mut self, page: u32) -> bool {
        let free = !self.is_used(page);
        if free {
            let block = (page / BLOCK) as usize;
            self.blocks[block] |= bit(page);
            self.free -= 1;
            // A whole index is loaded this way, so the tree is updated only when the next run is searched.
            self.touch(block..block + 1);
        }
        free
    }

    /// Marks a used page as free; false if it is free or beyond the end.
    pub(super) fn give(&mut self, page: u32) -> bool {
        let used = page < self.total && self.is_used(page);
        if used {
            let block = (page / BLOCK) as usize;
            self.blocks[block] &= !bit(page);
            self.free += 1;
            self.refresh(block);
        }
        used
    }

    /// Takes `length` neighbouring pages, at most [`MAX_RUN`], and returns the first. Chooses the lowest block with a
    /// free run of this length, and there the shortest such run, so that low blocks fill up, small gaps included, and
    /// high blocks become free.
    pub(super) fn take_run(&mut self, length: u32) -> Option<u32> {
        self.catch_up();
        let block = self.find(length)?;
        let at = fit(!self.blocks[block], length)?;
        self.blocks[block] |= below(length) << at;
        self.free -= length;
        self.refresh(block);
        Some(block as u32 * BLOCK + at)
    }

    /// The lowest block with a free run of at least `length` pages.
    fn find(&mut self, length: u32) -> Option<usize> {
        let suffice = u32::MAX << length;
        let mut node = 0;
        for level in (0..self.levels.len()).rev() {
            let mut candidates =
                if level + 1 == self.levels.len() { 0..1 } else { children(node, self.levels[level].len()) };
            node = candidates.find(|child| self.levels[level][*child] & suffice != 0)?;
            self.look(node % FAN + 1);
        }
        let block = children(node, self.blocks.len()).find(|block| kind(self.blocks[*block]) & suffice != 0)?;
        self.look(block % FAN + 1);
        Some(block)
    }

    /// The highest wholly free neighbouring pieces below piece `below`, at most `most`.
    pub(super) fn highest_free(&mut self, below: u32, most: u32) -> Option<Range<u32>> {
        self.catch_up();
        let mut end = (self.blocks.len() as u32 * PIECES).min(below);
        while !self.is_piece_free(end.checked_sub(1)?) {
            let node = ((end - 1) / PIECES) as usize / FAN;
            let hopeless = self.levels.first()?.get(node)? & (u32::MAX << PIECE) == 0;
            end = if hopeless { (node * FAN) as u32 * PIECES } else { end - 1 };
        }
        let free = (0..end).rev().take(most as usize).take_while(|piece| self.is_piece_free(*piece)).count() as u32;
        Some(end - free..end)
    }

    fn is_piece_free(&self, piece: u32) -> bool {
        self.blocks[(piece / PIECES) as usize] & bits_of(piece) == 0
    }

    /// Takes pieces out of use.
    ///
    /// # Panics
    /// If a piece is not wholly free.
    pub(super) fn close(&mut self, pieces: Range<u32>) {
        self.free -= pieces.len() as u32 * PIECE;
        for piece in pieces {
            assert!(self.is_piece_free(piece), "piece {piece}");
            self.blocks[(piece / PIECES) as usize] |= bits_of(piece);
            self.refresh((piece / PIECES) as usize);
        }
    }

    /// Puts [closed](Self::close) pieces into use again, wholly free.
    pub(super) fn open(&mut self, pieces: Range<u32>) {
        self.free += pieces.len() as u32 * PIECE;
        for piece in pieces {
            let bits = &mut self.blocks[(piece / PIECES) as usize];
            assert_eq!(*bits & bits_of(piece), bits_of(piece), "piece {piece}");
            *bits &= !bits_of(piece);
            self.refresh((piece / PIECES) as usize);
        }
    }

    /// Updates the tree after a change of one block.
    fn refresh(&mut self, block: usize) {
        let mut node = block;
        for level in 0..self.levels.len() {
            node /= FAN;
            let now = self.node(level, node);
            // The levels above do not change either.
            if std::mem::replace(&mut self.levels[level][node], now) == now {
                return;
            }
        }
    }

    fn touch(&mut self, blocks: Range<usize>) {
        let before = self.stale.take().unwrap_or(blocks.clone());
        self.stale = Some(before.start.min(blocks.start)..before.end.max(blocks.end));
    }

    /// Updates the tree after all changes that were only noted.
    fn catch_up(&mut self) {
        let Some(mut nodes) = self.stale.take() else { return };
        for level in 0..self.levels.len() {
            nodes = nodes.start / FAN..nodes.end.div_ceil(FAN);
            for node in nodes.clone() {
                self.levels[level][node] = self.node(level, node);
            }
        }
    }

    /// Computes a node from the level below it.
    fn node(&mut self, level: usize, node: usize) -> u32 {
        self.look(FAN);
        match level.checked_sub(1) {
            None => children(node, self.blocks.len()).fold(0, |all, block| all | kind(self.blocks[block])),
            Some(below) => {
                children(node, self.levels[below].len()).fold(0, |all, child| all | self.levels[below][child])
            }
        }
    }

    #[cfg(test)]
    fn look(&mut self, count: usize) {
        self.looks += count;
    }

    #[cfg(not(test))]
    fn look(&self, _count: usize) {}
}

/// The children of a node, of `all` nodes or blocks on the level below.
fn children(node: usize, all: usize) -> Range<usize> {
    node * FAN..((node + 1) * FAN).min(all)
}

/// A block's longest free run, as a bit of a node.
fn kind(bits: u64) -> u32 {
    let (mut runs, mut longest) = (!bits, 0);
    while runs != 0 && longest < MAX_RUN {
        // A bit stays set if the next page is free too, so each step shortens every run by one.
        runs &= runs >> 1;
        longest += 1;
    }
    1 << longest
}

/// The first bit of the shortest run of at least `length` set bits.
fn fit(free: u64, length: u32) -> Option<u32> {
    let (mut rest, mut at, mut best) = (free, 0, None);
    while rest != 0 {
        let gap = rest.trailing_zeros();
        let run = (rest >> gap).trailing_ones();
        at += gap;
        if run >= length && best.is_none_or(|(shortest, _)| run < shortest) {
            best = Some((run, at));
        }
        at += run;
        rest = free & !below(at);
        rest = if at < BLOCK { rest >> at } else { 0 };
    }
    best.map(|(_, at)| at)
}

/// The bits of a piece in its block.
fn bits_of(piece: u32) -> u64 {
    below(PIECE) << (piece % PIECES * PIECE)
}

fn bit(page: u32) -> u64 {
    1 << (page % BLOCK)
}

/// The first `count` bits; all of them for 64 and more.
fn below(count: u32) -> u64 {
    1_u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1)
}
