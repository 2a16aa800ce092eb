//! The answer of an index: the blocks that can have a key, from the likeliest on (lsm.md, "Tables").

/// The shape of a table: its blocks and what its keys share.
#[derive(Debug, Clone, Copy)]
pub(in crate::table) struct Shape {
    /// The number of blocks.
    pub(in crate::table) blocks: u32,
    /// Bytes of a block.
    pub(in crate::table) block: usize,
    /// Bytes of the prefix that all keys of the table share. Digests begin behind it.
    pub(in crate::table) skip: usize,
    /// The number of partitions of the index.
    pub(in crate::table) partitions: u32,
}

/// The answer of an index for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Located {
    /// The key can be in these blocks.
    Blocks(Candidates),
    /// This partition knows the block.
    Partition(u32),
}

/// Blocks that can have a key. The search has narrowed them to `low` to `high`; `first` is the one to read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidates {
    /// The likeliest.
    pub first: u32,
    /// The lowest.
    pub low: u32,
    /// The highest.
    pub high: u32,
    /// The distance of the next step, which doubles with each.
    step: u32,
}

impl Candidates {
    pub(super) fn new(first: u32, low: u32, high: u32) -> Candidates {
        Candidates { first: first.clamp(low, high), low, high, step: 1 }
    }

    /// A single block.
    pub(in crate::table) fn one(block: u32) -> Candidates {
        Candidates::new(block, block, block)
    }

    /// Continues below `first`: the key lies before that block. False if no block is left.
    pub fn go_down(&mut self) -> bool {
        let Some(high) = self.first.checked_sub(1).filter(|high| *high >= self.low) else { return false };
        let step = self.next_step();
        *self = Candidates { first: high.saturating_sub(step).max(self.low), high, ..*self };
        true
    }

    /// Continues above `first`: the key lies behind that block. False if no block is left.
    pub fn go_up(&mut self) -> bool {
        if self.first >= self.high {
            return false;
        }
        let (low, step) = (self.first + 1, self.next_step());
        *self = Candidates { first: low.saturating_add(step).min(self.high), low, ..*self };
        true
    }

    /// The distance beyond the neighbour: it grows with each step, but not beyond the middle of the remaining blocks.
    fn next_step(&mut self) -> u32 {
        let step = self.step - 1;
        self.step = self.step.saturating_mul(2);
        step.min((self.high - self.low) / 2)
    }
}
