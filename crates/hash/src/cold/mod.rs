//! The cold tier: runs of records in hash order on disk, and their index in memory. A delta holds live records of one
//! region of the hot log; a base holds all older records of one partition (hash.md, "Cold tier"; H4, H5).

mod block;
mod check;
mod cursor;
mod delta_map;
mod deltas;
mod fences;
mod hash_range;
mod header;
mod lookup;
mod merging_cursor;
mod partition;
mod partition_map;
mod punch;
mod run;
mod runs;
mod salvage;
mod tag_reader;
mod tags;
#[cfg(test)]
mod tests;
mod tier;
mod writer;

pub use ecotone_substrate::table::{Answer, BlockAddress, FileIdentity};

pub(super) use self::salvage::RunSalvage;
pub use self::{
    block::{Block, BlockBuilder, Entry, record_bytes},
    cursor::{Cursor, HashOf},
    deltas::Deltas,
    hash_range::HashRange,
    header::RunKind,
    lookup::{Lookup, Step},
    merging_cursor::MergingCursor,
    partition::{Partition, Search},
    run::{Extent, Run},
    runs::{PartitionSpec, Runs},
    tags::Tags,
    tier::{Changing, Tier},
    writer::{RunWriter, block_size},
};
