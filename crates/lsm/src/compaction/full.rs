//! Full (manual) compaction: moves all records of a keyspace into its last level, where no deleted or replaced record
//! is left (lsm.md, "Compaction").

use std::{collections::BTreeSet, iter, sync::Arc};

use ecotone_engine::contract::Progress;
use ecotone_substrate::{Result, Seq};
use ecotone_sys::primitive::atomic::{AtomicUsize, Ordering};

use crate::{
    manifest::{LevelId, PagedRange, RunId},
    pages::pending_frees::KeySpan,
    store::Lsm,
    version::{Split, TableMeta, Version},
};

impl Lsm {
    /// Moves everything that was applied before the call into the last level, from the top, by jobs of the usual size.
    /// Records that are written meanwhile may stay above it.
    pub(crate) fn compact_all(self: &Arc<Self>, progress: &mut Progress<'_>) -> Result<()> {
        let (health, l0_target) = (&self.files.environment().health, self.tuning.l0_target);
        let mut whole = Some(self.begin_full_compaction());
        health.unless_panics("a flush", || self.flush(Seq::MAX))?;
        // Paged ranges are converted to pages first: their records are replaced there, and none of them is left to move
        // down.
        let owned = |(lower, upper): (&[u8], &[u8])| (lower.to_vec(), upper.to_vec());
        // No version is held meanwhile: it would keep replaced tables from being deleted.
        let paged_ranges: Vec<KeySpan> =
            self.version().paged_ranges().iter().map(PagedRange::bounds).map(owned).collect();
        for (lower, upper) in paged_ranges {
            health.unless_panics("an absorption", || self.convert_to_pages(Split::Side, &lower, &upper))?;
        }
        let (all, mut done) = (self.version().bytes_to_move_down(l0_target), 0);
        progress(done, all);
        let levels =
            iter::successors(Some(LevelId::FIRST), |level| level.below()).take_while(|level| *level < LevelId::LAST);
        for level in iter::once(None).chain(levels.map(Some)) {
            // Only tables that are there now have to move down, so the loop ends whatever is written.
            let files: BTreeSet<_> = self.version().files_at(level).collect();
            let step = || {
                self.relieve_l0()?;
                self.compact_with(|version| version.plan_for_files(level, &files, l0_target))
            };
            while health.unless_panics("a compaction", step)? {
                done = all.saturating_sub(self.version().bytes_to_move_down(l0_target)).max(done);
                progress(done, all);
            }
            // Level 0 comes first and is empty now: intra-L0 merges may run again.
            whole.take();
        }
        progress(all, all);
        Ok(())
    }

    /// Disables intra-L0 merges: a merged run would be another table than those that have to move down.
    fn begin_full_compaction(self: &Arc<Self>) -> FullCompaction {
        self.full_compactions.0.fetch_add(1, Ordering::Relaxed);
        let whole = FullCompaction(self.clone());
        // A compaction that runs already may not have seen the change: wait for its end.
        self.release_compaction_lock(self.compaction_lock.lock());
        whole
    }
}

/// The number of full compactions that are in level 0 now.
#[derive(Debug, Default)]
pub(crate) struct FullCompactions(AtomicUsize);

impl FullCompactions {
    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// Registers a full compaction until level 0 is done.
struct FullCompaction(Arc<Lsm>);

impl Drop for FullCompaction {
    fn drop(&mut self) {
        self.0.full_compactions.0.fetch_sub(1, Ordering::Relaxed);
        // No other event would schedule one before the next flush.
        self.0.schedule_compaction_if_due();
    }
}

impl<T: TableMeta> Version<T> {
    /// Bytes of the tables above the last level, times the levels that each has to move down. `l0_target` is the target
    /// size of level 0.
    fn bytes_to_move_down(&self, l0_target: u64) -> u64 {
        let steps = |run_id| match run_id {
            RunId::L0(_) => self.base_level(l0_target).levels_below() + 1,
            RunId::Level(level) => level.levels_below(),
        };
        self.runs().map(|(run_id, _)| u64::from(steps(run_id)) * self.bytes_at(run_id)).sum()
    }
}
