//! Full (manual) compaction: moves all records of a keyspace into its last level, where no deleted or replaced record
//! is left (lsm.md, "Compaction").

use std::{collections::BTreeSet, iter, sync::Arc};

use ecotone_engine::contract::Progress;
use ecotone_substrate::{Result, Seq, table::FileRef};

use crate::{
    compaction::strategy::{CompactionState, CompactionStrategy, plan::CompactionPlan},
    manifest::{LevelId, PagedRange, RunId},
    pages::{conversion::Conversion, pending_frees::KeySpan},
    store::Lsm,
    version::{Split, TableMeta, Version},
};

/// A full compaction of a keyspace.
pub(crate) struct FullCompaction<'l>(pub(crate) &'l Arc<Lsm>);

impl FullCompaction<'_> {
    /// Moves everything that was applied before the call into the last level, from the top, by jobs of the usual size.
    /// Records that are written meanwhile may stay above it.
    pub(crate) fn run(self, progress: &mut Progress<'_>) -> Result<()> {
        let lsm = self.0;
        let (health, l0_target) = (&lsm.files.environment().health, lsm.tuning.l0_target);
        let mut whole = Some(DisabledIntraL0::begin(lsm));
        health.unless_panics("a flush", || lsm.flush(Seq::MAX))?;
        // Paged ranges are converted to pages first: their records are replaced there, and none of them is left to move
        // down.
        let owned = |(lower, upper): (&[u8], &[u8])| (lower.to_vec(), upper.to_vec());
        if let Some(conversion) = Conversion::of(lsm) {
            // No version is held meanwhile: it would keep replaced tables from being deleted.
            let paged_ranges: Vec<KeySpan> =
                lsm.version().paged_ranges().iter().map(PagedRange::bounds).map(owned).collect();
            for (lower, upper) in paged_ranges {
                health.unless_panics("a conversion", || conversion.convert_to_pages(Split::Side, &lower, &upper))?;
            }
        }
        let (all, mut done) = (lsm.version().bytes_to_move_down(l0_target), 0);
        progress(done, all);
        let levels =
            iter::successors(Some(LevelId::FIRST), |level| level.below()).take_while(|level| *level < LevelId::LAST);
        for level in iter::once(None).chain(levels.map(Some)) {
            // Only tables that are there now have to move down, so the loop ends whatever is written.
            let files: BTreeSet<_> = lsm.version().files_at(level).collect();
            let step = || {
                lsm.relieve_l0()?;
                lsm.compact_with(&MoveDown { level, files: &files })
            };
            while health.unless_panics("a compaction", step)? {
                done = all.saturating_sub(lsm.version().bytes_to_move_down(l0_target)).max(done);
                progress(done, all);
            }
            // L0 comes first and is empty now: intra-L0 merges may run again.
            whole.take();
        }
        progress(all, all);
        Ok(())
    }
}

/// Disables intra-L0 merges while it lives: a merged run would be another table than those that have to move down.
struct DisabledIntraL0(Arc<Lsm>);

impl DisabledIntraL0 {
    fn begin(lsm: &Arc<Lsm>) -> DisabledIntraL0 {
        lsm.compactor.full.begin();
        let disabled = DisabledIntraL0(lsm.clone());
        // A compaction that runs already may not have seen the change: wait for its end.
        lsm.release_compaction_lock(lsm.compactor.lock.lock());
        disabled
    }
}

/// Moves tables of a level, or of L0 for `None`, down by one level, as long as any of them are there.
struct MoveDown<'f> {
    level: Option<LevelId>,
    files: &'f BTreeSet<FileRef>,
}

impl<T: TableMeta> CompactionStrategy<T> for MoveDown<'_> {
    fn choose(&self, version: &Version<T>, state: &CompactionState<'_>) -> Option<CompactionPlan<T>> {
        match self.level {
            Some(level) => version.plan_level(level, |table| self.files.contains(&table.file())),
            // The oldest run has some of them as long as any are there: later tables are in younger runs.
            None => {
                let is_left = version.files_at(None).any(|file| self.files.contains(&file));
                is_left.then(|| version.plan_oldest_l0(state.l0_target)).flatten()
            }
        }
    }
}

impl Drop for DisabledIntraL0 {
    fn drop(&mut self) {
        self.0.compactor.full.end();
        // No other event would schedule one before the next flush.
        self.0.schedule_compaction_if_due();
    }
}

impl<T: TableMeta> Version<T> {
    /// Bytes of the tables above the last level, times the levels that each has to move down. `l0_target` is the target
    /// size of L0.
    fn bytes_to_move_down(&self, l0_target: u64) -> u64 {
        let steps = |run_id| match run_id {
            RunId::L0(_) => self.base_level(l0_target).levels_below() + 1,
            RunId::Level(level) => level.levels_below(),
        };
        self.runs().map(|(run_id, _)| u64::from(steps(run_id)) * self.bytes_at(run_id)).sum()
    }
}
