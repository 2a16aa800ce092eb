//! Merging: neighbours among the deltas become one, since a keyspace has at most 255 (decision 9, "Merging"; decision
//! 10, invariant 28).

use std::{ops::Range, sync::Arc};

use ecotone_substrate::Result;
use ecotone_sys::epoch;

use super::{Compactor, unnamed::Unnamed};
use crate::hash::{
    cold::{Run, RunKind, RunWriter, Runs, Tags},
    structure::Change,
};

impl Compactor<'_> {
    /// Merges the neighbours that have least. They keep their tombstones, since something older may be in a base.
    ///
    /// # Errors
    /// If memory or space on the disk is wanting, or I/O fails. Then nothing has changed.
    pub(crate) fn merge(&self) -> Result<()> {
        epoch::assert_unpinned();
        let _turn = self.hash.cold.fold_turn();
        let runs = self.hash.cold.runs();
        let Some(positions) = smallest(&runs, self.goals.merge) else { return Ok(()) };
        let goes: Vec<Arc<Run>> = runs.deltas().runs().skip(positions.start).take(positions.len()).cloned().collect();
        let mut unnamed = Unnamed::new(self.environment);
        let merged = self.write_merged(&runs, &goes, &mut unnamed)?;
        unnamed.sync()?;
        let comes = merged.as_ref().map(|(run, _)| run.name().into());
        let change = Change::Merge { goes: goes.iter().map(|run| run.name().into()).collect(), comes };
        let changing = self.hash.cold.change();
        let merged = merged.map(|(run, tags)| (Arc::new(run), tags));
        let before = changing.runs();
        let next = before.with_merged(&self.environment.memory, positions, merged)?;
        let record = self.publish(&change, changing, Some(next), unnamed)?;
        self.hash.counts.merges.increment();
        self.install.conclude(record)
    }

    /// Partition by partition, since what is folded already may have been punched.
    fn write_merged(&self, runs: &Runs, goes: &[Arc<Run>], unnamed: &mut Unnamed<'_>) -> Result<Option<(Run, Tags)>> {
        let ends: Vec<(u64, u64)> = goes.iter().map(|run| ends(run)).collect();
        let kind = RunKind::Delta { from: ends[0].0, until: ends[ends.len() - 1].1 };
        let mut writer = RunWriter::create(self.environment, self.install.name()?, kind, self.block_for(goes))?;
        for partition in runs.partitions() {
            let counting = goes.iter().zip(&ends).filter(|(_, (_, until))| *until > partition.folded());
            let counting = counting.map(|(run, _)| run.clone()).rev().collect();
            self.union(counting, partition.stretch(), |hash, key, value| writer.push(hash, key, value))?;
        }
        let merged = writer.finish()?;
        merged.iter().for_each(|(run, _)| unnamed.push(run));
        Ok(merged)
    }
}

/// The addresses between which a delta has what lived.
fn ends(run: &Run) -> (u64, u64) {
    let RunKind::Delta { from, until } = run.kind() else { unreachable!("a base is not among the deltas") };
    (from, until)
}

/// The positions of as many neighbours that have least together; `None` if there are not two.
fn smallest(runs: &Runs, count: usize) -> Option<Range<usize>> {
    let bytes: Vec<u64> = runs.deltas().runs().map(|run| run.bytes()).collect();
    let count = count.min(bytes.len());
    let first = (0..=bytes.len() - count).min_by_key(|first| bytes[*first..][..count].iter().sum::<u64>())?;
    (count > 1).then_some(first..first + count)
}
