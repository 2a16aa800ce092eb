//! Tables of a keyspace, and what is in memory beside them.

#[cfg(not(feature = "loom"))]
mod bulk;
#[cfg(not(feature = "loom"))]
mod cache;
#[cfg(not(feature = "loom"))]
mod covers;
#[cfg(not(feature = "loom"))]
mod flow;
#[cfg(not(feature = "loom"))]
mod front;
#[cfg(not(feature = "loom"))]
mod heat;
#[cfg(not(feature = "loom"))]
mod idle;
#[cfg(not(feature = "loom"))]
mod ledger;
#[cfg(not(feature = "loom"))]
mod memory;
#[cfg(not(feature = "loom"))]
mod model;
#[cfg(not(feature = "loom"))]
mod multi_get;
#[cfg(feature = "loom")]
mod orders;
#[cfg(not(feature = "loom"))]
mod parts;
#[cfg(not(feature = "loom"))]
mod pressure;
#[cfg(not(feature = "loom"))]
mod rates;
#[cfg(not(feature = "loom"))]
mod runs;
#[cfg(not(feature = "loom"))]
mod scans;
#[cfg(feature = "loom")]
mod shape_orders;
#[cfg(not(feature = "loom"))]
mod threads;
#[cfg(not(feature = "loom"))]
mod turns;
#[cfg(not(feature = "loom"))]
mod whole;
#[cfg(not(feature = "loom"))]
mod world;
