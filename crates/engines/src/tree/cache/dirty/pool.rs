//! Small nodes of one size in leased blocks.

use ecotone_sys::chunk::Block;

use super::super::slab::SLAB;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// A pool of nodes of `N` bytes. A free node's first word links to the next free one.
#[derive(Debug)]
pub(super) struct Pool<const N: usize> {
    blocks: Vec<Block>,
    free: u32,
    /// Nodes from here on were never used.
    fresh: usize,
    used: usize,
}

impl<const N: usize> Default for Pool<N> {
    fn default() -> Self {
        Pool { blocks: Vec::new(), free: NONE, fresh: 0, used: 0 }
    }
}

impl<const N: usize> Pool<N> {
    const PER_BLOCK: usize = SLAB / N;

    /// Nodes that can be taken without another block.
    pub(super) fn vacant(&self) -> usize {
        self.blocks.len() * Self::PER_BLOCK - self.used
    }

    /// Nodes taken.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Numbers of nodes that were ever taken are below this.
    pub(super) fn bound(&self) -> u32 {
        self.fresh as u32
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * SLAB
    }

    pub(super) fn add(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// Gives back the blocks of an unused pool beyond those for `keep` nodes.
    pub(super) fn trim(&mut self, keep: usize) {
        if self.used == 0 {
            self.blocks.truncate(keep.div_ceil(Self::PER_BLOCK));
            (self.free, self.fresh) = (NONE, 0);
        }
    }

    /// Takes a node, zeroed.
    ///
    /// # Panics
    /// If there is none: writers took a credit for it.
    pub(super) fn take(&mut self) -> u32 {
        assert!(self.vacant() > 0, "a node of a chain was not provided for");
        self.used += 1;
        let number = self.free;
        if number == NONE {
            self.fresh += 1;
            let number = self.fresh as u32 - 1;
            self.node_mut(number).fill(0);
            return number;
        }
        self.free = self.word(number, 0);
        self.node_mut(number).fill(0);
        number
    }

    /// Gives a node back, zeroed but for its link.
    pub(super) fn give(&mut self, number: u32) {
        let free = self.free;
        self.node_mut(number).fill(0);
        self.set_word(number, 0, free);
        self.free = number;
        self.used -= 1;
    }

    pub(super) fn node(&self, number: u32) -> &[u8] {
        let (block, at) = (number as usize / Self::PER_BLOCK, number as usize % Self::PER_BLOCK * N);
        &self.blocks[block][at..at + N]
    }

    pub(super) fn node_mut(&mut self, number: u32) -> &mut [u8] {
        let (block, at) = (number as usize / Self::PER_BLOCK, number as usize % Self::PER_BLOCK * N);
        &mut self.blocks[block][at..at + N]
    }

    /// The little-endian word at byte `at` of a node.
    pub(super) fn word(&self, number: u32, at: usize) -> u32 {
        u32::from_le_bytes(self.node(number)[at..at + 4].try_into().expect("four bytes"))
    }

    pub(super) fn set_word(&mut self, number: u32, at: usize, word: u32) {
        self.node_mut(number)[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
}
