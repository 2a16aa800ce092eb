//! Picks the next compaction: by level scores, level 0's runs, false-positive reads and tombstones. Everything here
//! works on a [`Version`] alone and does no I/O (lsm.md, "Compaction").

pub(crate) mod cursors;
pub(crate) mod l0_groups;
pub(crate) mod range_compaction;
pub(crate) mod read_budget;
pub(crate) mod tombstones;

use std::{collections::BTreeSet, ops::RangeInclusive, slice, sync::Arc};

use ecotone_substrate::{limits::PAGE, table::FileRef};

use crate::{
    compaction::strategy::cursors::CompactionCursors,
    manifest::{LevelId, RunId},
    version::{Run, TableMeta, Version},
};

/// Number of level 0's runs from which it is compacted if it has enough bytes, and from which small runs are merged
/// within level 0; and the number from which it is compacted in any case.
pub(crate) const L0_COMPACTION_TRIGGER: usize = if cfg!(feature = "shuttle") { 2 } else { 4 };
pub(crate) const L0_URGENT_TRIGGER: usize = 8;

/// The most bytes that adjacent runs of level 0 may have together to be merged within level 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntraL0Limits {
    /// For size-tiered merges of a few runs, of which none is large beside the others.
    pub(crate) few: u64,
    /// For any runs: what scans have paid for (the read budget).
    pub(crate) budget: u64,
}

impl IntraL0Limits {
    /// No intra-L0 merges.
    pub(crate) const NONE: IntraL0Limits = IntraL0Limits { few: 0, budget: 0 };
}

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
        Some(CompactionPlan { inputs, target, score, all })
    }

    /// A plan of these inputs, from young to old, those of the target level last.
    pub(crate) fn of_inputs(inputs: Vec<(RunId, Run<T>)>, target: RunId) -> CompactionPlan<T> {
        let all = inputs.iter().flat_map(|(_, run)| run.tables()).map(|table| table.bytes()).sum();
        CompactionPlan { inputs, target, score: all, all }
    }

    /// The same plan with another score.
    pub(crate) fn with_score(self, score: u64) -> CompactionPlan<T> {
        CompactionPlan { score, ..self }
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

    /// The inputs in level 0.
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
        let CompactionPlan { inputs, target, score, all } = self;
        CompactionPlan { inputs: inputs.clone(), target: *target, score: *score, all: *all }
    }
}

impl<T: TableMeta> Version<T> {
    /// Whether a compaction is due. `l0_target` is the target size of level 0.
    pub(crate) fn is_due(&self, l0_target: u64, small: IntraL0Limits) -> bool {
        self.l0_score(l0_target).is_some()
            || self.plan_intra_l0(small).is_some()
            || self.levels(l0_target).next().is_some()
            || self.plan_tombstone_dense().is_some()
    }

    /// The next compaction, if one is due. `l0_target` is the target size of level 0.
    pub(crate) fn pick_compaction(
        &self,
        l0_target: u64,
        small: IntraL0Limits,
        cursors: &mut CompactionCursors,
    ) -> Option<CompactionPlan<T>> {
        let level = self.levels(l0_target).max_by(|a, b| a.0.total_cmp(&b.0));
        match (self.l0_score(l0_target), level) {
            (Some(runs), Some((excess, level))) if excess > runs => self.next_plan_of_level(level, cursors),
            // The remainder of runs that have mostly moved down is merged within level 0 rather than moved down.
            (Some(_), _) => {
                self.plan_intra_l0(IntraL0Limits { budget: 0, ..small }).or_else(|| self.plan_l0(l0_target))
            }
            (None, level) => {
                let level = || level.and_then(|(_, level)| self.next_plan_of_level(level, cursors));
                self.plan_intra_l0(small).or_else(level).or_else(|| self.plan_tombstone_dense())
            }
        }
    }

    /// Whether any table is above the last level. Only such tables can hide older records.
    pub(crate) fn has_tables_above_last(&self) -> bool {
        self.runs().any(|(run_id, _)| run_id != RunId::LAST)
    }

    /// A compaction of the youngest run or level above the last one, however small it is. It is for a full disk, which
    /// needs the space of hidden records.
    pub(crate) fn plan_above_last(&self, l0_target: u64) -> Option<CompactionPlan<T>> {
        let (run_id, _) = self.runs().next()?;
        match run_id {
            RunId::L0(_) => self.plan_l0(l0_target),
            RunId::LAST => None,
            RunId::Level(level) => self.plan_level(level, |_| true),
        }
    }

    /// The best compaction of a level, or now and then that of the table at the compaction cursor.
    fn next_plan_of_level(&self, level: LevelId, cursors: &mut CompactionCursors) -> Option<CompactionPlan<T>> {
        let Some(last) = cursors.next_round_robin(level) else { return self.plan_level(level, |_| true) };
        let tables = self.run(RunId::Level(level))?.tables();
        let next = tables.iter().find(|table| *table.first() > **last).or(tables.first())?;
        *last = next.last().to_vec();
        self.plan_level(level, |table| table.file() == next.file())
    }

    /// The intra-L0 merge of adjacent runs that reads the fewest bytes for each run that it saves, if the limits allow
    /// one. A small run costs a scan as much as a large one.
    pub(crate) fn plan_intra_l0(&self, small: IntraL0Limits) -> Option<CompactionPlan<T>> {
        let runs: Vec<_> = self.l0_runs().map(|(run_id, run)| (run_id, run, self.bytes_at(run_id))).collect();
        let from = |first: usize| {
            [size_tiered_runs(&runs[first..], small.few), read_triggered_runs(&runs[first..], small.budget)]
        };
        let plans = (0..runs.len()).flat_map(from).flatten();
        plans.min_by_key(|plan| plan.all / (plan.inputs.len() as u64 - 1))
    }

    /// A compaction of a level, or of level 0 for `None`, that takes some of these tables, as long as any of them are
    /// there.
    pub(crate) fn plan_for_files(
        &self,
        level: Option<LevelId>,
        files: &BTreeSet<FileRef>,
        l0_target: u64,
    ) -> Option<CompactionPlan<T>> {
        match level {
            Some(level) => self.plan_level(level, |table| files.contains(&table.file())),
            // The oldest run has some of them as long as any are there: later tables are in younger runs.
            None => {
                self.files_at(None).any(|file| files.contains(&file)).then(|| self.plan_oldest_l0(l0_target)).flatten()
            }
        }
    }

    /// The tables of a level, or of level 0 for `None`.
    pub(crate) fn files_at(&self, level: Option<LevelId>) -> impl Iterator<Item = FileRef> {
        let is_there = move |run_id: RunId| level.map_or(run_id.is_l0(), |level| run_id == RunId::Level(level));
        self.runs().filter(move |(run_id, _)| is_there(*run_id)).flat_map(|(_, run)| run.files())
    }

    /// Score of level 0, if it is due: its number of runs divided by the trigger.
    fn l0_score(&self, l0_target: u64) -> Option<f64> {
        let (count, bytes) =
            (self.l0_runs().count(), self.l0_runs().map(|(run_id, _)| self.bytes_at(run_id)).sum::<u64>());
        let is_due = count >= L0_URGENT_TRIGGER || (count >= L0_COMPACTION_TRIGGER && bytes >= l0_target);
        is_due.then_some(count as f64 / L0_COMPACTION_TRIGGER as f64)
    }

    /// The levels above their target size, each with its score: bytes divided by the target. A level whose target is 0
    /// is divided by that of level 0, since the remainder of a level that is no longer needed is not urgent.
    fn levels(&self, l0_target: u64) -> impl Iterator<Item = (f64, LevelId)> {
        self.runs().filter_map(move |(run_id, _)| {
            let RunId::Level(level) = run_id else { return None };
            let (bytes, target) = (self.bytes_at(run_id), self.target(level, l0_target));
            (bytes > target).then(|| (bytes as f64 / target.max(l0_target).max(1) as f64, level))
        })
    }

    /// The best compaction of one table of a level, among the tables that `may_be` admits.
    pub(crate) fn plan_level(&self, level: LevelId, may_be: impl Fn(&T) -> bool) -> Option<CompactionPlan<T>> {
        let tables = self.run(RunId::Level(level))?.tables().iter().filter(|table| may_be(table));
        let below = level.below()?;
        let plan = |table: &Arc<T>| CompactionPlan::of(self, vec![(RunId::Level(level), vec![table.clone()])], below);
        best(tables.filter_map(plan))
    }

    /// A compaction of adjacent tables of a level in a key range, with the tables of the next level that they overlap.
    /// It begins with the first table whose plan has at most `most` bytes. Further tables join as long as each overlaps
    /// something and the plan has at most `at_once` bytes, and no more than the tables would have in separate plans.
    pub(crate) fn plan_level_range(
        &self,
        level: LevelId,
        key_range: (&[u8], &[u8]),
        (at_once, most): (u64, u64),
    ) -> Option<CompactionPlan<T>> {
        let (run_id, tables) = (RunId::Level(level), self.run(RunId::Level(level))?.within(key_range));
        let below = level.below()?;
        let plan = |tables: &[Arc<T>]| CompactionPlan::of(self, vec![(run_id, tables.to_vec())], below);
        let alone = tables.iter().map(|table| plan(slice::from_ref(table)).expect("a table has keys"));
        let mut plans = alone.enumerate().skip_while(|(_, plan)| plan.all > most);
        let (first, mut found) = plans.next()?;
        let is_alone = found.trivial_move().is_some();
        for (number, next) in plans.take_while(|(_, next)| !is_alone && next.trivial_move().is_none()) {
            let joined = plan(&tables[first..=number])?;
            if joined.all > at_once.min(most).min(found.all + next.all) {
                break;
            }
            found = joined;
        }
        Some(found)
    }
}

/// A run with its bytes.
type SizedRun<'r, T> = (RunId, &'r Run<T>, u64);

/// Merges the youngest runs that have at most `most` bytes together. None is larger than all younger ones together, nor
/// the youngest than all others. So a record is rewritten each time that the run around it has doubled, and once more
/// for each overlap group that has moved down.
fn size_tiered_runs<T>(runs: &[SizedRun<'_, T>], most: u64) -> Option<CompactionPlan<T>> {
    let (mut count, mut all) = (0, 0);
    for (.., bytes) in runs {
        if all + bytes > most || (all > 0 && *bytes > all) {
            break;
        }
        (count, all) = (count + 1, all + bytes);
    }
    let (.., youngest) = runs.first()?;
    (count >= L0_COMPACTION_TRIGGER && 2 * youngest <= all).then(|| joined(&runs[..count]))
}

/// Merges the first of these runs, as many as give the fewest bytes for each run saved, with at most `most` bytes.
fn read_triggered_runs<T>(runs: &[SizedRun<'_, T>], most: u64) -> Option<CompactionPlan<T>> {
    let (first, others) = runs.split_first()?;
    let sums = others.iter().scan(first.2, |all, (.., bytes)| {
        *all += bytes;
        Some(*all)
    });
    let affordable = (1..).zip(sums).take_while(|(_, all)| *all <= most);
    let (more, _) = affordable.min_by_key(|(more, all)| all / more)?;
    Some(joined(&runs[..=more as usize]))
}

/// An intra-L0 merge of runs, from young to old, into the place of the youngest.
fn joined<T>(runs: &[SizedRun<'_, T>]) -> CompactionPlan<T> {
    let all = runs.iter().map(|(.., bytes)| bytes).sum();
    let inputs = runs.iter().map(|(run_id, run, _)| (*run_id, (*run).clone())).collect();
    CompactionPlan { inputs, target: runs[0].0, score: all, all }
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
