//! The kind of index that costs a table least, by its bytes and by the reads that are expected (decision 11, "Index").

use ecotone_substrate::limits::PAGE;
use ecotone_sys::chunk::CELL_BYTES;

use super::{super::boundaries::Boundaries, Built, Kind, Wanted, build_kind};

/// Learns one of each kind, and gives the cheapest; of equal ones the simplest.
pub(super) fn build(boundaries: &Boundaries, block: usize, Wanted { error, heat, .. }: Wanted) -> Built {
    let blocks = boundaries.bounds().len() * block;
    let built = Kind::ALL.into_iter().filter_map(|kind| build_kind(boundaries, block, kind, error));
    let cheapest = built.min_by(|a, b| cost(a, blocks, heat).total_cmp(&cost(b, blocks, heat)));
    cheapest.expect("any blocks can have a single index")
}

/// What an index of so many bytes of blocks costs, in bytes. Memory that an index does not take has blocks of the
/// keyspace, and a byte of them saves the reads of a byte. So a read in vain with each key of the table is as dear as
/// all of its blocks, times its heat.
fn cost(built: &Built, blocks: usize, heat: f64) -> f64 {
    let reads = heat * blocks as f64;
    // A partition is in memory, or it is read with each key.
    let partitions = ((built.partitions.len() * PAGE) as f64).min(reads);
    built.bytes.len().max(CELL_BYTES) as f64 + partitions + built.in_vain * reads
}
