//! From a key to the block of a table that can have it: several kinds behind one interface (L2; decision 11, "Index").
//!
//! Every kind gives the block to look at first and bounds that hold for every key of the table. The blocks themselves
//! decide, so that neither a bad model nor equal digests can give a wrong answer.

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

use self::{bits::LOOK, linear::Linear, plr::Plr, single::Single};
pub use self::{partitioned::Partition, whole::WholeIndex};
pub(super) use self::{partitioned::seal, single::Separators};
use super::boundaries::Boundaries;

/// How an index finds a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By a separator of each two blocks, in memory.
    Single,
    /// The same in partitions, which are in memory one by one.
    Partitioned,
    /// By lines that come near, for stretches of the table.
    Plr,
    /// By a line for a group of blocks and how far each block is from it.
    Linear,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Single, Kind::Partitioned, Kind::Plr, Kind::Linear];

    /// Its name among the options.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Single => "single",
            Kind::Partitioned => "partitioned",
            Kind::Plr => "plr",
            Kind::Linear => "linear",
        }
    }

    /// Its number in a file.
    pub(crate) fn number(self) -> u8 {
        match self {
            Kind::Single => 1,
            Kind::Partitioned => 2,
            Kind::Plr => 3,
            Kind::Linear => 4,
        }
    }

    /// The kind with a number.
    pub(crate) fn of(number: u8) -> Option<Kind> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// What an index should be like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted {
    /// The kind, unless it cannot tell the blocks of a table apart or is not worth it, and the table gets a
    /// [`Kind::Single`]; none for the one that costs least.
    pub kind: Option<Kind>,
    /// By how many bytes lines of [`Kind::Plr`] may err.
    pub error: u32,
    /// How often a byte of the table is expected to be read, by how often one of the keyspace is in the mean.
    pub heat: f64,
}

impl Wanted {
    /// One of this kind, whatever is read.
    pub fn of(kind: Kind, error: u32) -> Wanted {
        Wanted { kind: Some(kind), error, heat: 1.0 }
    }
}

/// What the blocks of a table are like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// How many there are.
    pub(super) blocks: u32,
    /// Bytes of one.
    pub(super) block: usize,
    /// Bytes that all keys of the table share, behind which digests begin.
    pub(super) skip: usize,
    /// Partitions of the index.
    pub(super) partitions: u32,
}

/// Where a key can be, as far as an index knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Located {
    /// In these blocks.
    Blocks(Candidates),
    /// In a block that this partition tells.
    Partition(u32),
}

/// Blocks that can have a key. Those from `low` to `high` are left; `first` is the one to look at next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidates {
    /// The likeliest.
    pub first: u32,
    /// The lowest.
    pub low: u32,
    /// The highest.
    pub high: u32,
    /// How far from the last one the next is looked for.
    step: u32,
}

impl Candidates {
    fn new(first: u32, low: u32, high: u32) -> Candidates {
        Candidates { first: first.clamp(low, high), low, high, step: 1 }
    }

    /// One block.
    pub(in super::super) fn one(block: u32) -> Candidates {
        Candidates::new(block, block, block)
    }

    /// The key lies before the first one. False if no block is left.
    pub fn go_down(&mut self) -> bool {
        let Some(high) = self.first.checked_sub(1).filter(|high| *high >= self.low) else { return false };
        let step = self.next_step();
        *self = Candidates { first: high.saturating_sub(step).max(self.low), high, ..*self };
        true
    }

    /// The key lies behind the first one. False if no block is left.
    pub fn go_up(&mut self) -> bool {
        if self.first >= self.high {
            return false;
        }
        let (low, step) = (self.first + 1, self.next_step());
        *self = Candidates { first: low.saturating_add(step).min(self.high), low, ..*self };
        true
    }

    /// Neighbours first, then farther and farther away, but never beyond the middle of what is left.
    fn next_step(&mut self) -> u32 {
        let step = self.step - 1;
        self.step = self.step.saturating_mul(2);
        step.min((self.high - self.low) / 2)
    }
}

/// An index that was learned.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) kind: Kind,
    pub(super) bytes: Vec<u8>,
    /// Pages before it in the file, but for their checksums.
    pub(super) partitions: Vec<Vec<u8>>,
    /// Blocks that a search reads in vain, in the mean over all keys, as far as boundaries tell.
    in_vain: f64,
}

impl Built {
    fn whole(kind: Kind, bytes: Vec<u8>, in_vain: f64) -> Built {
        Built { kind, bytes, partitions: Vec::new(), in_vain }
    }
}

/// Learns an index of the blocks of a table.
pub(super) fn build(boundaries: &Boundaries, block: usize, wanted: Wanted) -> Built {
    let Some(kind) = wanted.kind else { return auto::build(boundaries, block, wanted) };
    // Where keys are no numbers, separators may take less. Less than a cell is worth no other kind.
    let most = boundaries.separators().encoded_len().max(CELL_BYTES);
    let built = build_kind(boundaries, block, kind, wanted.error).filter(|built| built.bytes.len() <= most);
    built.unwrap_or_else(|| single::build(boundaries.separators()))
}

/// One of a kind, if the blocks can have it.
fn build_kind(boundaries: &Boundaries, block: usize, kind: Kind, error: u32) -> Option<Built> {
    match kind {
        Kind::Single => Some(single::build(boundaries.separators())),
        Kind::Partitioned => partitioned::build(boundaries.separators()),
        Kind::Plr => plr::build(&boundaries.bounds(), block, error),
        Kind::Linear => linear::build(&boundaries.bounds()),
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
    /// In place of blocks it has partitions.
    Partitioned(Single),
    Plr(Plr),
    Linear(Linear),
}

impl Index {
    /// Takes the index that a file has, of `len` bytes.
    pub(super) fn parse(kind: Kind, pages: Pages, len: usize, shape: Shape) -> result::Result<Index, Malformed> {
        let pages = pages.ending_at(len, LOOK)?;
        let model = match kind {
            Kind::Single => Model::Single(Single::parse(pages, (0, len), shape.blocks)?),
            Kind::Partitioned => Model::Partitioned(Single::parse(pages, (0, len), shape.partitions)?),
            Kind::Plr => Model::Plr(Plr::parse(pages, len, shape)?),
            Kind::Linear => Model::Linear(Linear::parse(pages, len, shape.blocks)?),
        };
        Ok(Index { shape, model })
    }

    /// Bytes of memory of one that has so many in a file.
    pub(super) fn memory(len: usize) -> usize {
        Pages::memory_ending_at(len, LOOK)
    }

    /// Where a key can be, which must lie between the first and the last key of the table.
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
    pub fn kind(&self) -> Kind {
        match &self.model {
            Model::Single(_) => Kind::Single,
            Model::Partitioned(_) => Kind::Partitioned,
            Model::Plr(_) => Kind::Plr,
            Model::Linear(_) => Kind::Linear,
        }
    }
}
