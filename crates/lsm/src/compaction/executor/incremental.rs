//! Incremental compaction. If the disk has no room for the whole output of a job before its inputs are deleted, the job
//! runs in slices of the key range, and deletes the inputs of each slice before it begins the next (lsm.md,
//! "Compaction").

use std::{ops::Bound, sync::Arc};

use ecotone_substrate::Result;

use super::{Compaction, job::MergeTask, merge::MergedTables};
use crate::{
    compaction::strategy::plan::{CompactionPlan, range},
    manifest::{RunId, VersionEdit},
    version::{Run, TableMeta, table_replacement::TableReplacement},
};

/// Divisors of the free space: a job that would take more than half of it runs in slices, and a slice takes a quarter
/// of it.
const JOB_PART: u64 = 2;
const SLICE_PART: u64 = 4;
/// For tests: one of this many jobs runs in slices, however much space there is.
const BY_CHANCE: u64 = 3;

/// One slice: tables of the target level, and the first key behind the slice, if there is one.
#[derive(Debug)]
struct Increment<T> {
    tables: Vec<Arc<T>>,
    end: Option<Vec<u8>>,
}

impl<T: TableMeta> Increment<T> {
    /// The next slice of a level's tables from a key on: tables of at most `most` bytes, or one table. They begin where
    /// the previous slice ended.
    fn first(tables: &[Arc<T>], from: Option<&[u8]>, most: u64) -> Increment<T> {
        let left = &tables[tables.partition_point(|table| from.is_some_and(|from| table.first() < from))..];
        let mut bytes = 0;
        let fit = left.iter().take_while(|table| {
            bytes += table.bytes();
            bytes <= most
        });
        let (its, others) = left.split_at(fit.count().max(1).min(left.len()));
        Increment { tables: its.to_vec(), end: others.first().map(|next| next.first().to_vec()) }
    }
}

impl<T: TableMeta> CompactionPlan<T> {
    /// The inputs above the target level, with their runs.
    fn uppers(&self) -> Vec<(RunId, Run<T>)> {
        self.inputs.iter().filter(|(run_id, _)| *run_id != self.target).cloned().collect()
    }
}

impl Compaction<'_> {
    /// The most bytes of target tables in a slice, if the job is to run in slices.
    pub(super) fn increment_bytes(&self) -> Result<Option<u64>> {
        let (lsm, plan) = (self.lsm, &self.plan);
        if plan.target.is_l0() {
            return Ok(None);
        }
        let free = lsm.files.environment().storage.free_space()?;
        let is_scarce = free / JOB_PART < plan.bytes();
        let by_chance = lsm.tuning.slices && lsm.files.context().shared.clock.random().is_multiple_of(BY_CHANCE);
        Ok((is_scarce || by_chance)
            .then(|| if is_scarce { (free / SLICE_PART).max(lsm.tuning.table) } else { lsm.tuning.table }))
    }

    /// Runs the compaction slice by slice. Each slice replaces tables of the target level by their merge with the upper
    /// inputs in its key range. The upper inputs are deleted with the last slice. Until then their records are in the
    /// target too, where no read reaches them, since the upper copies come first. So the job may stop after any slice.
    /// It needs extra space for one slice and for the records that move into the target.
    pub(super) fn run_incrementally(self, most: u64) -> Result<()> {
        let (lsm, is_awaited, target, uppers) = (self.lsm, self.is_awaited, self.plan.target, self.plan.uppers());
        // A replaced table must not be referenced, or its space is not freed.
        drop(self);
        let mut from: Option<Vec<u8>> = None;
        loop {
            let version = lsm.version();
            let reach = range(uppers.iter().flat_map(|(_, run)| run.tables())).expect("something comes from above");
            let level = version.run(target).map_or(&[][..], |run| run.overlapping(&reach));
            let Increment { tables, end } = Increment::first(level, from.as_deref(), most);
            let keys =
                (from.map_or(Bound::Unbounded, Bound::Included), end.clone().map_or(Bound::Unbounded, Bound::Excluded));
            let inputs = uppers
                .iter()
                .cloned()
                .chain((!tables.is_empty()).then(|| (target, Run::part(tables.clone()))))
                .collect();
            let plan = CompactionPlan::of_inputs(inputs, target);
            let merge = MergeTask { version: &version, plan: &plan, slice: Some(keys), is_awaited };
            let MergedTables { tables: added, left_out } = merge.run(lsm)?;
            let added: Vec<_> = added.into_iter().map(|reader| (target, reader)).collect();
            let above = uppers.iter().flat_map(|(_, run)| run.tables()).filter(|_| end.is_none());
            let gone: Vec<_> = tables.into_iter().chain(above.cloned()).collect();
            let edit =
                VersionEdit { deleted: gone.iter().map(|reader| reader.file()).collect(), ..VersionEdit::default() };
            TableReplacement { edit, output: &added, left_out, boundary_tables: &[], uncached: &[] }
                .install(lsm, &version)?;
            gone.iter().for_each(|reader| lsm.files.release(reader));
            lsm.compactor.slices.increment();
            drop((plan, gone, added, version));
            lsm.files.finish()?;
            from = end;
            if from.is_none() {
                return Ok(());
            }
        }
    }
}
