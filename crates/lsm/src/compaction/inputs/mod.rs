//! What a compaction reads and where its output is split.

pub(crate) mod output_splitter;
pub(crate) mod retention;
pub(crate) mod subcompactions;
