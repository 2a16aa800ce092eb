//! The kinds of indexes, and what a table's options say of them (L2; `docs/format/lsm.md`).

use ecotone_engine::option_value;

/// A kind of index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
    #[doc(hidden)]
    pub const ALL: [IndexKind; 4] = [IndexKind::Single, IndexKind::Partitioned, IndexKind::Plr, IndexKind::Linear];

    /// Returns its name among the options.
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

option_value!(IndexKind, "index");

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
