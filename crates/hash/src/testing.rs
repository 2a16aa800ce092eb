//! A hash engine for tests, whose background work comes after few writes; never in a product build.

use super::{
    Compaction, HashFamily, Sizes,
    compact::CompactionLimits,
    log::{FRAME, PAGE},
};

/// Whatever the budget: an index of one bucket, which has to grow, few frames for the read cache, and enough frames of
/// hot log for the batches of concurrent test writers.
const SMALLEST: Sizes = Sizes { bucket_bits: 0, frames: 40, copies: 4 };

impl HashFamily {
    /// A hash engine that compacts and merges after few writes.
    pub fn tiny() -> HashFamily {
        HashFamily { limits: Some(CompactionLimits::TINY), sizes: None }
    }

    /// A hash engine that compacts and merges after a few pages, evicts read-cache entries, and grows its index.
    pub fn busy() -> HashFamily {
        HashFamily { limits: Some(CompactionLimits::BUSY), sizes: Some(SMALLEST) }
    }
}

impl CompactionLimits {
    /// So small that few writes cause every kind of work.
    pub(crate) const TINY: CompactionLimits = CompactionLimits {
        most_hot: 2 * FRAME,
        hot_disk: 0,
        left_at_close: FRAME / 2,
        compaction: Compaction::Lookup,
        least_delta: FRAME,
        block: 1024,
        base_merge_percent: 50,
        least_deltas: FRAME / 8,
        largest_base: FRAME / 4,
        least_behind: 64 * FRAME,
        most_behind: 1024 * FRAME,
        merge_at: 6,
        merge: 3,
    };

    /// For concurrent operations: so small that background work never stops.
    pub(crate) const BUSY: CompactionLimits = CompactionLimits {
        most_hot: 2 * PAGE,
        left_at_close: PAGE,
        least_delta: PAGE,
        base_merge_percent: 20,
        least_deltas: PAGE / 8,
        largest_base: PAGE,
        ..CompactionLimits::TINY
    };
}
