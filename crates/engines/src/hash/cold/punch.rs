//! Blocks of deltas that no partition needs any more, on their way to be given back to the disk.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, Weak},
};

use ecotone_substrate::Seq;

use super::run::Run;

/// Blocks that were needed before a fold.
#[derive(Debug)]
struct Folded {
    blocks: Vec<(Weak<Run>, Range<u32>)>,
    /// Alive as long as somebody may read them.
    readers: Weak<()>,
    /// The record of the fold.
    record: Seq,
}

/// What waits to be punched, in the order of the folds: blocks that have records of two partitions come with the later
/// one, when the readers of both are gone.
#[derive(Debug, Default)]
pub(super) struct Punches {
    waiting: VecDeque<Folded>,
}

impl Punches {
    /// After a fold: these blocks, which nobody needs who comes from now on.
    pub(super) fn push(&mut self, blocks: &[(Arc<Run>, Range<u32>)], readers: Weak<()>, record: Seq) {
        let blocks = blocks.iter().map(|(run, blocks)| (Arc::downgrade(run), blocks.clone())).collect();
        self.waiting.push_back(Folded { blocks, readers, record });
    }

    /// The blocks of the oldest folds that nobody can read any more, and of which the records are synced.
    pub(super) fn take(&mut self, synced: impl Fn(Seq) -> bool) -> Vec<(Arc<Run>, Range<u32>)> {
        let ripe = |folded: &Folded| folded.readers.strong_count() == 0 && synced(folded.record);
        let mut taken = Vec::new();
        while let Some(folded) = self.waiting.pop_front_if(|folded| ripe(folded)) {
            // A run that was dropped has lost its file.
            taken.extend(folded.blocks.into_iter().filter_map(|(run, blocks)| Some((run.upgrade()?, blocks))));
        }
        taken
    }
}
