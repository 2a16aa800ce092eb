//! Compactions for tombstones. A tombstone hides a record below it, and both take space until they meet in a compaction
//! (lsm.md, "Compaction").

use std::sync::Arc;

use ecotone_engine::idle::{self, MIN_TOMBSTONES};

use crate::{
    compaction::strategy::plan::CompactionPlan,
    manifest::{LevelId, RunId},
    version::{TableMeta, Version},
};

impl<T: TableMeta> Version<T> {
    /// Whether much of the tables is hidden, about, by tombstones above the last level and so many `others`.
    pub(crate) fn is_littered(&self, others: u64, little: u64) -> bool {
        let (mut bytes, mut values, mut tombstones) = (0, 0, others);
        for (run_id, run) in self.runs() {
            for table in run.tables() {
                let (records, hiding) = table.records();
                bytes += table.bytes();
                values += records - hiding;
                tombstones += if run_id == RunId::LAST { 0 } else { hiding };
            }
        }
        let hidden = bytes as f64 * tombstones.min(values) as f64 / values.max(1) as f64;
        tombstones > MIN_TOMBSTONES && idle::has_excess_garbage(bytes, hidden as u64, little)
    }

    /// Whether the tables with keys of a range, whose upper bound is excluded, have more tombstones than values: then
    /// the levels below have little left of the range.
    pub(crate) fn is_mostly_deleted(&self, range: (&[u8], &[u8])) -> bool {
        let tables = self.runs().flat_map(|(_, run)| run.within(range)).map(|table| table.records());
        let (records, tombstones) =
            tables.fold((0, 0), |(records, all), (more, hiding)| (records + more, all + hiding));
        is_dense((records, tombstones))
    }

    /// Plans a compaction of tombstones for idle time. L0 comes first, as it is youngest; then the table above the last
    /// level with most tombstones, with the tables that it overlaps in the level below.
    pub(crate) fn plan_idle_tombstones(&self, l0_target: u64) -> Option<CompactionPlan<T>> {
        let hiding = |table: &Arc<T>| table.records().1;
        if self.l0_runs().any(|(_, run)| run.tables().iter().any(|table| hiding(table) > 0)) {
            return self.plan_l0(l0_target);
        }
        let (level, table) =
            self.above_last().filter(|(_, table)| hiding(table) > 0).max_by_key(|(_, table)| hiding(table))?;
        self.plan_level(level, |there| there.file() == table.file())
    }

    /// Plans a compaction of a table with more tombstones than values, between L0 and the last level, if its score is
    /// at least half of the bytes that it moves: scans have to pass over all of the tombstones.
    pub(crate) fn plan_tombstone_dense(&self) -> Option<CompactionPlan<T>> {
        let dense = self.above_last().filter(|(_, table)| is_dense(table.records()));
        let plan = |(level, table): (LevelId, &Arc<T>)| self.plan_level(level, |there| there.file() == table.file());
        dense.filter_map(plan).find(|plan| 2 * plan.score() >= plan.bytes())
    }

    fn above_last(&self) -> impl Iterator<Item = (LevelId, &Arc<T>)> {
        let level = |run_id| match run_id {
            RunId::Level(level) if level < LevelId::LAST => Some(level),
            _ => None,
        };
        self.runs()
            .filter_map(move |(run_id, run)| Some((level(run_id)?, run)))
            .flat_map(|(level, run)| run.tables().iter().map(move |table| (level, table)))
    }
}

/// Whether most of so many records are tombstones, and these are not few.
fn is_dense((records, tombstones): (u64, u64)) -> bool {
    tombstones > MIN_TOMBSTONES && 2 * tombstones > records
}
