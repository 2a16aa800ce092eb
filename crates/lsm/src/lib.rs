//! The LSM engine: a log-structured merge tree. Writes go into memtables; flushes write these as sorted tables into
//! runs of L0; compactions merge the runs into levels. Small indexes find the blocks of a table. Optionally a page
//! tier, which another engine keeps, holds the oldest records of some ranges below the tables (lsm.md, lsm-protocol.md,
//! `docs/format/lsm.md`).

mod background;
pub mod blob;
mod bulk;
mod cache;
mod check;
#[cfg(any(test, feature = "testing"))]
mod checker;
mod compaction;
mod counters;
pub mod deps;
mod family;
mod flush;
pub mod keyspace;
pub mod manifest;
mod memtable;
pub mod observer;
mod options;
pub mod pages;
mod read;
pub mod repair;
pub mod store;
pub mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod tuning;
mod version;
mod write;

pub use crate::{
    compaction::strategy::range_compaction::{RangeCompactionEstimate, RangeCompactionStep},
    family::LsmFamily,
    options::LsmOptions,
    pages::range_size::key_after,
    table::{Compression, IndexKind},
    version::Split,
};
