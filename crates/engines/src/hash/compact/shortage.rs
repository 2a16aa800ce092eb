//! How short the space is that a keyspace may have of the disk (H12; decision 9, "Compaction, budgets, back-pressure").

use super::{Compactor, install::Disk};
use crate::hash::log::PAGE;

/// The part of the budget from which on there is enough.
const ENOUGH: u64 = 16;
/// What tags, fences and the ends of blocks add to the records of a run, as a part of them.
const EXTRA: u64 = 16;
/// Space is reserved by the MiB: for a delta, and for two bases that a fold writes.
const ROUNDING: u64 = 3 << 20;
/// How short space is where what is in the hot log is compacted, however little it is beyond a delta: it counts twice.
/// Who writes is slowed down for it from 0.75 on.
const SHORT: f64 = 0.5;
/// The part of the budget for which all partitions are folded, and bytes of a tombstone in the hot log.
const WORTH: u64 = 64;
pub(super) const TOMBSTONE: u64 = 32;

impl Compactor<'_> {
    /// How short space is, from 0, where there is enough or no budget, to 1, where no more can be written without that
    /// of old versions.
    pub(crate) fn shortage(&self) -> f64 {
        let Some(disk) = self.install.disk() else { return 0.0 };
        let spare = disk.limit.saturating_sub(disk.used + self.needed(disk));
        1.0 - (spare as f64 / (disk.limit / ENOUGH) as f64).min(1.0)
    }

    /// Whether space is short, and the hot log has a delta's worth; or there is none, and it has as many records as
    /// would be worth it if all of them were tombstones. A fold of everything follows then.
    pub(super) fn may_save_space(&self) -> bool {
        let Some(disk) = self.install.disk() else { return false };
        let runs = self.hash.cold.runs();
        let mean = (runs.base_bytes() / runs.base_records().max(1)).max(1);
        let (shortage, delta) = (self.shortage(), self.goals.delta(self.hot()));
        let enough = if shortage < 1.0 { delta } else { (disk.limit / WORTH * TOMBSTONE / mean).min(delta).max(PAGE) };
        shortage >= SHORT && self.hot_bytes() >= enough
    }

    /// Bytes without which what has begun cannot come to its end: all of the hot log is compacted, what is in memory of
    /// it flushed before, and a partition is folded or deltas are merged.
    fn needed(&self, disk: Disk) -> u64 {
        let (bounds, runs) = (self.hash.log.bounds(), self.hash.cold.runs());
        let (compacted, behind) = (self.hot_bytes(), bounds.flushed().max(bounds.begin()).get());
        let flushed = self.hash.log.tail().get().saturating_sub(behind);
        let merged = runs.delta_bytes() * self.goals.merge as u64 / self.goals.merge_at as u64;
        let written = compacted + runs.largest_fold().max(merged);
        flushed + disk.segment + written + written / EXTRA + ROUNDING
    }
}
