//! Indexes: they map a key to the block of a table that can have it. There are several kinds behind one interface (L2;
//! lsm.md, "Tables").
//!
//! Every kind gives the block to read first, and bounds that hold for every key of the table. The blocks themselves
//! decide, so a bad model or equal digests cannot give a wrong answer.

mod bits;
mod build;
mod built;
mod candidates;
mod kind;
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

use crate::table::index::{bits::LOOK, linear::Linear, plr::Plr, single::Single};
pub(super) use crate::table::index::{
    build::build, built::Built, candidates::Shape, partitioned::seal, single::Separators,
};
pub use crate::table::index::{
    candidates::{Candidates, Located},
    kind::{IndexKind, IndexOptions},
    partitioned::Partition,
    whole::WholeIndex,
};

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
