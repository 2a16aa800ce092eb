//! Levelled compaction. Flushed runs move from level 0 down, level by level, to the last one. On the way a compaction
//! drops the records that newer ones replace and the tombstones that hide nothing. One compaction at a time runs in a
//! keyspace: it holds `compaction_lock`, picks a [`CompactionPlan`] from the current version, merges its inputs, and
//! installs the output with one [`VersionEdit`] (lsm.md, "Compaction"; lsm-protocol.md, invariants 12 to 18).

pub(crate) mod executor;
pub(super) mod full;
pub(crate) mod inputs;
pub(super) mod strategy;
#[cfg(test)]
mod tests;
pub(super) mod throttle;

use std::sync::Arc;

use ecotone_engine::job_lock::JobLockGuard;
use ecotone_substrate::{Result, scheduler::Priority};

use crate::{
    cache::table_reader::TableReader,
    compaction::{
        inputs::output_splitter::MAX_GRANDPARENT_OVERLAP,
        strategy::{CompactionPlan, IntraL0Limits},
        throttle::write_stall::{L0_SLOWDOWN_TRIGGER, L0_STOP_TRIGGER},
    },
    manifest::{RunId, VersionEdit},
    pages::reactivate::Reactivation,
    store::Lsm,
    version::{TableMeta, Version},
};

/// A flush compacts level 0 itself once level 0 has this many times [`L0_STOP_TRIGGER`] runs: then background
/// compaction does not keep up.
const LEEWAY: usize = 2;

/// Divisor: read-triggered intra-L0 merges are limited to half of level 0's target size. They do not move records down,
/// and about half of level 0 goes down with the first four runs.
const PAID_PART: u64 = 2;

impl Lsm {
    /// Requests a background job if a compaction is due or converted pages can be freed. Work that an earlier session
    /// left waits until something is written.
    pub(super) fn schedule_compaction_if_due(self: &Arc<Self>) {
        if !self.files.context().shared.wal.has_begun() {
            return;
        }
        let version = self.version();
        let is_due = version.is_due(self.tuning.l0_target, self.intra_l0_limits()) || self.is_due_when_idle(&version);
        if is_due || self.shortage.is_there() && version.has_tables_above_last() || self.has_freeable() {
            self.request_compaction_job();
        }
    }

    /// Releases the compaction lock and requests a job: a job that ran meanwhile has failed to get the lock.
    pub(super) fn release_compaction_lock(self: &Arc<Self>, guard: JobLockGuard<'_>) {
        drop(guard);
        self.request_compaction_job();
    }

    fn request_compaction_job(self: &Arc<Self>) {
        if self.compaction_job.request() {
            self.spawn_compaction_job();
        }
    }

    fn spawn_compaction_job(self: &Arc<Self>) {
        let lsm = Arc::downgrade(self);
        self.files.environment().scheduler.spawn(Priority::Compact, "compact tables", move || {
            let Some(lsm) = lsm.upgrade() else { return };
            lsm.compaction_job.begin();
            match lsm.compact_next() {
                // One compaction for each job, so that more urgent jobs run in between.
                Ok(true) => {
                    lsm.write_stall.compaction.succeeded();
                    lsm.schedule_compaction_if_due();
                }
                Ok(false) => lsm.write_stall.compaction.succeeded(),
                // After a lack of memory or space the compaction is retried when more tables come, when a writer finds
                // it behind, or when the keyspace has been idle for long once more.
                Err(error) => {
                    lsm.idle.reset();
                    lsm.write_stall.compaction.failed(&*lsm.files.context().shared.clock);
                    drop(lsm.files.environment().health.postpone("compacting tables", error));
                }
            }
            if lsm.compaction_job.end() {
                lsm.spawn_compaction_job();
            }
        });
    }

    /// Runs one due compaction. Returns false if nothing is due or another thread holds the compaction lock.
    pub(crate) fn compact_next(self: &Arc<Self>) -> Result<bool> {
        let Some(_guard) = self.compaction_lock.try_lock() else { return Ok(false) };
        self.free_converted_pages()?;
        Ok(self.compact_locked(|version| self.pick_compaction(version), false)?.is_some())
    }

    fn pick_compaction(&self, version: &Version<TableReader>) -> Option<CompactionPlan<TableReader>> {
        let l0_target = self.tuning.l0_target;
        let is_idle = self.is_due_when_idle(version);
        // An idle keyspace moves all its runs down instead of merging them within level 0.
        let small = if is_idle { IntraL0Limits::NONE } else { self.intra_l0_limits() };
        let due = version.pick_compaction(l0_target, small, &mut self.cursors.lock());
        let of_runs = || if version.l0_runs().count() > 1 { version.plan_l0(l0_target) } else { None };
        let idle = || is_idle.then(|| of_runs().or_else(|| version.plan_idle_tombstones(l0_target))).flatten();
        due.or_else(idle).or_else(|| self.shortage.is_there().then(|| version.plan_above_last(l0_target)).flatten())
    }

    /// A compaction that reduces the number of runs in level 0.
    fn pick_l0(&self, version: &Version<TableReader>) -> Option<CompactionPlan<TableReader>> {
        version
            .plan_intra_l0(IntraL0Limits { budget: 0, ..self.intra_l0_limits() })
            .or_else(|| version.plan_oldest_l0(self.tuning.l0_target))
    }

    /// The present limits of intra-L0 merges.
    pub(super) fn intra_l0_limits(&self) -> IntraL0Limits {
        // A merge of small runs needs space for all their bytes once more, which a full disk does not have.
        if self.full_compactions.any() || self.shortage.is_there() {
            IntraL0Limits::NONE
        } else {
            IntraL0Limits { few: self.tuning.small, budget: self.read_budget.available() }
        }
    }

    /// Charges a scan of this many runs of level 0 to the read budget: all runs but one are extra cost. Requests a job
    /// if the budget has grown enough for one.
    pub(super) fn charge_l0_runs(self: &Arc<Self>, runs: u64) {
        if self.read_budget.record_scan(runs.saturating_sub(1), self.tuning.l0_target / PAID_PART) {
            self.schedule_compaction_if_due();
        }
    }

    /// Compacts level 0 until it can take another run.
    pub(super) fn ensure_l0_capacity(self: &Arc<Self>) -> Result<()> {
        loop {
            let most = if self.files.environment().scheduler.is_threaded() {
                LEEWAY * L0_STOP_TRIGGER
            } else {
                L0_STOP_TRIGGER
            };
            let has_most = |version: &Version<TableReader>| version.l0_runs().count() >= most;
            if !has_most(&self.version()) {
                return Ok(());
            }
            self.compact_with(|version| has_most(version).then(|| self.pick_l0(version)).flatten())?;
        }
    }

    /// Waits for the compaction lock and runs the compaction that is picked then. Returns whether there was one.
    fn compact_with(
        self: &Arc<Self>,
        pick_compaction: impl Fn(&Version<TableReader>) -> Option<CompactionPlan<TableReader>>,
    ) -> Result<bool> {
        let guard = self.compaction_lock.lock();
        let compacted = self.compact_locked(pick_compaction, true);
        self.release_compaction_lock(guard);
        Ok(compacted?.is_some())
    }

    /// Runs one due compaction if level 0 slows writers down. This is for a caller that takes the compaction lock again
    /// and again, so that background jobs hardly get it.
    fn relieve_l0(self: &Arc<Self>) -> Result<()> {
        let is_full = |version: &Version<TableReader>| version.l0_runs().count() >= L0_SLOWDOWN_TRIGGER;
        if is_full(&self.version()) {
            self.compact_with(|version| is_full(version).then(|| self.pick_compaction(version)).flatten())?;
        }
        Ok(())
    }

    /// Runs the compaction that is picked from the current version. The caller holds the compaction lock, so the
    /// version keeps all inputs until the edit. Returns the bytes of the inputs, or `None` if nothing was picked. A
    /// compaction that a caller awaits is not throttled.
    fn compact_locked(
        self: &Arc<Self>,
        pick_compaction: impl Fn(&Version<TableReader>) -> Option<CompactionPlan<TableReader>>,
        is_awaited: bool,
    ) -> Result<Option<u64>> {
        let version = self.version();
        // A compaction whose conversion to pages has begun ignores the runs that were flushed since. Otherwise each
        // step could bring new ranges to convert, and the conversion would not end.
        let resumed = self.conversion.begun().and_then(|youngest| pick_compaction(&version.without_younger(youngest)));
        let Some(plan) = resumed.or_else(|| pick_compaction(&version)) else { return Ok(None) };
        self.compact(version, plan, is_awaited).map(Some)
    }

    /// Runs one compaction, or one step of the conversion to pages that has to precede it. Returns the bytes of the
    /// inputs, or 0 after such a step.
    fn compact(
        self: &Arc<Self>,
        version: Arc<Version<TableReader>>,
        plan: CompactionPlan<TableReader>,
        is_awaited: bool,
    ) -> Result<u64> {
        let Some(reactivation) = self.prepare_compaction(&version, &plan)? else {
            // One step for each hold of the lock: more urgent work runs in between.
            drop((version, plan));
            return self.files.finish().map(|()| 0);
        };
        if reactivation.edits.is_empty()
            && plan.trivial_move().is_none()
            && let Some(most) = self.increment_bytes(&plan)?
        {
            drop((version, reactivation));
            let bytes = plan.bytes();
            self.compact_incrementally(plan, most, is_awaited)?;
            self.conversion.end();
            self.compactions.increment();
            return self.files.finish().map(|()| bytes);
        }
        let (bytes, replaced) = (plan.bytes(), self.replace(&version, &plan, &reactivation, is_awaited));
        if !reactivation.edits.is_empty() {
            self.set_boundaries();
        }
        if plan.target.is_l0() {
            // Consumed also if there was no space for the merge: compactions of levels come first then.
            self.read_budget.consume(bytes);
        }
        replaced?;
        if !plan.target.is_l0() {
            self.conversion.end();
        }
        self.compactions.increment();
        // A table that is still referenced cannot be deleted.
        drop((version, plan, reactivation));
        self.files.finish().map(|()| bytes)
    }

    /// Moves or merges the inputs of a plan, and installs the output with the reactivations that it needs.
    fn replace(
        self: &Arc<Self>,
        version: &Arc<Version<TableReader>>,
        plan: &CompactionPlan<TableReader>,
        reactivation: &Reactivation,
        is_awaited: bool,
    ) -> Result<()> {
        let context = self.files.context();
        let began = context.shared.clock.now_for_log();
        let moves = plan.trivial_move().filter(|reader| self.is_trivial_move_allowed(version, reader, plan.target));
        let tables = if moves.is_some() { Vec::new() } else { self.merge(version, plan, None, is_awaited)? };
        let tables: Vec<_> = tables.into_iter().map(|reader| (plan.target, reader)).collect();
        let rewritten = self
            .rewrite_without_hidden(version, &reactivation.boundary_tables)
            .inspect_err(|_| self.remove(&tables))?;
        let added = moves.iter().map(|reader| (plan.target, reader.file())).collect();
        let change = VersionEdit { deleted: plan.files(), added, paged_ranges: reactivation.edits.clone() };
        let inputs = || plan.inputs.iter().flat_map(|(_, run)| run.tables());
        if moves.is_none() {
            // A scan of the old tables has to read some blocks again until the new tables are installed. The new tables
            // need the memory.
            inputs().for_each(|reader| reader.table().forget_blocks());
        }
        self.install_with_rewritten(change, &tables, &reactivation.boundary_tables, &rewritten)?;
        tracing::debug!(
            keyspace = context.keyspace,
            runs = plan.inputs.len(),
            read = plan.bytes(),
            written = tables.iter().map(|(_, table)| table.bytes()).sum::<u64>(),
            took = ?context.shared.clock.since(began),
            "compacted tables"
        );
        if moves.is_none() {
            inputs().for_each(|reader| self.files.loader().read_frequency.forget(reader));
        }
        Ok(())
    }

    /// Whether a table that overlaps nothing in the target may be moved there without a merge: into the last level if
    /// it has no tombstones, into other levels if it does not overlap too much of the next level.
    fn is_trivial_move_allowed(&self, version: &Version<TableReader>, reader: &TableReader, target: RunId) -> bool {
        if target == RunId::LAST {
            return reader.table().tombstones() == 0;
        }
        let behind = version.next_level_of(target, self.tuning.l0_target);
        let below = behind.map_or(&[][..], |run| run.overlapping(&(reader.first()..=reader.last())));
        below.iter().map(|table| table.bytes()).sum::<u64>() <= MAX_GRANDPARENT_OVERLAP * self.tuning.table
    }
}
