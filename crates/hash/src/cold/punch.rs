//! Pending punches: blocks of deltas that no partition needs any more, until their space is given back to the disk.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, Weak},
};

use ecotone_substrate::Seq;

use super::run::Run;

/// Blocks that were needed before a merge.
#[derive(Debug)]
struct PendingPunch {
    blocks: Vec<(Weak<Run>, Range<u32>)>,
    /// Alive as long as a reader may read the blocks.
    readers: Weak<()>,
    /// The log record of the merge.
    record: Seq,
}

/// Blocks that wait to be punched, in the order of the merges. A block with records of two partitions is listed by the
/// later merge, so it waits for the readers of both.
#[derive(Debug, Default)]
pub(super) struct PendingPunches {
    waiting: VecDeque<PendingPunch>,
}

impl PendingPunches {
    /// Adds the blocks that a merge has superseded. No new reader needs them.
    pub(super) fn push(&mut self, blocks: &[(Arc<Run>, Range<u32>)], readers: Weak<()>, record: Seq) {
        let blocks = blocks.iter().map(|(run, blocks)| (Arc::downgrade(run), blocks.clone())).collect();
        self.waiting.push_back(PendingPunch { blocks, readers, record });
    }

    /// Takes the blocks of the oldest merges that have no readers any more and whose records are synced.
    pub(super) fn take(&mut self, synced: impl Fn(Seq) -> bool) -> Vec<(Arc<Run>, Range<u32>)> {
        let is_due = |punch: &PendingPunch| punch.readers.strong_count() == 0 && synced(punch.record);
        let mut taken = Vec::new();
        while let Some(punch) = self.waiting.pop_front_if(|punch| is_due(punch)) {
            // A dropped run has lost its file.
            taken.extend(punch.blocks.into_iter().filter_map(|(run, blocks)| Some((run.upgrade()?, blocks))));
        }
        taken
    }
}
