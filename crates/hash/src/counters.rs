//! Counters of one hash keyspace.

use ecotone_substrate::metrics::Counter;

/// Events since the keyspace was opened.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Compactions: regions at the beginning of the hot log that became a delta, or had no live record.
    pub(super) compactions: Counter,
    /// Merges of deltas into the base run of a partition.
    pub(super) base_merges: Counter,
    /// Merges of adjacent deltas into one.
    pub(super) delta_merges: Counter,
    /// Records that compaction appended once more, since they were changed in place.
    pub(super) kept: Counter,
    /// Background steps that were postponed for lack of memory or disk space.
    pub(super) postponed: Counter,
}
