//! Target sizes of levels. Each level has an eighth of the next one's size, counted up from the last level (lsm.md,
//! "Compaction").

use std::iter;

use crate::{
    manifest::{LevelId, RunId},
    version::{Run, TableMeta, Version},
};

/// A level's target size, as a multiple of that of the level above it.
const RATIO: u64 = 8;

impl<T: TableMeta> Version<T> {
    /// Bytes of a run or level.
    pub(crate) fn bytes_at(&self, run_id: RunId) -> u64 {
        self.run(run_id).map_or(0, |run| run.tables().iter().map(|table| table.bytes()).sum())
    }

    /// Target size of a level in bytes. The last level has no limit. Each level above it has a fraction of the last
    /// level's bytes, or 0 if that is not above `l0_target`, the target size of level 0.
    pub(crate) fn target(&self, level: LevelId, l0_target: u64) -> u64 {
        let last = self.bytes_at(RunId::LAST);
        match level {
            LevelId::LAST => u64::MAX,
            _ => RATIO
                .checked_pow(level.levels_below().into())
                .map(|ratio| last / ratio)
                .filter(|target| *target > l0_target)
                .unwrap_or(0),
        }
    }

    /// The level into which the tables of a run or level move next, if it has tables.
    pub(crate) fn next_level_of(&self, run_id: RunId, l0_target: u64) -> Option<&Run<T>> {
        let level = match run_id {
            RunId::L0(_) => self.base_level(l0_target),
            RunId::Level(level) => level.below()?,
        };
        self.run(RunId::Level(level))
    }

    /// The base level, into which level 0 is compacted: the uppermost level that has tables or a target above 0.
    pub(crate) fn base_level(&self, l0_target: u64) -> LevelId {
        let there = self
            .runs()
            .filter_map(|(run_id, _)| if let RunId::Level(level) = run_id { Some(level) } else { None })
            .min();
        let upwards = iter::successors(LevelId::LAST.above(), |level| level.above());
        let wanted = upwards.take_while(|level| self.target(*level, l0_target) > 0).last();
        there.into_iter().chain(wanted).min().unwrap_or(LevelId::LAST)
    }
}
