//! A compaction plan: the inputs of one compaction, where its output goes, and the score by which plans are compared
//! (lsm.md, "Compaction").

use std::{ops::RangeInclusive, sync::Arc};

use ecotone_substrate::{limits::PAGE, table::FileRef};

use crate::{
    manifest::{LevelId, RunId},
    version::{Run, TableMeta, Version},
};

/// Tables of one run or level.
pub(crate) type LevelTables<T> = (RunId, Vec<Arc<T>>);

/// The inputs of one compaction, the run or level where its output goes, and its score.
#[derive(Debug)]
pub(crate) struct CompactionPlan<T> {
    /// From young to old, with their runs; tables of the target level come last.
    pub(crate) inputs: Vec<(RunId, Run<T>)>,
    /// A level below the other inputs, or the youngest input run in an intra-L0 merge.
    pub(crate) target: RunId,
    /// Benefit in bytes: the bytes that move into the target, the records that tombstones hide, and the pages of
    /// false-positive reads.
    pub(crate) score: u64,
    /// The level whose compaction cursor has a part in the choice, and advances with it.
    pub(super) cursor_level: Option<LevelId>,
    /// Bytes of all inputs.
    all: u64,
}

impl<T: TableMeta> CompactionPlan<T> {
    /// A plan that merges these tables, from young to old, with the tables of `level` that they overlap.
    pub(crate) fn of(version: &Version<T>, tables: Vec<LevelTables<T>>, level: LevelId) -> Option<CompactionPlan<T>> {
        let (range, target) = (range(all(&tables))?, RunId::Level(level));
        let overlapped = vec![(target, version.run(target).map_or(&[][..], |run| run.overlapping(&range)).to_vec())];
        let (score, all) = (score(&tables, &overlapped), bytes(&tables) + bytes(&overlapped));
        let inputs = tables.into_iter().chain(overlapped).filter(|(_, tables)| !tables.is_empty());
        let inputs = inputs.map(|(run_id, tables)| (run_id, Run::part(tables))).collect();
        Some(CompactionPlan { inputs, target, score, cursor_level: None, all })
    }

    /// A plan of these inputs, from young to old, those of the target level last.
    pub(crate) fn of_inputs(inputs: Vec<(RunId, Run<T>)>, target: RunId) -> CompactionPlan<T> {
        let all = inputs.iter().flat_map(|(_, run)| run.tables()).map(|table| table.bytes()).sum();
        CompactionPlan { inputs, target, score: all, cursor_level: None, all }
    }

    /// The same plan with another score.
    pub(crate) fn with_score(self, score: u64) -> CompactionPlan<T> {
        CompactionPlan { score, ..self }
    }

    /// The same plan, in whose choice the cursor of a level had a part.
    pub(super) fn at_cursor(self, level: LevelId) -> CompactionPlan<T> {
        CompactionPlan { cursor_level: Some(level), ..self }
    }

    /// The files of all inputs.
    pub(crate) fn files(&self) -> Vec<FileRef> {
        self.inputs.iter().flat_map(|(_, run)| run.files()).collect()
    }

    /// Benefit in bytes.
    pub(crate) fn score(&self) -> u64 {
        self.score
    }

    /// Bytes of all inputs.
    pub(crate) fn bytes(&self) -> u64 {
        self.all
    }

    /// The inputs in L0.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Arc<T>> + Clone {
        self.inputs.iter().filter(|(run_id, _)| run_id.is_l0()).flat_map(|(_, run)| run.tables())
    }

    /// The only input, if it overlaps nothing in the target.
    pub(crate) fn trivial_move(&self) -> Option<&Arc<T>> {
        match &self.inputs[..] {
            [(_, run)] if run.tables().len() == 1 => run.tables().first(),
            _ => None,
        }
    }

    /// Whether its score per byte of input is higher.
    fn is_better_than(&self, other: &CompactionPlan<T>) -> bool {
        u128::from(self.score) * u128::from(other.all) > u128::from(other.score) * u128::from(self.all)
    }
}

impl<T> Clone for CompactionPlan<T> {
    fn clone(&self) -> CompactionPlan<T> {
        CompactionPlan { inputs: self.inputs.clone(), ..*self }
    }
}

pub(crate) fn all<T>(placed: &[LevelTables<T>]) -> impl Iterator<Item = &Arc<T>> + Clone {
    placed.iter().flat_map(|(_, tables)| tables)
}

fn bytes<T: TableMeta>(placed: &[LevelTables<T>]) -> u64 {
    all(placed).map(|table| table.bytes()).sum()
}

/// Score: bytes moved, records that tombstones hide, and false-positive reads, each of which read one page.
fn score<T: TableMeta>(tables: &[LevelTables<T>], others: &[LevelTables<T>]) -> u64 {
    let records: u64 = all(others).map(|table| table.records().0).sum();
    let hidden = bytes(others) / records.max(1);
    let score =
        |table: &Arc<T>| table.bytes() + table.records().1 * hidden + table.false_positive_reads() * PAGE as u64;
    all(tables).map(score).sum()
}

pub(crate) fn best<T: TableMeta>(plans: impl Iterator<Item = CompactionPlan<T>>) -> Option<CompactionPlan<T>> {
    plans.reduce(|best, other| if other.is_better_than(&best) { other } else { best })
}

/// The first and the last key of these tables.
pub(crate) fn range<'t, T: TableMeta + 't>(
    tables: impl Iterator<Item = &'t Arc<T>> + Clone,
) -> Option<RangeInclusive<&'t [u8]>> {
    let first = tables.clone().map(|table| table.first()).min()?;
    Some(first..=tables.map(|table| table.last()).max()?)
}
