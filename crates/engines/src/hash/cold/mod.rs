//! The cold tier: runs of records in the order of their hashes, and what memory has of them (decision 9, "The cold
//! tier"; H4, H5).

mod block;
mod check;
mod cursor;
mod delta_map;
mod deltas;
mod fences;
mod header;
mod lookup;
mod partition;
mod partition_map;
mod punch;
mod remains;
mod run;
mod runs;
mod stretch;
mod tag_reader;
mod tags;
#[cfg(test)]
mod tests;
mod tier;
mod union;
mod writer;

pub(super) use self::remains::Remains;
pub use self::{
    block::{Block, BlockBuilder, Entry, record_bytes},
    cursor::{Cursor, HashOf},
    deltas::Deltas,
    header::RunKind,
    lookup::{Lookup, Step},
    partition::{Partition, Search},
    run::{Extent, Run},
    runs::{Part, Runs},
    stretch::Stretch,
    tags::Tags,
    tier::{Changing, Tier},
    union::Union,
    writer::{RunWriter, block_size},
};
pub use ecotone_substrate::table::{Answer, Name, Place};
