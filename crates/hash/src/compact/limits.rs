//! Compaction limits: the sizes and numbers that decide when the hot log is compacted and when deltas are merged
//! (hash.md, "Cold tier").

use crate::{
    Compaction, HashOptions,
    cold::{Partition, Runs},
    log::FRAME,
};

/// Maximum bytes of hot log that become one delta; and the parts of the hot log and of the memory budget that are its
/// minimum.
const MOST_DELTA: u64 = 16 << 20;
const OF_HOT: u64 = 10;
const OF_BUDGET: u64 = 32;
/// The hot log may have one part in this many of the bases' bytes on disk.
const OF_BASES: u64 = 8;
/// Maximum of the option `hot_disk`, in memory budgets: the index, which has an entry for each of these records, then
/// takes a tenth of one.
const OF_MEMORY: u64 = 4;

/// Bytes of hot log that an opening links in less than a quarter of a second, however small records are, and whose
/// index fits into the smallest budget.
const LEFT_AT_CLOSE: u64 = 8 << 20;

/// The hot log and a base each have at most one part in `OF_DISK` of the disk budget, but may have at least
/// `LEAST_OF_DISK` bytes.
const OF_DISK: u64 = 32;
const LEAST_OF_DISK: u64 = 4 * FRAME;

/// Sizes and numbers of the hot log and the cold tier.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactionLimits {
    /// Maximum bytes of the hot log, however much memory there is for it.
    pub(crate) most_hot: u64,
    /// Bytes of hot log that stay on disk deliberately, in addition to those in memory.
    pub(crate) hot_disk: u64,
    /// Bytes of hot log, in addition to `hot_disk`, that are left when the database is closed.
    pub(crate) left_at_close: u64,
    /// How live records are found.
    pub(crate) compaction: Compaction,
    /// Minimum bytes of hot log that become one delta, if a tenth of the hot log is less.
    pub(crate) least_delta: u64,
    /// Minimum block size of a run.
    pub(crate) block: usize,
    /// Bytes of deltas at which a partition is merged into its base run, in percent of the base.
    pub(crate) base_merge_percent: u64,
    /// Bytes of deltas below which no partition is merged, however small the bases are.
    pub(crate) least_deltas: u64,
    /// Mean bytes of a base above which partitions are halved.
    pub(crate) largest_base: u64,
    /// Minimum and maximum bytes of hot log on disk at which writers wait for compaction; in between, an eighth of the
    /// bases. The index has an entry for each of these records, and an opening reads them.
    pub(crate) least_behind: u64,
    pub(crate) most_behind: u64,
    /// Number of deltas at which some are merged into one, and how many of them.
    pub(crate) merge_at: usize,
    pub(crate) merge: usize,
}

impl CompactionLimits {
    /// The limits for a memory budget.
    pub(crate) fn within(budget: u64) -> CompactionLimits {
        CompactionLimits {
            most_hot: u64::MAX,
            hot_disk: 0,
            left_at_close: LEFT_AT_CLOSE,
            compaction: Compaction::Lookup,
            least_delta: budget / OF_BUDGET,
            block: 4096,
            base_merge_percent: 50,
            least_deltas: 1 << 20,
            largest_base: 16 << 20,
            least_behind: 64 << 20,
            most_behind: budget,
            merge_at: 240,
            merge: 16,
        }
    }

    /// Applies the options. A disk budget needs smaller steps.
    pub(crate) fn chosen(self, options: HashOptions) -> CompactionLimits {
        let most = options.disk.map_or(u64::MAX, |disk| (disk / OF_DISK).max(LEAST_OF_DISK));
        let (most_hot, largest_base) = (self.most_hot.min(most), self.largest_base.min(most));
        let HashOptions { hot_disk, compaction, .. } = options;
        let hot_disk = hot_disk.min(OF_MEMORY * self.most_behind);
        CompactionLimits { most_hot, hot_disk, compaction, largest_base, ..self }
    }

    /// Bytes at which the hot log is compacted, if it may have `memory` bytes in memory. The rest is for writes during
    /// the compaction.
    pub(super) fn hot(&self, memory: u64) -> u64 {
        (memory / 16 * 13).min(self.most_hot)
    }

    /// Bytes of hot log that become one delta, if the hot log is compacted at `hot` bytes.
    pub(super) fn delta(&self, hot: u64) -> u64 {
        (hot / OF_HOT).max(self.least_delta).min(MOST_DELTA).min(hot / 2)
    }

    /// Bytes of hot log on disk at which writers wait for compaction.
    pub(crate) fn behind(&self, runs: &Runs) -> u64 {
        (runs.base_bytes() / OF_BASES).min(self.most_behind).max(self.least_behind)
    }

    /// Whether a partition should be merged into its base run. Partitions are merged in turn, so on average a partition
    /// has half of the deltas of the next one. The shorter space is, the earlier; without space, as long as there are
    /// deltas.
    pub(super) fn base_merge_is_due(&self, runs: &Runs, shortage: f64) -> bool {
        let most = (runs.base_bytes() * self.base_merge_percent / 200).max(self.least_deltas);
        runs.delta_bytes() > (most as f64 * (1.0 - shortage)) as u64
    }

    /// Whether a partition is halved when it is merged. Once some partitions are halved, the others follow.
    pub(super) fn halves(&self, runs: &Runs, partition: &Partition) -> bool {
        let bits = runs.partitions().map(|partition| partition.hash_range().bits());
        let (least, most) = bits.fold((u8::MAX, 0), |(least, most), bits| (least.min(bits), most.max(bits)));
        let mean = runs.base_bytes() / runs.partitions().count() as u64;
        partition.hash_range().bits() == least && (most > least || mean > self.largest_base)
    }
}
