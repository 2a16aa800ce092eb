//! The lsm engine: tables of sorted records in levels, found by small indexes (decisions 11 and 12, `docs/format/lsm.md`).
//!
//! Built step by step (decision 11, "Build plan"): tables, the memtable and room for it, which tables there are, views of both.

pub mod blob;
pub mod handle;
pub mod lookup;
pub mod memtable;
pub mod options;
pub mod output;
pub mod room;
pub mod structure;
pub mod table;
#[cfg(test)]
mod tests;
pub mod version;
pub mod view;
