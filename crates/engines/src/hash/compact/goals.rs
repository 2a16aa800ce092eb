//! How the cold tier is kept (decision 9, "The cold tier").

use crate::hash::{
    cold::{Partition, Runs},
    log::FRAME,
};

/// The most bytes of hot log that become one delta, and the parts of its memory and of the budget that a delta has at least.
const MOST_DELTA: u64 = 16 << 20;
const OF_HOT: u64 = 10;
const OF_BUDGET: u64 = 32;
/// The part of the bases that the hot log may have on disk.
const OF_BASES: u64 = 8;

/// Sizes and numbers of the hot log and the cold tier.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goals {
    /// Bytes that the hot log has in memory.
    pub(crate) hot: u64,
    /// Bytes of it that become one delta.
    pub(crate) delta: u64,
    /// Bytes of the smallest blocks of a run.
    pub(crate) block: usize,
    /// Bytes of deltas at which a partition is folded, in percent of those of its base.
    pub(crate) fold_percent: u64,
    /// Bytes of deltas below which none is folded, whatever bases have.
    pub(crate) least_deltas: u64,
    /// Bytes of the mean base from which on partitions are halved.
    pub(crate) largest_base: u64,
    /// Bytes of hot log on disk at which writers wait for compaction, at least: an eighth of the bases, if that is more.
    pub(crate) least_behind: u64,
    /// Deltas at which some are merged, and how many.
    pub(crate) merge_at: usize,
    pub(crate) merge: usize,
}

impl Goals {
    /// So small that whoever writes little sees all of it: for tests.
    pub(crate) const TINY: Goals = Goals {
        hot: 2 * FRAME,
        delta: FRAME,
        block: 1024,
        fold_percent: 50,
        least_deltas: FRAME / 8,
        largest_base: FRAME / 4,
        least_behind: 64 * FRAME,
        merge_at: 6,
        merge: 3,
    };

    /// For a hot log that has so many bytes of a budget.
    pub(crate) fn new(hot: u64, budget: u64) -> Goals {
        let delta = (hot / OF_HOT).max(budget / OF_BUDGET).min(MOST_DELTA).min(hot / 2);
        let (least_deltas, largest_base, least_behind) = (1 << 20, 16 << 20, 64 << 20);
        Goals { hot, delta, block: 4096, fold_percent: 50, least_deltas, largest_base, least_behind, merge_at: 240, merge: 16 }
    }

    /// Bytes of hot log on disk at which writers wait.
    pub(crate) fn behind(&self, runs: &Runs) -> u64 {
        (runs.base_bytes() / OF_BASES).max(self.least_behind)
    }

    /// Whether it is time for a fold. One partition is folded after the other, so those that were folded have on average half of what the next one has.
    pub(super) fn fold_is_due(&self, runs: &Runs) -> bool {
        let most = runs.base_bytes() * self.fold_percent / 200;
        runs.delta_bytes() > most.max(self.least_deltas)
    }

    /// Whether a partition is to be halved when it is folded. While some are halves, the others follow.
    pub(super) fn halves(&self, runs: &Runs, partition: &Partition) -> bool {
        let bits = runs.partitions().map(|partition| partition.stretch().bits());
        let (least, most) = bits.fold((u8::MAX, 0), |(least, most), bits| (least.min(bits), most.max(bits)));
        let mean = runs.base_bytes() / runs.partitions().count() as u64;
        partition.stretch().bits() == least && (most > least || mean > self.largest_base)
    }
}
