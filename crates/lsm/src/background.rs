//! The background work of a keyspace: what is flushed and compacted when, by which thread, and under which lock. The
//! work itself is in `flush`, `compaction` and `pages` (compaction-pace.md, invariants 14 and 17).

use std::sync::{Arc, Weak};

use ecotone_engine::{contract::Stats, idle::MIN_GARBAGE_BYTES, job_lock::JobLockGuard};
use ecotone_substrate::{
    Result, Seq,
    scheduler::{Priority, Tick},
};

use crate::{
    cache::table_reader::TableReader,
    compaction::{
        executor::{
            Compaction,
            job::affordable_helpers,
            subtasks::{ParallelJob, Subtasks},
        },
        strategy::{
            CompactionState, CompactionStrategy, IntraL0Limits, Leveled, ReduceL0, RelieveL0,
            cursors::CompactionCursors,
            plan::CompactionPlan,
            range_compaction::{RangeCompaction, RangeCompactionEstimate, RangeCompactionStep, RangeStep},
        },
        throttle::write_stall::{L0_SLOWDOWN_TRIGGER, L0_STOP_TRIGGER},
    },
    flush::job::Flush,
    pages::conversion::Conversion,
    store::Lsm,
    version::{Version, super_version::MemtableRef},
};

/// A flush compacts L0 itself once L0 has this many times [`L0_STOP_TRIGGER`] runs: then background compaction does not
/// keep up.
const LEEWAY: usize = 2;
/// Read-triggered intra-L0 merges are limited to L0's target bytes divided by this. They do not move records down, and
/// about half of L0 goes down with the first four runs.
const READ_TRIGGERED_DIVISOR: u64 = 2;

/// A strategy for the tables of a keyspace.
type Strategy<'s> = dyn CompactionStrategy<TableReader> + 's;

impl Lsm {
    /// Flushes all records with a sequence below `below` that were applied before. They are durable then.
    pub(crate) fn flush(self: &Arc<Self>, below: Seq) -> Result<()> {
        if let Some(youngest) = self.newest_memtable_below(below)? {
            while self.is_memtable_live(&youngest) {
                self.flush_if(|| self.is_memtable_live(&youngest))?;
            }
        }
        self.files.delete_obsolete()
    }

    /// Schedules the flush of all records with a sequence below `below`.
    pub fn begin_flush(self: &Arc<Self>, below: Seq) -> Result<()> {
        if self.newest_memtable_below(below)?.is_some() {
            self.schedule_flush_if_needed();
        }
        Ok(())
    }

    /// The youngest memtable with a sequence below `below`. If that is the active one, rotates it.
    fn newest_memtable_below(&self, below: Seq) -> Result<Option<Weak<MemtableRef>>> {
        let reaches =
            |memtable_ref: &Arc<MemtableRef>| memtable_ref.memtable.smallest().is_some_and(|first| first < below);
        let youngest = {
            let pin = self.current.pin();
            let memtables = &self.current.load(&pin).memtables;
            memtables.iter().position(reaches).map(|age| (age, Arc::downgrade(&memtables[age])))
        };
        let Some((age, youngest)) = youngest else { return Ok(None) };
        if age == 0 {
            self.rotate_early(&youngest)?;
        }
        Ok(Some(youngest))
    }

    /// Whether a memtable belongs to the current super version.
    pub(crate) fn is_memtable_live(&self, memtable_ref: &Weak<MemtableRef>) -> bool {
        let pin = self.current.pin();
        self.current.load(&pin).memtables.iter().any(|there| Arc::as_ptr(there) == memtable_ref.as_ptr())
    }

    /// Flushes the oldest memtable, if that is still `needed` once the flush lock is held.
    pub(crate) fn flush_if(self: &Arc<Self>, needed: impl FnOnce() -> bool) -> Result<()> {
        self.ensure_l0_capacity()?;
        let guard = self.flusher.lock.lock();
        let flushed = if needed() { self.flush_oldest() } else { Ok(()) };
        drop(guard);
        self.schedule_flush_if_needed();
        self.schedule_compaction_if_due();
        flushed
    }

    /// Flushes the oldest memtable, if it is immutable. The caller holds the flush lock.
    fn flush_oldest(&self) -> Result<()> {
        Flush::of_oldest(self).map_or(Ok(()), Flush::run)
    }

    /// Flushes all immutable memtables. Returns early if another thread flushes: that thread schedules this job again
    /// when it ends.
    pub(crate) fn flush_waiting(self: &Arc<Self>) -> Result<()> {
        while self.has_immutable_memtables() {
            self.ensure_l0_capacity()?;
            let Some(_guard) = self.flusher.lock.try_lock() else { return Ok(()) };
            self.flush_oldest()?;
            self.schedule_compaction_if_due();
        }
        Ok(())
    }

    /// Whether a memtable waits for its flush.
    pub(crate) fn has_immutable_memtables(&self) -> bool {
        self.current.load(&self.current.pin()).memtables.len() > 1
    }

    /// Whether other memtables wait besides the one that is being flushed.
    pub fn has_waiting_memtables(&self) -> bool {
        self.current.load(&self.current.pin()).memtables.len() > 2
    }

    /// Schedules the flush of immutable memtables.
    pub(crate) fn schedule_flush_if_needed(self: &Arc<Self>) {
        let lsm = Arc::downgrade(self);
        self.flusher.job.request(&self.files.environment().scheduler, Priority::Flush, "flush memtables", move || {
            let Some(lsm) = lsm.upgrade() else { return };
            match lsm.flush_waiting() {
                Ok(()) => lsm.flusher.retry.succeeded(),
                // Without memory or space the flush is tried again when writers need it.
                Err(error) => {
                    lsm.idle.reset();
                    lsm.flusher.retry.failed(&*lsm.files.context().shared.clock);
                    drop(lsm.files.environment().health.postpone("flushing memtables", error));
                }
            }
        });
    }

    /// Requests a background job if a compaction is due or converted pages can be freed. Work that an earlier session
    /// left waits until something is written.
    pub(crate) fn schedule_compaction_if_due(self: &Arc<Self>) {
        if !self.files.context().shared.wal.has_begun() {
            return;
        }
        if self.is_compaction_due() || Conversion::of(self).is_some_and(Conversion::has_freeable) {
            self.request_compaction_job();
        }
    }

    /// Whether the background has a compaction to run.
    pub(crate) fn is_compaction_due(&self) -> bool {
        // The cursors have no part in this.
        Leveled.is_due(&self.version(), &self.compaction_state(&CompactionCursors::default()))
    }

    /// What the next compaction depends on besides the version.
    fn compaction_state<'c>(&self, cursors: &'c CompactionCursors) -> CompactionState<'c> {
        // A merge of small runs needs space for all their bytes once more, which a full disk does not have.
        let intra_l0 = if self.compactor.full.any() || self.throttle.shortage.is_there() {
            IntraL0Limits::NONE
        } else {
            IntraL0Limits {
                size_tiered_bytes: self.tuning.size_tiered_bytes,
                read_triggered_bytes: self.compactor.read_budget.available(),
            }
        };
        CompactionState {
            l0_target: self.tuning.l0_target,
            intra_l0,
            idle_garbage: self.is_idle().then(|| self.little()),
            is_space_short: self.throttle.shortage.is_there(),
            cursors,
        }
    }

    fn choose(&self, strategy: &Strategy<'_>, version: &Version<TableReader>) -> Option<CompactionPlan<TableReader>> {
        let cursors = self.compactor.cursors.lock().clone();
        let plan = strategy.choose(version, &self.compaction_state(&cursors))?;
        self.compactor.cursors.lock().advance(&plan);
        Some(plan)
    }

    /// Releases the compaction lock and requests a job: a job that ran meanwhile has failed to get the lock.
    pub(crate) fn release_compaction_lock(self: &Arc<Self>, guard: JobLockGuard<'_>) {
        drop(guard);
        self.request_compaction_job();
    }

    fn request_compaction_job(self: &Arc<Self>) {
        let lsm = Arc::downgrade(self);
        let scheduler = &self.files.environment().scheduler;
        self.compactor.job.request(scheduler, Priority::Compact, "compact tables", move || {
            let Some(lsm) = lsm.upgrade() else { return };
            match lsm.compact_next() {
                // One compaction for each job, so that more urgent jobs run in between.
                Ok(true) => {
                    lsm.compactor.retry.succeeded();
                    lsm.schedule_compaction_if_due();
                }
                Ok(false) => lsm.compactor.retry.succeeded(),
                // After a lack of memory or space the compaction is retried when more tables come, when a writer finds
                // it behind, or when the keyspace has been idle for long once more.
                Err(error) => {
                    lsm.idle.reset();
                    lsm.compactor.retry.failed(&*lsm.files.context().shared.clock);
                    drop(lsm.files.environment().health.postpone("compacting tables", error));
                }
            }
        });
    }

    /// Runs one due compaction. Returns false if nothing is due or another thread holds the compaction lock.
    pub(crate) fn compact_next(self: &Arc<Self>) -> Result<bool> {
        let Some(_guard) = self.compactor.lock.try_lock() else { return Ok(false) };
        Conversion::of(self).map_or(Ok(()), Conversion::free_converted_pages)?;
        Ok(self.compact_locked(&Leveled, false)?.is_some())
    }

    /// Charges a scan of this many runs of L0 to the read budget: all runs but one are extra cost. Requests a job
    /// if the budget has grown enough for one.
    pub(crate) fn charge_l0_runs(self: &Arc<Self>, runs: u64) {
        if self
            .compactor
            .read_budget
            .record_scan(runs.saturating_sub(1), self.tuning.l0_target / READ_TRIGGERED_DIVISOR)
        {
            self.schedule_compaction_if_due();
        }
    }

    /// Compacts L0 until it can take another run.
    pub(crate) fn ensure_l0_capacity(self: &Arc<Self>) -> Result<()> {
        loop {
            let most = if self.files.environment().scheduler.is_threaded() {
                LEEWAY * L0_STOP_TRIGGER
            } else {
                L0_STOP_TRIGGER
            };
            if self.version().l0_runs().count() < most {
                return Ok(());
            }
            self.compact_with(&ReduceL0 { runs: most })?;
        }
    }

    /// Waits for the compaction lock and runs the compaction that is chosen then. Returns whether there was one.
    pub(crate) fn compact_with(self: &Arc<Self>, strategy: &Strategy<'_>) -> Result<bool> {
        let guard = self.compactor.lock.lock();
        let compacted = self.compact_locked(strategy, true);
        self.release_compaction_lock(guard);
        Ok(compacted?.is_some())
    }

    /// Runs one due compaction if L0 slows writers down. This is for a caller that takes the compaction lock again and
    /// again, so that background jobs hardly get it.
    pub(crate) fn relieve_l0(self: &Arc<Self>) -> Result<()> {
        if self.version().l0_runs().count() >= L0_SLOWDOWN_TRIGGER {
            self.compact_with(&RelieveL0 { runs: L0_SLOWDOWN_TRIGGER })?;
        }
        Ok(())
    }

    /// Runs the compaction that is chosen for the current version. The caller holds the compaction lock, so the version
    /// keeps all inputs until the edit. Returns the bytes of the inputs, or `None` if nothing was chosen. A compaction
    /// that a caller awaits is not throttled.
    fn compact_locked(self: &Arc<Self>, strategy: &Strategy<'_>, is_awaited: bool) -> Result<Option<u64>> {
        let version = self.version();
        // A compaction whose conversion to pages has begun ignores the runs that were flushed since. Otherwise each
        // step could bring new ranges to convert, and the conversion would not end.
        let resumed = self.conversions.state.begun();
        let resumed = resumed.and_then(|youngest| self.choose(strategy, &version.without_younger(youngest)));
        let Some(plan) = resumed.or_else(|| self.choose(strategy, &version)) else { return Ok(None) };
        Compaction::new(self, version, plan, is_awaited).run().map(Some)
    }

    /// The bytes to read until hardly any key of a range is above the last level. `None` if there is nothing to do, or
    /// the cost is too high.
    pub fn estimate_range_compaction(&self, key_range: (&[u8], &[u8])) -> Option<RangeCompactionEstimate> {
        RangeCompaction::of(&self.version(), key_range, self.tuning).plan()
    }

    /// Runs one compaction that moves a part of a range down and reads at most `most` bytes. It waits for the
    /// compaction lock, and calls `on_start` when it holds the lock. Returns `None` if there was nothing to do.
    pub fn compact_range_step(
        self: &Arc<Self>,
        key_range: (&[u8], &[u8]),
        most: u64,
        on_start: impl FnOnce(),
    ) -> Result<Option<RangeCompactionStep>> {
        let guard = self.compactor.lock.lock();
        on_start();
        let conversion_bytes = self.converted_bytes();
        let merged = self.compact_locked(&RangeStep { key_range, most, tuning: self.tuning }, true);
        self.release_compaction_lock(guard);
        let (read, before) = (merged?, self.converted_bytes() - conversion_bytes);
        // Nearly all bytes that are read are written again.
        self.conversions.bytes.add(read.unwrap_or(0));
        Ok(read.map(|read| RangeCompactionStep { read, before }))
    }

    /// Has the scheduler call `tick` as long as the keyspace exists.
    pub(crate) fn watch_use(self: &Arc<Self>) {
        let lsm = Arc::downgrade(self);
        self.files.environment().scheduler.add_tick(move || lsm.upgrade().map_or(Tick::Over, |lsm| lsm.tick()));
    }

    /// Called about once a second: detects whether the keyspace is idle, and schedules idle work.
    fn tick(self: &Arc<Self>) -> Tick {
        if self.check_live().is_err() || self.files.environment().health.check().is_err() {
            return Tick::Over;
        }
        self.idle
            .tick((self.activity(), self.record_cache().map_or_else(Stats::new, |record_cache| record_cache.stats())));
        let is_idle = self.is_idle();
        if is_idle {
            self.flush_deletes();
            self.schedule_compaction_if_due();
        }
        self.observer().into_iter().for_each(|observer| observer.on_tick(is_idle));
        if is_idle { Tick::Idle } else { Tick::InUse }
    }

    /// Schedules a flush if the deletes in memtables hide many records of tables.
    fn flush_deletes(self: &Arc<Self>) {
        let deletes = self.deletes_in_memory();
        if deletes > 0 && self.version().is_littered(deletes, self.little()) && self.begin_flush(Seq::MAX).is_err() {
            self.idle.reset();
        }
    }

    /// Garbage bytes that tables may always keep.
    pub(crate) fn little(&self) -> u64 {
        MIN_GARBAGE_BYTES.min(self.tuning.l0_target)
    }

    /// Deletes in memtables.
    fn deletes_in_memory(&self) -> u64 {
        let pin = self.current.pin();
        self.current.load(&pin).memtables.iter().map(|memtable_ref| memtable_ref.memtable.deletes()).sum()
    }

    /// Whether the keyspace was not used for long.
    pub fn is_idle(&self) -> bool {
        self.idle.is_idle()
    }

    /// Idle work has failed: it is tried again after another idle wait.
    pub fn idle_later(&self) {
        self.idle.reset();
    }

    /// How many threads may help with a job of `runs` runs whose records have `mean` bytes on average.
    pub(crate) fn helpers(&self, runs: usize, mean: u64) -> usize {
        let memory = self.files.environment().memory.budget() / self.tuning.helpers_part;
        self.tuning.helpers.min(affordable_helpers(memory, runs, self.tuning.table / mean.max(1)))
    }

    /// Spawns `count` jobs that run subtasks as well.
    pub(crate) fn call_helpers<W: ParallelJob + 'static>(
        &self,
        what: &'static str,
        parts: &Arc<Subtasks<W>>,
        count: usize,
    ) {
        for _ in 0..count {
            // A helper that starts after the end finds no subtask, and keeps nothing alive.
            let parts = Arc::downgrade(parts);
            let help = move || parts.upgrade().into_iter().for_each(|parts| parts.help());
            self.files.environment().scheduler.spawn(Priority::Compact, what, help);
        }
    }
}
