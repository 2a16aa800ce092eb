//! Merges deltas into base runs. The base of a partition and the deltas' records of its hash range become its new base,
//! or two bases if the partition is halved (hash.md, "Cold tier"; hash-protocol.md, invariants 28 and 29).

use std::{cmp::Reverse, ops::RangeInclusive, sync::Arc};

use ecotone_engine::superseded::LeftOut;
use ecotone_substrate::{Result, memory::Component, storage::Block};
use ecotone_sys::{chunk::Size, epoch};

use super::{Compactor, WINDOWS, unpublished::UnpublishedFiles};
use crate::{
    cold::{Cursor, HashRange, MergingCursor, Partition, PartitionSpec, Run, RunKind, RunWriter, Runs},
    log::Address,
    structure::{self, ManifestEdit},
};

impl Compactor<'_> {
    /// Whether a partition should be merged into its base run.
    pub(crate) fn base_merge_is_due(&self) -> bool {
        self.may_merge_base(&self.hash.cold.runs())
    }

    fn may_merge_base(&self, runs: &Runs) -> bool {
        self.limits.base_merge_is_due(runs, self.shortage()) || self.is_littered() && runs.delta_tombstones() > 0
    }

    /// Merges the next partition into its base run, if that is due. Returns whether it was.
    ///
    /// # Errors
    /// If memory or disk space is lacking, or I/O fails. Then nothing has changed.
    pub(crate) fn merge_base_if_due(&self) -> Result<bool> {
        self.merge_next_base(|runs| self.may_merge_base(runs))
    }

    /// Merges the next partition into its base run, if there are deltas. Returns whether there were.
    ///
    /// # Errors
    /// As for [`merge_base_if_due`](Self::merge_base_if_due).
    #[cfg(test)]
    pub(crate) fn merge_any_base(&self) -> Result<bool> {
        self.merge_next_base(|runs| !runs.deltas().is_empty())
    }

    fn merge_next_base(&self, due: impl FnOnce(&Runs) -> bool) -> Result<bool> {
        epoch::assert_unpinned();
        let _guard = self.hash.cold.merge_lock();
        self.hash.cold.punch(|record| self.install.is_synced(record))?;
        let runs = self.hash.cold.runs();
        if !due(&runs) {
            return Ok(false);
        }
        // The partition that was merged longest ago: partitions are merged in rotation.
        let next = runs.partitions().min_by_key(|partition| partition.merged_until()).expect("there is a partition");
        let halves = next.hash_range().halves().filter(|_| self.limits.halves(&runs, next));
        let hash_ranges = halves.map_or_else(|| vec![next.hash_range()], Vec::from);
        self.merge_into_base(next, &hash_ranges, runs.deltas().until())?;
        Ok(true)
    }

    /// Writes a base for each of `hash_ranges`, which together are the whole partition, from its base and all current
    /// deltas, which end at `until`.
    fn merge_into_base(&self, partition: &Arc<Partition>, hash_ranges: &[HashRange], until: u64) -> Result<()> {
        let mut unpublished = UnpublishedFiles::new(self.environment);
        let mut left_out = self.hash.chains.reports.left_out();
        let write = |hash_range: &HashRange| {
            Ok((*hash_range, self.write_base(partition, *hash_range, &mut unpublished, &mut left_out)?))
        };
        let parts: Vec<PartitionSpec<Arc<Run>>> = hash_ranges.iter().map(write).collect::<Result<_>>()?;
        unpublished.sync()?;
        let deleted = named(partition.hash_range(), partition.base());
        let added = parts.iter().map(|(hash_range, base)| named(*hash_range, base.as_ref())).collect();
        let change = ManifestEdit::MergeIntoBase { deleted, added, merged_until: Address::new(until) };
        let changing = self.hash.cold.change();
        let before = changing.runs();
        let next = before.with_merged_base(self.environment, &parts, until);
        let report = || self.hash.chains.reports.report_all(&left_out);
        let record = self.publish(&change, changing, Some(next), unpublished, &report)?;
        self.hash.cold.finish_merge(partition, record);
        self.hash.counts.base_merges.increment();
        self.install.finish(record)
    }

    /// Writes a base without tombstones: nothing is older than the base and all deltas, so a tombstone hides nothing
    /// any more (trap 9).
    fn write_base(
        &self,
        partition: &Partition,
        hash_range: HashRange,
        unpublished: &mut UnpublishedFiles<'_>,
        left_out: &mut LeftOut,
    ) -> Result<Option<Arc<Run>>> {
        let runs: Vec<_> = partition.runs().collect();
        let block = self.block_for(&runs);
        let mut writer = RunWriter::create(self.environment, self.install.name()?, RunKind::Base(hash_range), block)?;
        self.union(runs, hash_range, left_out, |hash, key, value| match value {
            Some(_) => writer.push(hash, key, value),
            None => Ok(()),
        })?;
        let base = writer.finish()?.map(|(run, _)| Arc::new(run));
        base.iter().for_each(|base| unpublished.push(base));
        Ok(base)
    }

    /// Merges runs within a hash range and passes the youngest record of each key to `take`; the others are left out.
    /// The youngest run comes first.
    pub(super) fn union(
        &self,
        runs: Vec<Arc<Run>>,
        hash_range: HashRange,
        left_out: &mut LeftOut,
        take: impl FnMut(u64, &[u8], Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let hashes = hash_range.hashes();
        let windows = self.windows(&runs, &hashes)?;
        let hash_of = |key: &[u8]| self.hash.chains.key(key).hash;
        let cursors =
            runs.into_iter().zip(windows).map(|(run, window)| Cursor::new(run, hashes.clone(), window)).collect();
        MergingCursor::new(cursors, &hash_of)?.each(left_out, take)
    }

    /// The largest block size of the runs, so that every record fits.
    pub(super) fn block_for(&self, runs: &[Arc<Run>]) -> usize {
        runs.iter().map(|run| run.block_size()).max().unwrap_or(self.limits.block)
    }

    /// Leases a window for each run, a large one for the runs with most bytes in the hash range.
    fn windows(&self, runs: &[Arc<Run>], hashes: &RangeInclusive<u64>) -> Result<Vec<Block>> {
        let memory = &self.environment.memory;
        let mut left = memory.budget() / WINDOWS;
        let mut order: Vec<_> = (0..runs.len()).collect();
        order.sort_by_key(|number| Reverse(runs[*number].bytes_of(hashes)));
        let mut windows: Vec<Option<Block>> = runs.iter().map(|_| None).collect();
        for number in order {
            let large = left >= Size::Slab.bytes() && runs[number].bytes_of(hashes) > Size::Frame.bytes() as u64;
            let slab = if large { memory.lease(Component::Frames, Size::Slab) } else { None };
            let window = match slab {
                Some(slab) => slab,
                None => memory.lease_essential(Component::Frames, Size::Frame)?,
            };
            left = left.saturating_sub(window.len());
            windows[number] = Some(window);
        }
        Ok(windows.into_iter().flatten().collect())
    }
}

/// A partition as the structure names it.
fn named(hash_range: HashRange, base: Option<&Arc<Run>>) -> structure::PartitionEntry {
    structure::PartitionEntry { hash_range, base: base.map(|base| base.name().into()) }
}
