//! Compaction cursors: now and then a level's next table is taken round robin, whatever its score, so that each table
//! is compacted at some time (lsm.md, "Compaction").

use std::collections::BTreeMap;

use crate::{compaction::strategy::plan::CompactionPlan, manifest::LevelId, version::TableMeta};

/// One of this many compactions of a level is round robin.
const JOBS: u32 = 16;

/// The cursor of each level.
#[derive(Debug, Clone, Default)]
pub(crate) struct CompactionCursors(BTreeMap<LevelId, CompactionCursor>);

#[derive(Debug, Clone, Default)]
struct CompactionCursor {
    /// Compactions of a level over its target since the last one that was round robin.
    jobs: u32,
    /// The last key of the table that was taken round robin most recently.
    last: Vec<u8>,
}

impl CompactionCursors {
    /// If the next compaction of a level is round robin, the key behind which its table begins.
    pub(crate) fn round_robin(&self, level: LevelId) -> Option<&[u8]> {
        self.0.get(&level).filter(|cursor| cursor.jobs + 1 == JOBS).map(|cursor| &cursor.last[..])
    }

    /// Called with each plan that is chosen: moves the cursor that has a part in its choice, if any.
    pub(crate) fn advance<T: TableMeta>(&mut self, plan: &CompactionPlan<T>) {
        let (Some(level), Some((_, run))) = (plan.cursor_level, plan.inputs.first()) else { return };
        let cursor = self.0.entry(level).or_default();
        cursor.jobs += 1;
        if let (JOBS, Some(table)) = (cursor.jobs, run.tables().last()) {
            *cursor = CompactionCursor { jobs: 0, last: table.last().to_vec() };
        }
    }
}
