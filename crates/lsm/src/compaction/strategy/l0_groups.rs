//! Overlap groups of L0: tables whose key ranges are connected by overlaps, and overlap no other table of L0.
//! A compaction takes one group, so the others stay where they are (lsm.md, "Compaction"; lsm-protocol.md, invariant
//! 12).

use std::ops::RangeInclusive;

use crate::{
    compaction::strategy::{
        L0_COMPACTION_TRIGGER, L0_URGENT_TRIGGER,
        plan::{CompactionPlan, all, best, range},
    },
    manifest::{LevelId, RunId},
    version::{Run, TableMeta, Version},
};

/// The first and the last key of an overlap group.
type KeyBounds<'v> = RangeInclusive<&'v [u8]>;

impl<T: TableMeta> Version<T> {
    /// The runs of L0, from young to old.
    pub(crate) fn l0_runs(&self) -> impl Iterator<Item = (RunId, &Run<T>)> {
        self.runs().filter(|(run_id, _)| run_id.is_l0())
    }

    /// The overlap group with the best score per byte, so that keys that are written again and again move down alone.
    /// If there are many runs, it is a group of more than a few runs, or one with tables of the oldest run.
    pub(crate) fn plan_l0(&self, l0_target: u64) -> Option<CompactionPlan<T>> {
        if self.l0_runs().count() < L0_URGENT_TRIGGER {
            return self.best_l0_group(l0_target, |_| true);
        }
        let is_deep = |l0_group: &KeyBounds<'_>| {
            self.l0_runs().filter(|(_, run)| !run.overlapping(l0_group).is_empty()).count() >= L0_COMPACTION_TRIGGER
        };
        self.best_l0_group(l0_target, is_deep).or_else(|| self.plan_oldest_l0(l0_target))
    }

    /// The best overlap group with tables of the oldest run: compacting these soon reduces the number of runs.
    pub(crate) fn plan_oldest_l0(&self, l0_target: u64) -> Option<CompactionPlan<T>> {
        let (_, oldest) = self.l0_runs().last()?;
        self.best_l0_group(l0_target, |l0_group| !oldest.overlapping(l0_group).is_empty())
    }

    fn best_l0_group(&self, l0_target: u64, may_be: impl Fn(&KeyBounds<'_>) -> bool) -> Option<CompactionPlan<T>> {
        let (l0_groups, level) = (self.l0_groups().into_iter().filter(may_be), self.base_level(l0_target));
        best(l0_groups.filter_map(|l0_group| self.l0_group(&l0_group, level)))
    }

    /// The best compaction of an overlap group into a level, among those with at most `most` bytes that have keys of
    /// the range. Its score is its bytes within the range.
    pub(crate) fn best_l0_group_over(
        &self,
        key_range: (&[u8], &[u8]),
        level: LevelId,
        most: u64,
    ) -> Option<CompactionPlan<T>> {
        let l0_groups = self
            .l0_groups()
            .into_iter()
            .filter(|l0_group| *l0_group.start() <= key_range.1 && *l0_group.end() >= key_range.0);
        let plans =
            l0_groups.filter_map(|l0_group| self.l0_group(&l0_group, level)).filter(|plan| plan.bytes() <= most);
        let within = |plan: &CompactionPlan<T>| plan.runs().map(|table| table.bytes_within(key_range)).sum();
        let plans = plans.map(|plan| (within(&plan), plan)).filter(|(within, _)| *within > 0);
        best(plans.map(|(within, plan)| plan.with_score(within)))
    }

    /// The tables of an overlap group, and the tables that they overlap in the levels down to the target.
    pub(crate) fn l0_group(&self, l0_group: &KeyBounds<'_>, level: LevelId) -> Option<CompactionPlan<T>> {
        let mut tables: Vec<_> =
            self.l0_runs().map(|(run_id, run)| (run_id, run.overlapping(l0_group).to_vec())).collect();
        for (run_id, run) in self.runs().filter(|(run_id, _)| !run_id.is_l0() && *run_id < RunId::Level(level)) {
            let range = range(all(&tables))?;
            tables.push((run_id, run.overlapping(&range).to_vec()));
        }
        CompactionPlan::of(self, tables, level)
    }

    /// All overlap groups, ascending.
    fn l0_groups(&self) -> Vec<KeyBounds<'_>> {
        let tables = self.l0_runs().flat_map(|(_, run)| run.tables());
        let mut ranges: Vec<_> = tables.map(|table| table.first()..=table.last()).collect();
        ranges.sort_unstable_by_key(|range| *range.start());
        ranges.dedup_by(|next, l0_group| {
            let overlaps = next.start() <= l0_group.end();
            if overlaps && next.end() > l0_group.end() {
                *l0_group = *l0_group.start()..=*next.end();
            }
            overlaps
        });
        ranges
    }
}
