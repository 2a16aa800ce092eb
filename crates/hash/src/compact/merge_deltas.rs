//! Merges adjacent deltas into one, since a keyspace has at most 255 of them (hash.md, "Cold tier"; hash-protocol.md,
//! invariant 28).

use std::{ops::Range, sync::Arc};

use ecotone_engine::superseded::LeftOut;
use ecotone_substrate::Result;
use ecotone_sys::epoch;

use super::{Compactor, unpublished::UnpublishedFiles};
use crate::{
    cold::{Run, RunKind, RunWriter, Runs, Tags},
    structure::ManifestEdit,
};

impl Compactor<'_> {
    /// Merges the adjacent deltas with the fewest bytes. Tombstones are kept, since a base may have something older.
    ///
    /// # Errors
    /// If memory or disk space is lacking, or I/O fails. Then nothing has changed.
    pub(crate) fn merge(&self) -> Result<()> {
        epoch::assert_unpinned();
        let _guard = self.hash.cold.merge_lock();
        let runs = self.hash.cold.runs();
        let Some(positions) = smallest(&runs, self.limits.merge) else { return Ok(()) };
        let deleted: Vec<Arc<Run>> =
            runs.deltas().runs().skip(positions.start).take(positions.len()).cloned().collect();
        let mut unpublished = UnpublishedFiles::new(self.environment);
        let mut left_out = self.hash.chains.reports.left_out();
        let merged = self.write_merged(&runs, &deleted, &mut unpublished, &mut left_out)?;
        unpublished.sync()?;
        let added = merged.as_ref().map(|(run, _)| run.name().into());
        let change =
            ManifestEdit::MergeDeltas { deleted: deleted.iter().map(|run| run.name().into()).collect(), added };
        let changing = self.hash.cold.change();
        let merged = merged.map(|(run, tags)| (Arc::new(run), tags));
        let before = changing.runs();
        let next = before.with_merged(&self.environment.memory, positions, merged)?;
        let report = || self.hash.chains.reports.report_all(&left_out);
        let record = self.publish(&change, changing, Some(next), unpublished, &report)?;
        self.hash.counts.delta_merges.increment();
        self.install.finish(record)
    }

    /// Writes the merged delta partition by partition, since ranges that are already merged into a base may have been
    /// punched.
    fn write_merged(
        &self,
        runs: &Runs,
        deleted: &[Arc<Run>],
        unpublished: &mut UnpublishedFiles<'_>,
        left_out: &mut LeftOut,
    ) -> Result<Option<(Run, Tags)>> {
        let ends: Vec<(u64, u64)> = deleted.iter().map(|run| ends(run)).collect();
        let kind = RunKind::Delta { from: ends[0].0, until: ends[ends.len() - 1].1 };
        let mut writer = RunWriter::create(self.environment, self.install.name()?, kind, self.block_for(deleted))?;
        for partition in runs.partitions() {
            let counting = deleted.iter().zip(&ends).filter(|(_, (_, until))| *until > partition.merged_until());
            let counting = counting.map(|(run, _)| run.clone()).rev().collect();
            self.union(counting, partition.hash_range(), left_out, |hash, key, value| writer.push(hash, key, value))?;
        }
        let merged = writer.finish()?;
        merged.iter().for_each(|(run, _)| unpublished.push(run));
        Ok(merged)
    }
}

/// The addresses of the hot log that a delta covers.
fn ends(run: &Run) -> (u64, u64) {
    let RunKind::Delta { from, until } = run.kind() else { unreachable!("a base is not among the deltas") };
    (from, until)
}

/// The positions of the `count` adjacent deltas with the fewest bytes; `None` if there are not two deltas.
fn smallest(runs: &Runs, count: usize) -> Option<Range<usize>> {
    let bytes: Vec<u64> = runs.deltas().runs().map(|run| run.bytes()).collect();
    let count = count.min(bytes.len());
    let first = (0..=bytes.len() - count).min_by_key(|first| bytes[*first..][..count].iter().sum::<u64>())?;
    (count > 1).then_some(first..first + count)
}
