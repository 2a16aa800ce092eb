//! The lsm engine: tables of sorted records in levels, found by small indexes (decisions 11 and 12, `docs/format/lsm.md`).
//!
//! Built step by step (decision 11, "Build plan"): tables, the memtable and room for it so far.

pub mod memtable;
pub mod room;
pub mod table;
