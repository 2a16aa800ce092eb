//! Folding: a partition's base and what deltas have of it become its new base, or two (decision 9, "Folding a
//! partition"; decision 10, invariants 28 and 29).

use std::{cmp::Reverse, ops::RangeInclusive, sync::Arc};

use ecotone_substrate::{Result, memory::Component, storage::Block};
use ecotone_sys::{chunk::Size, epoch};

use super::{Compactor, WINDOWS, unnamed::Unnamed};
use crate::hash::{
    cold::{Cursor, Part, Partition, Run, RunKind, RunWriter, Runs, Stretch, Union},
    log::Address,
    structure::{self, Change},
};

impl Compactor<'_> {
    /// Whether it is time for a fold.
    pub(crate) fn fold_is_due(&self) -> bool {
        self.may_fold(&self.hash.cold.runs())
    }

    fn may_fold(&self, runs: &Runs) -> bool {
        self.goals.fold_is_due(runs, self.shortage()) || self.is_littered() && runs.delta_tombstones() > 0
    }

    /// Folds the partition whose turn it is, if it is time for a fold. Whether it was.
    ///
    /// # Errors
    /// If memory or space on the disk is wanting, or I/O fails. Then nothing has changed.
    pub(crate) fn fold_if_due(&self) -> Result<bool> {
        self.fold_next(|runs| self.may_fold(runs))
    }

    /// Folds the partition whose turn it is, if any delta has something of it. Whether one has.
    ///
    /// # Errors
    /// As for [`fold_if_due`](Self::fold_if_due).
    #[cfg(test)]
    pub(crate) fn fold_any(&self) -> Result<bool> {
        self.fold_next(|runs| !runs.deltas().is_empty())
    }

    fn fold_next(&self, due: impl FnOnce(&Runs) -> bool) -> Result<bool> {
        epoch::assert_unpinned();
        let _turn = self.hash.cold.fold_turn();
        self.hash.cold.punch(|record| self.install.is_synced(record))?;
        let runs = self.hash.cold.runs();
        if !due(&runs) {
            return Ok(false);
        }
        // The one that was folded longest ago: a hand that goes round.
        let next = runs.partitions().min_by_key(|partition| partition.folded()).expect("there is a partition");
        let halves = next.stretch().halves().filter(|_| self.goals.halves(&runs, next));
        let stretches = halves.map_or_else(|| vec![next.stretch()], Vec::from);
        self.fold(next, &stretches, runs.deltas().until())?;
        Ok(true)
    }

    /// Writes bases for these stretches, which are all of a partition, with what all of its deltas have that are there
    /// now; they end at `until`.
    fn fold(&self, partition: &Arc<Partition>, stretches: &[Stretch], until: u64) -> Result<()> {
        let mut unnamed = Unnamed::new(self.environment);
        let write = |stretch: &Stretch| Ok((*stretch, self.write_base(partition, *stretch, &mut unnamed)?));
        let parts: Vec<Part<Arc<Run>>> = stretches.iter().map(write).collect::<Result<_>>()?;
        unnamed.sync()?;
        let goes = named(partition.stretch(), partition.base());
        let comes = parts.iter().map(|(stretch, base)| named(*stretch, base.as_ref())).collect();
        let change = Change::Fold { goes, comes, folded: Address::new(until) };
        let changing = self.hash.cold.change();
        let before = changing.runs();
        let next = before.with_folded(self.environment, &parts, until);
        let record = self.publish(&change, changing, Some(next), unnamed)?;
        self.hash.cold.folded(partition, record);
        self.hash.counts.folds.increment();
        self.install.conclude(record)
    }

    /// Nothing is older than what a base and all deltas have, so tombstones end here (trap 9).
    fn write_base(
        &self,
        partition: &Partition,
        stretch: Stretch,
        unnamed: &mut Unnamed<'_>,
    ) -> Result<Option<Arc<Run>>> {
        let runs: Vec<_> = partition.runs().collect();
        let block = self.block_for(&runs);
        let mut writer = RunWriter::create(self.environment, self.install.name()?, RunKind::Base(stretch), block)?;
        self.union(runs, stretch, |hash, key, value| match value {
            Some(_) => writer.push(hash, key, value),
            None => Ok(()),
        })?;
        let base = writer.finish()?.map(|(run, _)| Arc::new(run));
        base.iter().for_each(|base| unnamed.push(base));
        Ok(base)
    }

    /// Gives what runs have of a stretch to `take`, of each key what the youngest has. The youngest run comes first.
    pub(super) fn union(
        &self,
        runs: Vec<Arc<Run>>,
        stretch: Stretch,
        take: impl FnMut(u64, &[u8], Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let hashes = stretch.hashes();
        let windows = self.windows(&runs, &hashes)?;
        let hash_of = |key: &[u8]| self.hash.key(key).hash;
        let cursors =
            runs.into_iter().zip(windows).map(|(run, window)| Cursor::new(run, hashes.clone(), window)).collect();
        Union::new(cursors, &hash_of)?.each(take)
    }

    /// Blocks of the size of the largest that the runs have, in which every record has room.
    pub(super) fn block_for(&self, runs: &[Arc<Run>]) -> usize {
        runs.iter().map(|run| run.block_size()).max().unwrap_or(self.goals.block)
    }

    /// A window for each run, a large one for those that have most of these hashes.
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

/// A part as the structure has it.
fn named(stretch: Stretch, base: Option<&Arc<Run>>) -> structure::Part {
    structure::Part { stretch, base: base.map(|base| base.name().into()) }
}
