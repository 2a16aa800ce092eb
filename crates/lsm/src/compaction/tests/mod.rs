//! Tests of picking, of output splitting, of retention, of merges and of subtasks.

#[cfg(not(feature = "loom"))]
mod merges;
#[cfg(feature = "loom")]
mod orders;
mod plans;
mod subcompactions;
#[cfg(not(feature = "loom"))]
mod subtasks;
