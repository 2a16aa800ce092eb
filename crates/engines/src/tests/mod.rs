//! What the tests of all engines share.

#[cfg(feature = "loom")]
pub(crate) mod orders;

#[cfg(not(feature = "loom"))]
use crate::engine::Stats;

/// A number of a keyspace.
#[cfg(not(feature = "loom"))]
pub(crate) fn stat(stats: &Stats, name: &str) -> u64 {
    stats.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name} is told")).1
}
