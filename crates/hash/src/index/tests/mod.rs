//! The index as a whole.

#[cfg(feature = "loom")]
mod fixture;
#[cfg(not(feature = "loom"))]
mod growth;
#[cfg(not(feature = "loom"))]
mod model;
#[cfg(feature = "loom")]
mod orders;
#[cfg(feature = "loom")]
mod split_orders;

use std::sync::Arc;

use ecotone_sys::{chunk::Arena, epoch::Domain};

use super::*;
use crate::log::tests::block;

/// An empty index in one block, with one for overflow buckets.
pub(crate) fn index(domain: &Arc<Domain>, arena: &Arc<Arena>, bits: u32) -> Index {
    let index = Index::new(domain, bits, vec![block(arena)]);
    index.add_overflow(block(arena)).expect("there is none yet");
    index
}
