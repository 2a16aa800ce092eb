//! What a compaction reads and where its output is split.

pub(in crate::lsm) mod output_splitter;
pub(in crate::lsm) mod retention;
pub(in crate::lsm) mod subcompactions;
