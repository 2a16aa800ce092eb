//! Indexes: they map a key to the block of a table that can have it. There are several kinds behind one interface (L2;
//! lsm.md, "Tables").
//!
//! Every kind gives the block to read first, and bounds that hold for every key of the table. The blocks themselves
//! decide, so a bad model or equal digests cannot give a wrong answer.

mod auto;
mod bits;
mod layout;
mod linear;
mod partitioned;
mod plr;
mod single;
#[cfg(test)]
mod tests;
mod whole;

use std::result;

use ecotone_substrate::{codec::Malformed, table::Pages};
use ecotone_sys::chunk::CELL_BYTES;

pub use crate::table::index::{partitioned::Partition, whole::WholeIndex};
pub(super) use crate::table::index::{partitioned::seal, single::Separators};
use crate::table::{
    boundaries::Boundaries,
    index::{bits::LOOK, linear::Linear, plr::Plr, single::Single},
};

/// A kind of index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// A separator for each two adjacent blocks, in memory.
    Single,
    /// The same separators in partitions, which are loaded one by one.
    Partitioned,
    /// Piecewise linear regression: lines with a bounded error.
    Plr,
    /// A line for each group of blocks, and the deviation of each block from it.
    Linear,
}

impl IndexKind {
    /// All of them.
    pub const ALL: [IndexKind; 4] = [IndexKind::Single, IndexKind::Partitioned, IndexKind::Plr, IndexKind::Linear];

    /// Its name among the options.
    pub const fn name(self) -> &'static str {
        match self {
            IndexKind::Single => "single",
            IndexKind::Partitioned => "partitioned",
            IndexKind::Plr => "plr",
            IndexKind::Linear => "linear",
        }
    }

    /// Its number in a file.
    pub(crate) fn number(self) -> u8 {
        match self {
            IndexKind::Single => 1,
            IndexKind::Partitioned => 2,
            IndexKind::Plr => 3,
            IndexKind::Linear => 4,
        }
    }

    /// The kind with a number.
    pub(crate) fn of(number: u8) -> Option<IndexKind> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// Options of an index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndexOptions {
    /// The kind; `None` for the kind with the least cost. A table gets [`IndexKind::Single`] instead if the kind cannot
    /// tell its blocks apart, or takes more memory.
    pub kind: Option<IndexKind>,
    /// The most bytes by which lines of [`IndexKind::Plr`] may err.
    pub error: u32,
    /// The expected read frequency of a byte of the table, relative to the mean of the keyspace.
    pub read_frequency: f64,
}

impl IndexOptions {
    /// An index of this kind, with the mean read frequency.
    pub fn of(kind: IndexKind, error: u32) -> IndexOptions {
        IndexOptions { kind: Some(kind), error, read_frequency: 1.0 }
    }
}

/// The shape of a table: its blocks and what its keys share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// The number of blocks.
    pub(super) blocks: u32,
    /// Bytes of a block.
    pub(super) block: usize,
    /// Bytes of the prefix that all keys of the table share. Digests begin behind it.
    pub(super) skip: usize,
    /// The number of partitions of the index.
    pub(super) partitions: u32,
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
    fn new(first: u32, low: u32, high: u32) -> Candidates {
        Candidates { first: first.clamp(low, high), low, high, step: 1 }
    }

    /// A single block.
    pub(in super::super) fn one(block: u32) -> Candidates {
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

/// An index that was learned.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) kind: IndexKind,
    pub(super) bytes: Vec<u8>,
    /// The pages of its partitions, which lie before it in the file. Their checksums are missing.
    pub(super) partitions: Vec<Vec<u8>>,
    /// The mean number of blocks that a search reads without finding the key there, over all keys, as far as the
    /// boundaries tell.
    in_vain: f64,
}

impl Built {
    fn whole(kind: IndexKind, bytes: Vec<u8>, in_vain: f64) -> Built {
        Built { kind, bytes, partitions: Vec::new(), in_vain }
    }
}

/// Learns an index of the blocks of a table.
pub(super) fn build(boundaries: &Boundaries, block: usize, wanted: IndexOptions) -> Built {
    let Some(kind) = wanted.kind else { return auto::build(boundaries, block, wanted) };
    // Where keys are unlike numbers, separators may take less memory. An index takes a cell at least, so no other kind
    // saves memory below that.
    let most = boundaries.separators().encoded_len().max(CELL_BYTES);
    let built = build_kind(boundaries, block, kind, wanted.error).filter(|built| built.bytes.len() <= most);
    built.unwrap_or_else(|| single::build(boundaries.separators()))
}

/// An index of a kind, if it suits the blocks.
fn build_kind(boundaries: &Boundaries, block: usize, kind: IndexKind, error: u32) -> Option<Built> {
    match kind {
        IndexKind::Single => Some(single::build(boundaries.separators())),
        IndexKind::Partitioned => partitioned::build(boundaries.separators()),
        IndexKind::Plr => plr::build(&boundaries.bounds(), block, error),
        IndexKind::Linear => linear::build(&boundaries.bounds()),
    }
}

/// The index of one table, in memory as it is in the file.
#[derive(Debug)]
pub struct Index {
    shape: Shape,
    model: Model,
}

#[derive(Debug)]
enum Model {
    Single(Single),
    /// It maps to partitions instead of blocks.
    Partitioned(Single),
    Plr(Plr),
    Linear(Linear),
}

impl Index {
    /// Parses the index of a file, of `len` bytes.
    pub(super) fn parse(kind: IndexKind, pages: Pages, len: usize, shape: Shape) -> result::Result<Index, Malformed> {
        let pages = pages.ending_at(len, LOOK)?;
        let model = match kind {
            IndexKind::Single => Model::Single(Single::parse(pages, (0, len), shape.blocks)?),
            IndexKind::Partitioned => Model::Partitioned(Single::parse(pages, (0, len), shape.partitions)?),
            IndexKind::Plr => Model::Plr(Plr::parse(pages, len, shape)?),
            IndexKind::Linear => Model::Linear(Linear::parse(pages, len, shape.blocks)?),
        };
        Ok(Index { shape, model })
    }

    /// Bytes of memory of an index of `len` bytes in a file.
    pub(super) fn memory(len: usize) -> usize {
        Pages::memory_ending_at(len, LOOK)
    }

    /// Locates a key, which must lie between the first and the last key of the table.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> Located {
        match &self.model {
            Model::Single(single) => Located::Blocks(Candidates::one(single.locate(key))),
            Model::Partitioned(between) => Located::Partition(between.locate(key)),
            Model::Plr(plr) => Located::Blocks(plr.locate(key, self.shape)),
            Model::Linear(linear) => Located::Blocks(linear.locate(key, self.shape)),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> IndexKind {
        match &self.model {
            Model::Single(_) => IndexKind::Single,
            Model::Partitioned(_) => IndexKind::Partitioned,
            Model::Plr(_) => IndexKind::Plr,
            Model::Linear(_) => IndexKind::Linear,
        }
    }
}
