//! The cold tier: runs of records in the order of their hashes, and what memory has of them (decision 9, "The cold tier"; H4, H5).

mod block;
mod delta_map;
mod fences;
mod header;
mod output;
mod pages;
mod partition;
mod run;
mod stretch;
mod tags;
#[cfg(test)]
mod tests;
mod writer;

pub use self::{
    block::{Block, BlockBuilder, Entry, Place, record_bytes},
    header::{Name, RunKind},
    partition::{Deltas, Partition, Search},
    run::{Answer, Extent, Run},
    stretch::Stretch,
    tags::Tags,
    writer::{RunWriter, block_size},
};
