//! The adaptive engine: an lsm whose oldest records move into pages of a tree, in the ranges where scans gain by it
//! (adaptive.md, adaptive-protocol.md, `docs/format/adaptive.md`). `scan_stats` observes scans, `policy` chooses
//! ranges, `controller` converts them in the background; `page_tier` connects the tree to the lsm, and `observer` the
//! controller. This is the only module that imports other engines.

pub mod blob;
mod controller;
mod cost_model;
mod family;
mod hints;
mod insert;
mod keyspace;
mod observer;
mod options;
mod page_tier;
mod policy;
mod range_part;
pub mod repair;
mod scan_stats;
mod task;
#[cfg(test)]
mod tests;

pub use self::{
    family::{AdaptiveFamily, WrapObserver},
    insert::Insert,
    keyspace::AdaptiveKeyspace,
    options::AdaptiveOptions,
};
