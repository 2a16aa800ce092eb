//! The index as a whole.

#[cfg(not(feature = "loom"))]
mod model;
#[cfg(feature = "loom")]
mod orders;

use std::sync::Arc;

use ecotone_sys::{chunk::Arena, epoch::Domain};

use super::*;
use crate::hash::log::tests::block;

/// An empty table in one block, with one for overflow buckets.
pub(in crate::hash) fn table(domain: &Arc<Domain>, arena: &Arc<Arena>, bits: u32) -> Table {
    let table = Table::new(domain, bits, vec![block(arena)]);
    table.add_overflow(block(arena)).expect("there is none yet");
    table
}
