//! Strategies: what to compact next. A [`CompactionStrategy`] is a pure function of a [`Version`] and a
//! [`CompactionState`]: it reads no clock, takes no lock and does no I/O, so tests choose on versions that they write
//! down. (The tables of a version count false-positive reads, so a later call may give another score.) [`Leveled`]
//! decides in the background; manual compaction, a full L0 and the compaction of a scanned range have strategies of
//! their own (lsm.md, "Compaction").
//!
//! [`Leveled`] takes the first of these that there is:
//! 1. if L0 is due: a level whose score is above L0's, or an intra-L0 merge of small runs, or L0;
//! 2. if L0 is not due: an intra-L0 merge within its limits, or the level with the highest score above its target, or a
//!    table with more tombstones than values;
//! 3. in an idle keyspace: more than one run of L0, or tombstones that hide much;
//! 4. on a full disk: anything above Lmax.

pub(crate) mod cursors;
pub(crate) mod l0_groups;
pub(crate) mod plan;
pub(crate) mod range_compaction;
pub(crate) mod read_budget;
pub(crate) mod tombstones;

use std::{slice, sync::Arc};

use ecotone_substrate::table::FileRef;
use ecotone_sys::primitive::unless_shuttle;

use crate::{
    compaction::strategy::{
        cursors::CompactionCursors,
        plan::{CompactionPlan, best},
    },
    manifest::{LevelId, RunId},
    version::{Run, TableMeta, Version},
};

/// Runs of L0 from which it is compacted if it has enough bytes, and from which small runs are merged
/// within L0; and the number from which it is compacted in any case.
pub(crate) const L0_COMPACTION_TRIGGER: usize = unless_shuttle(4, 2);
pub(crate) const L0_URGENT_TRIGGER: usize = 8;

/// The most bytes that adjacent runs of L0 may have together to be merged within L0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntraL0Limits {
    /// For size-tiered merges of a few runs, of which none is large beside the others.
    pub(crate) size_tiered_bytes: u64,
    /// For any runs: what scans have paid for (the read budget).
    pub(crate) read_triggered_bytes: u64,
}

impl IntraL0Limits {
    /// No intra-L0 merges.
    pub(crate) const NONE: IntraL0Limits = IntraL0Limits { size_tiered_bytes: 0, read_triggered_bytes: 0 };
}

/// What a choice depends on besides the version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactionState<'s> {
    /// Target bytes of L0.
    pub(crate) l0_target: u64,
    pub(crate) intra_l0: IntraL0Limits,
    /// If the keyspace is idle, the bytes of garbage that its tables may keep.
    pub(crate) idle_garbage: Option<u64>,
    /// Whether the disk lacks space.
    pub(crate) is_space_short: bool,
    pub(crate) cursors: &'s CompactionCursors,
}

/// Chooses the next compaction.
pub(crate) trait CompactionStrategy<T: TableMeta> {
    /// The next compaction of a version, if there is one. The same arguments give the same plan.
    fn choose(&self, version: &Version<T>, state: &CompactionState<'_>) -> Option<CompactionPlan<T>>;
}

/// Levelled compaction, in the background.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leveled;

impl Leveled {
    /// Whether there is a compaction to choose. It does not look for the best one.
    pub(crate) fn is_due<T: TableMeta>(self, version: &Version<T>, state: &CompactionState<'_>) -> bool {
        version.l0_score(state.l0_target).is_some()
            || version.plan_intra_l0(state.intra_l0).is_some()
            || version.levels(state.l0_target).next().is_some()
            || version.plan_tombstone_dense().is_some()
            || version.is_due_when_idle(state)
            || state.is_space_short && version.has_tables_above_last()
    }
}

impl<T: TableMeta> CompactionStrategy<T> for Leveled {
    fn choose(&self, version: &Version<T>, state: &CompactionState<'_>) -> Option<CompactionPlan<T>> {
        let is_idle = version.is_due_when_idle(state);
        // An idle keyspace moves all its runs down instead of merging them within L0.
        let intra_l0 = if is_idle { IntraL0Limits::NONE } else { state.intra_l0 };
        let idle = || is_idle.then(|| version.plan_idle(state.l0_target)).flatten();
        let short = || state.is_space_short.then(|| version.plan_above_last(state.l0_target)).flatten();
        version.plan_due(&CompactionState { intra_l0, ..*state }).or_else(idle).or_else(short)
    }
}

/// A compaction of [`Leveled`], if L0 slows writers down. For a caller that keeps the background from the lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RelieveL0 {
    /// Runs of L0 from which on there is one.
    pub(crate) runs: usize,
}

impl<T: TableMeta> CompactionStrategy<T> for RelieveL0 {
    fn choose(&self, version: &Version<T>, state: &CompactionState<'_>) -> Option<CompactionPlan<T>> {
        (version.l0_runs().count() >= self.runs).then(|| Leveled.choose(version, state)).flatten()
    }
}

/// A compaction that reduces the number of runs in L0, for a flush that finds it full.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReduceL0 {
    /// Runs of L0 from which on there is one.
    pub(crate) runs: usize,
}

impl<T: TableMeta> CompactionStrategy<T> for ReduceL0 {
    fn choose(&self, version: &Version<T>, state: &CompactionState<'_>) -> Option<CompactionPlan<T>> {
        let plan = || {
            let small = version.plan_intra_l0(IntraL0Limits { read_triggered_bytes: 0, ..state.intra_l0 });
            small.or_else(|| version.plan_oldest_l0(state.l0_target))
        };
        (version.l0_runs().count() >= self.runs).then(plan).flatten()
    }
}

impl<T: TableMeta> Version<T> {
    /// The next compaction, if one is due whether the keyspace is used or not.
    fn plan_due(&self, state: &CompactionState<'_>) -> Option<CompactionPlan<T>> {
        let CompactionState { l0_target, intra_l0, cursors, .. } = *state;
        let level = self.levels(l0_target).max_by(|a, b| a.0.total_cmp(&b.0));
        match (self.l0_score(l0_target), level) {
            (Some(l0_score), Some((score, level))) if score > l0_score => self.next_plan_of_level(level, cursors),
            // The remainder of runs that have mostly moved down is merged within L0 rather than moved down.
            (Some(_), _) => self
                .plan_intra_l0(IntraL0Limits { read_triggered_bytes: 0, ..intra_l0 })
                .or_else(|| self.plan_l0(l0_target)),
            (None, level) => {
                let level = || level.and_then(|(_, level)| self.next_plan_of_level(level, cursors));
                self.plan_intra_l0(intra_l0).or_else(level).or_else(|| self.plan_tombstone_dense())
            }
        }
    }

    /// Whether L0, or tables with tombstones, should be compacted because the keyspace is idle.
    fn is_due_when_idle(&self, state: &CompactionState<'_>) -> bool {
        state.idle_garbage.is_some_and(|little| self.l0_runs().count() > 1 || self.is_littered(0, little))
    }

    /// A compaction for idle time: later reads have fewer runs to search, and deleted space comes back.
    fn plan_idle(&self, l0_target: u64) -> Option<CompactionPlan<T>> {
        let runs = if self.l0_runs().count() > 1 { self.plan_l0(l0_target) } else { None };
        runs.or_else(|| self.plan_idle_tombstones(l0_target))
    }

    /// Whether any table is above the last level. Only such tables can hide older records.
    fn has_tables_above_last(&self) -> bool {
        self.runs().any(|(run_id, _)| run_id != RunId::LAST)
    }

    /// A compaction of the youngest run or level above the last one, however small it is. It is for a full disk, which
    /// needs the space of hidden records.
    fn plan_above_last(&self, l0_target: u64) -> Option<CompactionPlan<T>> {
        let (run_id, _) = self.runs().next()?;
        match run_id {
            RunId::L0(_) => self.plan_l0(l0_target),
            RunId::LAST => None,
            RunId::Level(level) => self.plan_level(level, |_| true),
        }
    }

    /// The best compaction of a level, or now and then that of the table at the compaction cursor.
    fn next_plan_of_level(&self, level: LevelId, cursors: &CompactionCursors) -> Option<CompactionPlan<T>> {
        let next = match cursors.round_robin(level) {
            None => None,
            Some(last) => {
                let tables = self.run(RunId::Level(level))?.tables();
                Some(tables.iter().find(|table| table.first() > last).or(tables.first())?.file())
            }
        };
        let plan = self.plan_level(level, |table| next.is_none_or(|next| table.file() == next))?;
        Some(plan.at_cursor(level))
    }

    /// The intra-L0 merge of adjacent runs that reads the fewest bytes for each run that it saves, if the limits allow
    /// one. A small run costs a scan as much as a large one.
    pub(super) fn plan_intra_l0(&self, limits: IntraL0Limits) -> Option<CompactionPlan<T>> {
        let runs: Vec<_> = self.l0_runs().map(|(run_id, run)| (run_id, run, self.bytes_at(run_id))).collect();
        let from = |first: usize| {
            [
                size_tiered_runs(&runs[first..], limits.size_tiered_bytes),
                read_triggered_runs(&runs[first..], limits.read_triggered_bytes),
            ]
        };
        let plans = (0..runs.len()).flat_map(from).flatten();
        plans.min_by_key(|plan| plan.bytes() / (plan.inputs.len() as u64 - 1))
    }

    /// The tables of a level, or of L0 for `None`.
    pub(crate) fn files_at(&self, level: Option<LevelId>) -> impl Iterator<Item = FileRef> {
        let is_there = move |run_id: RunId| level.map_or(run_id.is_l0(), |level| run_id == RunId::Level(level));
        self.runs().filter(move |(run_id, _)| is_there(*run_id)).flat_map(|(_, run)| run.files())
    }

    /// Score of L0, if it is due: its number of runs divided by the trigger.
    fn l0_score(&self, l0_target: u64) -> Option<f64> {
        let (count, bytes) =
            (self.l0_runs().count(), self.l0_runs().map(|(run_id, _)| self.bytes_at(run_id)).sum::<u64>());
        let is_due = count >= L0_URGENT_TRIGGER || (count >= L0_COMPACTION_TRIGGER && bytes >= l0_target);
        is_due.then_some(count as f64 / L0_COMPACTION_TRIGGER as f64)
    }

    /// The levels above their target size, each with its score: bytes divided by the target. A level whose target is 0
    /// is divided by that of L0, since the remainder of a level that is no longer needed is not urgent.
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
        let mut plans = alone.enumerate().skip_while(|(_, plan)| plan.bytes() > most);
        let (first, mut found) = plans.next()?;
        let is_alone = found.trivial_move().is_some();
        for (number, next) in plans.take_while(|(_, next)| !is_alone && next.trivial_move().is_none()) {
            let joined = plan(&tables[first..=number])?;
            if joined.bytes() > at_once.min(most).min(found.bytes() + next.bytes()) {
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
fn size_tiered_runs<T: TableMeta>(runs: &[SizedRun<'_, T>], most: u64) -> Option<CompactionPlan<T>> {
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
fn read_triggered_runs<T: TableMeta>(runs: &[SizedRun<'_, T>], most: u64) -> Option<CompactionPlan<T>> {
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
fn joined<T: TableMeta>(runs: &[SizedRun<'_, T>]) -> CompactionPlan<T> {
    let inputs = runs.iter().map(|(run_id, run, _)| (*run_id, (*run).clone())).collect();
    CompactionPlan::of_inputs(inputs, runs[0].0)
}
