//! Learns the index of a table: of the kind that the options name, or else the one with the least cost for the table,
//! by its bytes and its expected reads (lsm.md, "Tables").

use ecotone_substrate::limits::PAGE;
use ecotone_sys::chunk::CELL_BYTES;

use crate::table::{
    boundaries::Boundaries,
    index::{
        built::Built,
        kind::{IndexKind, IndexOptions},
        linear, partitioned, plr, single,
    },
};

/// Learns an index of the blocks of a table.
pub(in crate::table) fn build(boundaries: &Boundaries, block: usize, wanted: IndexOptions) -> Built {
    let Some(kind) = wanted.kind else { return build_cheapest(boundaries, block, wanted) };
    // Where keys are unlike numbers, separators may take less memory. An index takes a cell at least, so no other kind
    // saves memory below that.
    let most = boundaries.separators().encoded_len().max(CELL_BYTES);
    let built = build_kind(boundaries, block, kind, wanted.error).filter(|built| built.bytes.len() <= most);
    built.unwrap_or_else(|| single::build(boundaries.separators()))
}

/// An index of a kind, if it suits the blocks.
fn build_kind(boundaries: &Boundaries, block: usize, kind: IndexKind, error: u32) -> Option<Built> {
    match kind {
        IndexKind::Single => Some(single::build(boundaries.separators())),
        IndexKind::Partitioned => partitioned::build(boundaries.separators()),
        IndexKind::Plr => plr::build(&boundaries.bounds(), block, error),
        IndexKind::Linear => linear::build(&boundaries.bounds()),
    }
}

/// Builds an index of each kind, and gives the one with the least cost; of equal ones the simplest.
fn build_cheapest(
    boundaries: &Boundaries,
    block: usize,
    IndexOptions { error, read_frequency, .. }: IndexOptions,
) -> Built {
    let blocks = boundaries.bounds().len() * block;
    let built = IndexKind::ALL.into_iter().filter_map(|kind| build_kind(boundaries, block, kind, error));
    let cheapest = built.min_by(|a, b| cost(a, blocks, read_frequency).total_cmp(&cost(b, blocks, read_frequency)));
    cheapest.expect("any blocks can have a single index")
}

/// The cost of an index of a table with `blocks` bytes of blocks, in bytes. Memory that the index does not take can
/// cache blocks of the keyspace, and a cached byte saves the reads of one byte at the mean frequency. So one extra
/// block read per key of the table costs all of its blocks, times the read frequency.
fn cost(built: &Built, blocks: usize, read_frequency: f64) -> f64 {
    let reads = read_frequency * blocks as f64;
    // A partition takes memory, or is read with each key.
    let partitions = ((built.partitions.len() * PAGE) as f64).min(reads);
    built.bytes.len().max(CELL_BYTES) as f64 + partitions + built.in_vain * reads
}
