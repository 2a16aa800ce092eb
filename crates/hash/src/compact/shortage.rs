//! Shortage of disk space under a disk budget (H12; hash.md, "Back-pressure and space").

use super::{Compactor, install::Disk};
use crate::log::PAGE;

/// With one part in this many of the budget to spare there is no shortage.
const ENOUGH: u64 = 16;
/// Tags, fences and the ends of blocks add one part in this many to the records of a run.
const EXTRA: u64 = 16;
/// Space is reserved in units of a MiB: rounding for a delta, and for the two bases that a merge writes.
const ROUNDING: u64 = 3 << 20;
/// Shortage from which on the hot log is compacted, however little it has beyond a delta: its bytes count twice, as
/// flushed and as compacted. Writers are slowed down from 0.75 on.
const SHORT: f64 = 0.5;
/// Merging all partitions is worth it if it may free one part in `WORTH` of the budget. `TOMBSTONE` is the size of a
/// tombstone in the hot log.
const WORTH: u64 = 64;
pub(super) const TOMBSTONE: u64 = 32;

impl Compactor<'_> {
    /// Shortage of space, from 0 with enough space or without a budget, to 1 if nothing more can be written until old
    /// versions are freed.
    pub(crate) fn shortage(&self) -> f64 {
        let Some(disk) = self.install.disk() else { return 0.0 };
        let spare = disk.limit.saturating_sub(disk.used + self.needed(disk));
        1.0 - (spare as f64 / (disk.limit / ENOUGH) as f64).min(1.0)
    }

    /// Whether compaction may free space: space is short, and the hot log has enough for a delta; or no space is left,
    /// and the hot log has so many records that, if all were tombstones, merging everything would be worth it. Such a
    /// merge follows then.
    pub(super) fn may_save_space(&self) -> bool {
        let Some(disk) = self.install.disk() else { return false };
        let runs = self.hash.cold.runs();
        let mean = (runs.base_bytes() / runs.base_records().max(1)).max(1);
        let (shortage, delta) = (self.shortage(), self.limits.delta(self.hot()));
        let enough = if shortage < 1.0 { delta } else { (disk.limit / WORTH * TOMBSTONE / mean).min(delta).max(PAGE) };
        shortage >= SHORT && self.hot_bytes() >= enough
    }

    /// Bytes that work in progress needs to finish: the part of the hot log in memory is flushed, the whole hot log is
    /// compacted, and a partition is merged into its base run or deltas are merged.
    fn needed(&self, disk: Disk) -> u64 {
        let (bounds, runs) = (self.hash.chains.log.bounds(), self.hash.cold.runs());
        let (compacted, behind) = (self.hot_bytes(), bounds.flushed().max(bounds.begin()).get());
        let flushed = self.hash.chains.log.tail().get().saturating_sub(behind);
        let merged = runs.delta_bytes() * self.limits.merge as u64 / self.limits.merge_at as u64;
        let written = compacted + runs.largest_base_merge().max(merged);
        flushed + disk.segment + written + written / EXTRA + ROUNDING
    }
}
