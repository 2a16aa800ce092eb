//! Compaction cursors: now and then a level's next table is taken round robin, whatever its score, so that each table
//! is compacted at some time (lsm.md, "Compaction").

use std::collections::BTreeMap;

use crate::manifest::LevelId;

/// One of this many compactions of a level is round robin.
const JOBS: u32 = 16;

/// The cursor of each level.
#[derive(Debug, Default)]
pub(crate) struct CompactionCursors(BTreeMap<LevelId, CompactionCursor>);

#[derive(Debug, Default)]
struct CompactionCursor {
    jobs: u32,
    /// The last key of the table that was taken round robin most recently.
    last: Vec<u8>,
}

impl CompactionCursors {
    /// Called when a compaction of a level is picked. If it is a round-robin one, returns the cursor: the caller takes
    /// the first table behind this key, and advances it.
    pub(crate) fn next_round_robin(&mut self, level: LevelId) -> Option<&mut Vec<u8>> {
        let round = self.0.entry(level).or_default();
        round.jobs = (round.jobs + 1) % JOBS;
        (round.jobs == 0).then_some(&mut round.last)
    }
}
