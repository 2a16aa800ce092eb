//! Range compaction: moves a key range that is scanned often down into the last level, one job at a time, so that scans
//! read fewer runs (adaptive.md, "Merging to one run").

use crate::{
    compaction::strategy::{
        CompactionState, CompactionStrategy,
        plan::{CompactionPlan, range},
    },
    manifest::{LevelId, RunId},
    tuning::Tuning,
    version::{TableMeta, Version},
};

/// Limit of bytes read to move a range into the last level, as a multiple of the bytes of the run or level that has
/// most of it.
const READ_AGAIN: u64 = 3;
/// Divisors. A run or level moves down if it has more than a 32nd of the range's bytes. An overlap group of L0
/// comes first only if more than a 16th of the bytes it reads are in the range.
const LITTLE: u64 = 32;
const LITTLE_OF_GROUP: u64 = 16;
/// The most bytes of a compaction from L0 directly into the last level: it holds the compaction lock for so long.
const AT_ONCE: u64 = 1 << 30;
/// Subcompactions of one compaction of a level's tables, so that threads can share them.
const PARTS: u64 = 4;

/// The estimated bytes that compacting a range reads, and the most that it may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeCompactionEstimate {
    /// Bytes that it reads, as estimated.
    pub bytes: u64,
    /// Bytes that it may read.
    pub most: u64,
}

/// The result of one step of a range compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeCompactionStep {
    /// Bytes of the inputs; 0 if the step converted a range to pages first.
    pub read: u64,
    /// Bytes that conversions to pages have written for it.
    pub before: u64,
}

/// Moves a part of a key range down, with at most `most` bytes.
pub(crate) struct RangeStep<'k> {
    pub(crate) key_range: (&'k [u8], &'k [u8]),
    pub(crate) most: u64,
    pub(crate) tuning: Tuning,
}

impl<T: TableMeta> CompactionStrategy<T> for RangeStep<'_> {
    fn choose(&self, version: &Version<T>, _: &CompactionState<'_>) -> Option<CompactionPlan<T>> {
        RangeCompaction::of(version, self.key_range, self.tuning).next_plan(self.most)
    }
}

/// A key range of a version, and the bytes that each run and level has of it.
#[derive(Debug)]
pub(crate) struct RangeCompaction<'v, T> {
    version: &'v Version<T>,
    key_range: (&'v [u8], &'v [u8]),
    /// Estimated bytes of the range, by run, from young to old.
    bytes: Vec<(RunId, u64)>,
    /// Target bytes of L0, and the most bytes of a compaction of several tables of a level.
    l0_target: u64,
    at_once: u64,
}

impl<'v, T: TableMeta> RangeCompaction<'v, T> {
    pub(crate) fn of(
        version: &'v Version<T>,
        key_range: (&'v [u8], &'v [u8]),
        tuning: Tuning,
    ) -> RangeCompaction<'v, T> {
        let bytes = version.runs().map(|(run_id, run)| {
            (run_id, run.within(key_range).iter().map(|table| table.bytes_within(key_range)).sum())
        });
        RangeCompaction {
            version,
            key_range,
            bytes: bytes.collect(),
            l0_target: tuning.l0_target,
            at_once: PARTS * tuning.part,
        }
    }

    /// The next compaction of the range, of at most `most` bytes: from the highest level above the last one that has
    /// more than a little of it. A compaction of L0 takes all tables that overlap, so L0 comes last if they
    /// reach far beyond the range, or leave too few of the bytes for the levels.
    pub(crate) fn next_plan(&self, most: u64) -> Option<CompactionPlan<T>> {
        let (level, l0_group) = (self.level_to_move_down(), self.l0_group_to_move_down(most));
        let of_level = || self.version.plan_level_range(level?, self.key_range, (self.at_once, most));
        let comes_first =
            |plan: &CompactionPlan<T>| plan.score > plan.bytes() / LITTLE_OF_GROUP && self.with_rest(plan) <= most;
        let is_first = l0_group.as_ref().is_some_and(comes_first);
        let plan = if is_first { l0_group } else { of_level().or(l0_group) };
        plan.filter(|plan| plan.bytes() <= most)
    }

    /// What moving the range down takes. `None` if there is nothing to do, or the cost is too high.
    pub(crate) fn plan(&self) -> Option<RangeCompactionEstimate> {
        let tables = self
            .version
            .runs()
            .map(|(_, run)| run.within(self.key_range).iter().map(|table| table.bytes()).sum::<u64>());
        let most = READ_AGAIN * tables.max()?;
        let first = self.next_plan(most)?;
        let bytes = if first.runs().next().is_some() {
            self.with_rest(&first)
        } else {
            self.level_bytes_to_move_down().max(first.bytes())
        };
        (bytes <= most).then_some(RangeCompactionEstimate { bytes, most })
    }

    /// The next compaction of L0, if it has more than a little of the range. It goes directly into the last level
    /// if that reads no more. It has at most `most` bytes, and its score is its bytes within the range.
    fn l0_group_to_move_down(&self, most: u64) -> Option<CompactionPlan<T>> {
        if self.runs() <= self.little() {
            return None;
        }
        let plan = self.version.best_l0_group_over(self.key_range, self.version.base_level(self.l0_target), most)?;
        let range = range(plan.runs())?;
        let levels =
            self.version.runs().filter(|(run_id, _)| !run_id.is_l0()).flat_map(|(_, run)| run.overlapping(&range));
        let by_steps = plan.bytes() + levels.map(|table| table.bytes()).sum::<u64>();
        let whole = self
            .version
            .l0_group(&range, LevelId::LAST)
            .filter(|whole| whole.bytes() <= by_steps.min(AT_ONCE).min(most));
        Some(whole.map(|whole| whole.with_score(plan.score)).unwrap_or(plan))
    }

    /// Bytes of a compaction of L0, plus the estimated bytes read afterwards until no run or level above the last
    /// one has more than a little of the range.
    fn with_rest(&self, plan: &CompactionPlan<T>) -> u64 {
        let levels = plan.inputs.iter().filter(|(run_id, _)| !run_id.is_l0() && plan.target == RunId::LAST);
        let brought = levels.flat_map(|(_, run)| run.tables()).map(|table| table.bytes_within(self.key_range)).sum();
        plan.bytes() + self.runs().saturating_sub(plan.score) + self.level_bytes_to_move_down().saturating_sub(brought)
    }

    /// The highest level above the last one that has more than a little of the range.
    fn level_to_move_down(&self) -> Option<LevelId> {
        let little = self.little();
        self.bytes.iter().find_map(|(run_id, bytes)| match run_id {
            RunId::Level(level) if *level < LevelId::LAST && *bytes > little => Some(*level),
            _ => None,
        })
    }

    /// Estimated bytes read until no level above the last one has more than a little of the range.
    fn level_bytes_to_move_down(&self) -> u64 {
        self.level_to_move_down().map_or(0, |_| self.levels())
    }

    fn little(&self) -> u64 {
        (self.runs() + self.levels()) / LITTLE
    }

    /// Bytes of the range in L0.
    fn runs(&self) -> u64 {
        self.bytes.iter().filter(|(run_id, _)| run_id.is_l0()).map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of the range in all levels below.
    fn levels(&self) -> u64 {
        self.bytes.iter().filter(|(run_id, _)| !run_id.is_l0()).map(|(_, bytes)| bytes).sum()
    }
}
