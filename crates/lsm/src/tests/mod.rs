//! Tests of the LSM engine as a whole, with loom tests of its protocols.

#[cfg(not(feature = "loom"))]
mod bulk;
#[cfg(not(feature = "loom"))]
mod cache;
#[cfg(not(feature = "loom"))]
mod fixture;
#[cfg(not(feature = "loom"))]
mod full_compaction;
#[cfg(not(feature = "loom"))]
mod idle;
#[cfg(not(feature = "loom"))]
mod job_locks;
#[cfg(not(feature = "loom"))]
mod memory;
#[cfg(not(feature = "loom"))]
mod model;
#[cfg(not(feature = "loom"))]
mod multi_get;
#[cfg(feature = "loom")]
mod orders;
#[cfg(not(feature = "loom"))]
mod paged_ranges;
#[cfg(not(feature = "loom"))]
mod rates;
#[cfg(not(feature = "loom"))]
mod read_checker;
#[cfg(not(feature = "loom"))]
mod read_frequency;
#[cfg(not(feature = "loom"))]
mod record_cache;
#[cfg(not(feature = "loom"))]
mod runs;
#[cfg(not(feature = "loom"))]
mod scans;
#[cfg(feature = "loom")]
mod shape_orders;
#[cfg(not(feature = "loom"))]
mod subcompactions;
#[cfg(not(feature = "loom"))]
mod threads;
#[cfg(not(feature = "loom"))]
mod write_stall;
