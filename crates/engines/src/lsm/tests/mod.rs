//! Tables of a keyspace, and what is in memory beside them.

#[cfg(feature = "loom")]
mod orders;
#[cfg(not(feature = "loom"))]
mod runs;
