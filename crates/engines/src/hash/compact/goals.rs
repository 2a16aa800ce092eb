//! How the cold tier is kept (decision 9, "The cold tier").

use crate::hash::{
    Compaction, HashOptions,
    cold::{Partition, Runs},
    log::{FRAME, PAGE},
};

/// The most bytes of hot log that become one delta, and the parts of the hot log and of the budget that a delta has at
/// least.
const MOST_DELTA: u64 = 16 << 20;
const OF_HOT: u64 = 10;
const OF_BUDGET: u64 = 32;
/// The part of the bases that the hot log may have on disk.
const OF_BASES: u64 = 8;
/// How many times the budget of memory it may have there on purpose: the index, which names all of that, has a tenth of
/// it.
const OF_MEMORY: u64 = 4;

/// Bytes of hot log that an opening links in less than a quarter of a second, however small records are, and of which
/// the smallest budget has room for an index.
const LEFT_AT_CLOSE: u64 = 8 << 20;

/// The parts of a budget of disk that the hot log has at most, and a base, and the least that either has.
const OF_DISK: u64 = 32;
const LEAST_OF_DISK: u64 = 4 * FRAME;

/// Sizes and numbers of the hot log and the cold tier.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goals {
    /// Bytes that the hot log has at most, however much memory there is for it.
    pub(crate) most_hot: u64,
    /// Bytes of it that stay on disk on purpose, beside what is in memory.
    pub(crate) hot_disk: u64,
    /// Bytes of it beside these that are left when the database is closed.
    pub(crate) left_at_close: u64,
    /// How what lives of it is found.
    pub(crate) compaction: Compaction,
    /// Bytes of it that become one delta, if a tenth of it is less.
    pub(crate) least_delta: u64,
    /// Bytes of the smallest blocks of a run.
    pub(crate) block: usize,
    /// Bytes of deltas at which a partition is folded, in percent of those of its base.
    pub(crate) fold_percent: u64,
    /// Bytes of deltas below which none is folded, whatever bases have.
    pub(crate) least_deltas: u64,
    /// Bytes of the mean base from which on partitions are halved.
    pub(crate) largest_base: u64,
    /// Bytes of hot log on disk at which writers wait for compaction, at least and at most: an eighth of the bases in
    /// between. The index names all of it, and an opening reads it.
    pub(crate) least_behind: u64,
    pub(crate) most_behind: u64,
    /// Deltas at which some are merged, and how many.
    pub(crate) merge_at: usize,
    pub(crate) merge: usize,
}

impl Goals {
    /// So small that whoever writes little sees all of it: for tests.
    pub(crate) const TINY: Goals = Goals {
        most_hot: 2 * FRAME,
        hot_disk: 0,
        left_at_close: FRAME / 2,
        compaction: Compaction::Lookup,
        least_delta: FRAME,
        block: 1024,
        fold_percent: 50,
        least_deltas: FRAME / 8,
        largest_base: FRAME / 4,
        least_behind: 64 * FRAME,
        most_behind: 1024 * FRAME,
        merge_at: 6,
        merge: 3,
    };

    /// So small that this goes on all the time: for tests of what goes on beside it.
    pub(crate) const BUSY: Goals = Goals {
        most_hot: 2 * PAGE,
        left_at_close: PAGE,
        least_delta: PAGE,
        fold_percent: 20,
        least_deltas: PAGE / 8,
        largest_base: PAGE,
        ..Goals::TINY
    };

    /// Within a budget of memory.
    pub(crate) fn within(budget: u64) -> Goals {
        Goals {
            most_hot: u64::MAX,
            hot_disk: 0,
            left_at_close: LEFT_AT_CLOSE,
            compaction: Compaction::Lookup,
            least_delta: budget / OF_BUDGET,
            block: 4096,
            fold_percent: 50,
            least_deltas: 1 << 20,
            largest_base: 16 << 20,
            least_behind: 64 << 20,
            most_behind: budget,
            merge_at: 240,
            merge: 16,
        }
    }

    /// As options say. A budget of disk is kept by smaller steps.
    pub(crate) fn chosen(self, options: HashOptions) -> Goals {
        let most = options.disk.map_or(u64::MAX, |disk| (disk / OF_DISK).max(LEAST_OF_DISK));
        let (most_hot, largest_base) = (self.most_hot.min(most), self.largest_base.min(most));
        let HashOptions { hot_disk, compaction, .. } = options;
        let hot_disk = hot_disk.min(OF_MEMORY * self.most_behind);
        Goals { most_hot, hot_disk, compaction, largest_base, ..self }
    }

    /// Bytes at which a hot log is compacted that may have so many in memory. What is left is for who writes meanwhile.
    pub(super) fn hot(&self, memory: u64) -> u64 {
        (memory / 16 * 13).min(self.most_hot)
    }

    /// Bytes of a hot log that become one delta, if it is compacted at so many.
    pub(super) fn delta(&self, hot: u64) -> u64 {
        (hot / OF_HOT).max(self.least_delta).min(MOST_DELTA).min(hot / 2)
    }

    /// Bytes of hot log on disk at which writers wait.
    pub(crate) fn behind(&self, runs: &Runs) -> u64 {
        (runs.base_bytes() / OF_BASES).min(self.most_behind).max(self.least_behind)
    }

    /// Whether it is time for a fold. One partition is folded after the other, so those that were folded have on
    /// average half of what the next one has. The shorter space is, the sooner: where there is none, as long as there
    /// are deltas.
    pub(super) fn fold_is_due(&self, runs: &Runs, shortage: f64) -> bool {
        let most = (runs.base_bytes() * self.fold_percent / 200).max(self.least_deltas);
        runs.delta_bytes() > (most as f64 * (1.0 - shortage)) as u64
    }

    /// Whether a partition is to be halved when it is folded. While some are halves, the others follow.
    pub(super) fn halves(&self, runs: &Runs, partition: &Partition) -> bool {
        let bits = runs.partitions().map(|partition| partition.stretch().bits());
        let (least, most) = bits.fold((u8::MAX, 0), |(least, most), bits| (least.min(bits), most.max(bits)));
        let mean = runs.base_bytes() / runs.partitions().count() as u64;
        partition.stretch().bits() == least && (most > least || mean > self.largest_base)
    }
}
