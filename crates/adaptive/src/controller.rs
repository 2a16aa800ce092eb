//! The background controller of a keyspace. It takes the next task, from a hint or from the policy, and runs it step by
//! step in one background job. A step is one conversion small enough for more urgent jobs to come between. Pauses keep
//! the job within its percent of CPU time (adaptive.md, "Controller").

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use ecotone_engine::contract::{ConversionReason, Hint, Range, RangeShape, Shape, Shared};
use ecotone_lsm::{
    Split,
    keyspace::LsmKeyspace,
    observer::{FlushCandidate, ScanReport},
    pages::tier::RangeSize,
    store::Lsm,
};
use ecotone_substrate::{Error, Result, coalesced_job::CoalescedJob, metrics::Counter, scheduler::Priority};
use ecotone_sys::primitive::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use super::{
    cost_model::{self, FIXED_COST},
    hints::bounds,
    insert,
    policy::{Policy, clip},
    task::{Target, Task},
};

/// Nanoseconds between two ticks in a keyspace that is scanned: short against a workload phase of seconds.
const TICK: u64 = 100_000_000;
/// The next choice waits this many times as long as the last choice took of a processor. A choice walks over all
/// scanned ranges, which may be many.
const CHOICE_PAUSE_FACTOR: u64 = 32;
/// Nanoseconds of one step of a pause. A pause occupies a background worker that other jobs may need.
const PAUSE_STEP_NS: u64 = 10_000_000;

/// Nanoseconds after which a hinted task that found no space is tried again.
const RETRY_NS: u64 = 60_000_000_000;

/// Adapts one keyspace.
#[derive(Debug)]
pub(super) struct Controller {
    shared: Shared,
    /// Percent of the time in which it works at most, without waits for a processor; 0 if it only follows hints.
    cpu_percent: u8,
    /// Which runs and levels of a range one conversion takes.
    split: Split,
    keyspace: OnceLock<Weak<LsmKeyspace>>,
    ticked_at: AtomicU64,
    state: Mutex<State>,
    job: CoalescedJob,
    to_pages: Counter,
    merged: Counter,
    to_tables: Counter,
    given_up: Counter,
}

#[derive(Debug, Default)]
struct State {
    policy: Policy,
    /// Cached hot bounds; cleared on each tick.
    hot_bounds: Option<Vec<Vec<u8>>>,
    /// Ticks so far.
    ticks: u64,
    /// Tasks from hints, and the task that the policy chose.
    hinted: Vec<Task>,
    task: Option<Task>,
    /// The task whose step runs now, as it was before the step; `None` if a hint has cancelled it.
    under_way: Option<Task>,
    /// The range of keys that got hints since the policy began to choose.
    hinted_meanwhile: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// Time of the next choice by the policy.
    next_choice_at: u64,
    /// Pause time left, in nanoseconds.
    pause_ns: u64,
    /// The last few finished tasks.
    finished: Vec<Task>,
}

/// Finished tasks that are remembered.
const MAX_FINISHED: usize = 64;

impl Controller {
    /// A controller that works for at most `cpu_percent` percent of the time. [`begin`](Self::begin) sets its keyspace.
    pub(super) fn new(shared: &Shared, cpu_percent: u8, split: Split) -> Arc<Controller> {
        let (shared, ticked_at) = (shared.clone(), AtomicU64::new(shared.clock.now()));
        let (keyspace, state, job) = (OnceLock::new(), Mutex::new(State::default()), CoalescedJob::default());
        let [to_pages, merged, to_tables, given_up] = [(); 4].map(|()| Counter::default());
        Arc::new(Controller {
            shared,
            cpu_percent,
            split,
            keyspace,
            ticked_at,
            state,
            job,
            to_pages,
            merged,
            to_tables,
            given_up,
        })
    }

    /// Sets the keyspace.
    pub(super) fn begin(&self, keyspace: &Arc<LsmKeyspace>) {
        self.keyspace.set(Arc::downgrade(keyspace)).expect("it adapts one keyspace");
    }

    /// Records the report of a scan. A report that arrives while the state is locked is dropped.
    pub(super) fn on_scan(self: &Arc<Self>, report: &ScanReport<'_>) {
        let Some(mut state) = self.state.try_lock() else { return };
        if self.cpu_percent > 0 {
            state.policy.is_idle = false;
            state
                .policy
                .scan_stats
                .record(report.from, (cost_model::read_cost(report), cost_model::page_overhead(report)));
        } else if state.hinted.is_empty() {
            return;
        }
        drop(state);
        let (now, before) = (self.shared.clock.now(), self.ticked_at.load(Ordering::Relaxed));
        if now.saturating_sub(before) >= TICK {
            self.ticked_at.store(now, Ordering::Relaxed);
            self.wake();
        }
    }

    /// Called about once a second. In an idle keyspace, ranges that were worth converting before still are, and ranges
    /// that are mostly deleted give their space back.
    pub(super) fn on_tick(self: &Arc<Self>, is_idle: bool) {
        let (mut state, is_idle) = (self.state.lock(), is_idle && self.cpu_percent > 0);
        state.policy.is_idle |= is_idle;
        if is_idle || !state.hinted.is_empty() {
            drop(state);
            self.wake();
        }
    }

    /// Called when a memtable is flushed. A postponed hint may be due, also where there are no scans.
    pub(super) fn on_flush(self: &Arc<Self>) {
        let is_asked = !self.state.lock().hinted.is_empty();
        if is_asked {
            self.wake();
        }
    }

    /// Of these ranges, which are pages alone, those whose flushed records go into the pages at once.
    pub(super) fn select_for_pages(&self, mut flush_candidates: Vec<FlushCandidate>) -> Vec<FlushCandidate> {
        let mut state = self.state.lock();
        let Policy { scan_stats, hints, .. } = &mut state.policy;
        flush_candidates.retain(|FlushCandidate { lower, upper, range_size }| {
            let cost = cost_model::conversion_cost(Target::Pages, cost_model::bytes_rewritten(range_size)) + FIXED_COST;
            insert::pays(hints.of(lower, upper), scan_stats.scans_since_flush(lower, upper), cost)
        });
        scan_stats.on_flush();
        flush_candidates
    }

    /// The bounds of the hot ranges, ascending.
    pub(super) fn hot_bounds(&self) -> Vec<Vec<u8>> {
        let Some(keyspace) = self.keyspace.get().and_then(Weak::upgrade) else { return Vec::new() };
        let (policy, ticks) = {
            let state = self.state.lock();
            if let Some(hot_bounds) = &state.hot_bounds {
                return hot_bounds.clone();
            }
            (state.policy.clone(), state.ticks)
        };
        let found = policy.hot_bounds(keyspace.lsm(), self.shared.memory.budget() as u64);
        let mut state = self.state.lock();
        if state.ticks == ticks { state.hot_bounds.get_or_insert(found).clone() } else { found }
    }

    /// Takes a hint of how a range will be used, and cancels the tasks that it overrides.
    ///
    /// # Errors
    /// If there are too many hints.
    pub(super) fn hint(self: &Arc<Self>, lsm: &Lsm, range: &Range, hint: Hint) -> Result<()> {
        let (lower, upper) = bounds(range);
        if upper.as_ref().is_some_and(|upper| *upper <= lower) {
            return Ok(());
        }
        // The size is estimated without the lock, because scans and flushes need the lock.
        let clipped = lsm.key_bounds().and_then(|ends| clip(&ends, &lower, upper.as_deref()));
        let task = clipped.clone().and_then(|(lower, upper)| match hint {
            Hint::ReadMostly => Some(Task::convert(lsm, self.split, ConversionReason::Hint, (lower, upper))),
            Hint::WriteMostly => Some(Task::new(Target::Tables, ConversionReason::Hint, lower, upper)),
            Hint::Auto => None,
        });
        let mut state = self.state.lock();
        state.policy.hints.set(lower.clone(), upper.clone(), hint)?;
        state.cancel_tasks(&lower, upper.as_deref());
        clipped.iter().for_each(|(lower, upper)| state.policy.scan_stats.forget(lower, upper));
        state.hinted.extend(task);
        drop(state);
        self.wake();
        Ok(())
    }

    fn wake(self: &Arc<Self>) {
        let controller = Arc::downgrade(self);
        self.job.request(&self.shared.scheduler, Priority::Idle, "adapt ranges of keys", move || {
            let Some(controller) = controller.upgrade() else { return };
            match controller.step() {
                // One step per job, so that more urgent jobs come between.
                Ok(true) => controller.wake(),
                // The keyspace was dropped.
                Ok(false) | Err(Error::Closed { .. }) => {}
                Err(error) => drop(controller.shared.health.postpone("adapting a range", error)),
            }
        });
    }

    /// Runs one step of the next task, or one step of a pause. False if there is nothing to do.
    fn step(&self) -> Result<bool> {
        let Some(keyspace) = self.keyspace.get().and_then(Weak::upgrade) else { return Ok(false) };
        keyspace.check_live()?;
        let Some(mut task) = self.next(keyspace.lsm()) else { return Ok(false) };
        if self.throttle() {
            self.requeue(task);
            return Ok(true);
        }
        let (ended, cpu_ns) = task.step(keyspace.lsm(), self.split, || self.shared.clock.now());
        match ended {
            Ok(()) => self.count(task.target),
            Err(error) if error.is_shortage() || matches!(error, Error::Limit { .. }) => {
                self.given_up.increment();
                keyspace.lsm().idle_later();
                if task.reason == ConversionReason::Hint {
                    task.not_before = self.shared.clock.now() + RETRY_NS;
                } else {
                    // The task counts as done: the range has to lose its cost again before the next attempt.
                    task.give_up();
                }
            }
            Err(error) => return Err(error),
        }
        self.requeue(task);
        self.add_pause(cpu_ns);
        Ok(true)
    }

    fn count(&self, target: Target) {
        match target {
            Target::Pages => self.to_pages.increment(),
            Target::OneRun => self.merged.increment(),
            Target::Tables => self.to_tables.increment(),
        }
    }

    /// The next task: a due hint, else the unfinished task, else a new choice of the policy.
    fn next(&self, lsm: &Lsm) -> Option<Task> {
        let (now, mut state) = (self.shared.clock.now(), self.state.lock());
        let due = state.due(now);
        state.under_way = due.map(|task| state.hinted.remove(task)).or_else(|| {
            state.policy.scan_stats.tick(now);
            (state.hot_bounds, state.ticks) = (None, state.ticks + 1);
            state.task.take()
        });
        let is_late = lsm.stall_fraction() > 0.0 || lsm.has_waiting_memtables() || now < state.next_choice_at;
        if state.under_way.is_some() || is_late || self.cpu_percent == 0 {
            return state.under_way.clone();
        }
        // The choice may take long, and scans and flushes need the lock.
        let policy = state.policy.clone();
        state.hinted_meanwhile = None;
        drop(state);
        self.choose(&policy, lsm)
    }

    /// Lets the policy choose a task, and sets when it may choose again. A hint that overlaps the task and came
    /// meanwhile cancels it.
    fn choose(&self, policy: &Policy, lsm: &Lsm) -> Option<Task> {
        let begun = self.shared.clock.processor();
        let task = policy.choose(lsm, self.split, self.shared.memory.budget() as u64);
        let took = self.shared.clock.processor().saturating_sub(begun);
        let mut state = self.state.lock();
        state.next_choice_at = self.shared.clock.now() + CHOICE_PAUSE_FACTOR * took;
        let hinted_meanwhile = state.hinted_meanwhile.take();
        let is_over =
            |task: &Task| hinted_meanwhile.is_some_and(|(lower, upper)| task.overlaps_range(&lower, upper.as_deref()));
        state.under_way = task.filter(|task| !is_over(task));
        state.under_way.clone()
    }

    /// Requeues an unfinished task unless a hint cancelled it. Learns from a finished one.
    fn requeue(&self, task: Task) {
        let mut state = self.state.lock();
        let goes_on = state.under_way.take().is_some();
        if task.is_done() {
            state.learn(task);
        } else if goes_on && task.reason == ConversionReason::Hint {
            state.hinted.insert(0, task);
        } else if goes_on {
            state.task = Some(task);
        }
    }

    /// Adds pause time so that the job stays within `cpu_percent`. A controller that only follows hints does not pause.
    fn add_pause(&self, cpu_ns: u64) {
        let percent = if self.cpu_percent == 0 { 100 } else { u64::from(self.cpu_percent.min(100)) };
        let mut state = self.state.lock();
        state.pause_ns = state.pause_ns.saturating_add(cpu_ns.saturating_mul(100 - percent) / percent);
    }

    /// Sleeps for one step of the pause, if any is left. More urgent jobs come between two steps.
    fn throttle(&self) -> bool {
        let mut state = self.state.lock();
        if state.pause_ns == 0 || !self.shared.scheduler.is_threaded() {
            return false;
        }
        let step = state.pause_ns.min(PAUSE_STEP_NS);
        state.pause_ns -= step;
        drop(state);
        self.shared.clock.sleep(Duration::from_nanos(step));
        true
    }

    /// Reports the paged ranges, and the ranges of queued tasks.
    pub(super) fn shapes(&self, lsm: &Lsm) -> Vec<RangeShape> {
        // The sizes are estimated without the lock, because scans and flushes need the lock.
        let current = lsm.paged_ranges();
        let paged_ranges: Vec<_> = current
            .iter()
            .map(|paged_range| {
                (paged_range, lsm.range_sizes().range_size(paged_range.bounds().0, paged_range.bounds().1))
            })
            .collect();
        let tasks: Vec<Task> = {
            let state = self.state.lock();
            state.under_way.iter().chain(&state.hinted).chain(&state.task).cloned().collect()
        };
        let tasks: Vec<_> =
            tasks.into_iter().map(|task| (lsm.range_sizes().range_size(&task.from, &task.upper), task)).collect();
        let state = self.state.lock();
        let covered = paged_ranges.into_iter().map(|(paged_range, range_size)| {
            let shape = match (paged_range.superseded_from(), range_size.bytes) {
                (None, _) => Shape::MergeOnRead,
                (Some(_), 0) => Shape::Pages,
                (Some(_), _) => Shape::PagesBelowTables,
            };
            let shape = state.shape(shape, paged_range.bounds(), &range_size, Target::Pages);
            // Compaction has reactivated its tables, which is no task.
            match paged_range.superseded_from() {
                None => RangeShape { reason: Some(ConversionReason::Writes), ..shape },
                Some(_) => shape,
            }
        });
        let queued = tasks.iter().map(|(range_size, task)| {
            let shape = match task.target {
                Target::Pages => Shape::ToBePages,
                Target::OneRun => Shape::ToBeOneRun,
                Target::Tables => Shape::ToBeTables,
            };
            RangeShape {
                reason: Some(task.reason),
                ..state.shape(shape, (&task.from, &task.upper), range_size, task.target)
            }
        });
        covered.chain(queued).collect()
    }

    /// Counters of conversion steps.
    pub(super) fn stats(&self) -> [(&'static str, u64); 4] {
        [
            ("ranges_to_pages", self.to_pages.get()),
            ("ranges_to_one_run", self.merged.get()),
            ("ranges_to_tables", self.to_tables.get()),
            ("conversions_given_up", self.given_up.get()),
        ]
    }
}

impl State {
    /// The first hinted task that may run now. A task waits for older hinted tasks that overlap it.
    fn due(&self, now: u64) -> Option<usize> {
        (0..self.hinted.len()).find(|&number| {
            let (task, before) = (&self.hinted[number], &self.hinted[..number]);
            task.not_before <= now && !before.iter().any(|other| other.overlaps_range(&task.lower, Some(&task.upper)))
        })
    }

    /// A hint for a range, which is unbounded without `upper`: cancels older hinted tasks within the range, and tasks
    /// of the policy that overlap it.
    fn cancel_tasks(&mut self, lower: &[u8], upper: Option<&[u8]>) {
        let is_over = |task: &Task| match task.reason {
            ConversionReason::Hint => task.is_within(lower, upper),
            _ => task.overlaps_range(lower, upper),
        };
        self.hinted.retain(|task| !is_over(task));
        self.task.take_if(|task| is_over(task));
        self.under_way.take_if(|task| is_over(task));
        let (lower, upper) = (lower.to_vec(), upper.map(<[u8]>::to_vec));
        self.hinted_meanwhile = Some(match self.hinted_meanwhile.take() {
            Some((from, to)) => (from.min(lower), to.zip(upper).map(|(to, upper)| to.max(upper))),
            None => (lower, upper),
        });
    }

    fn learn(&mut self, task: Task) {
        self.policy.learn(&task);
        if self.finished.len() == MAX_FINISHED {
            self.finished.remove(0);
        }
        self.finished.push(task);
    }

    fn shape(
        &self,
        shape: Shape,
        (lower, upper): (&[u8], &[u8]),
        range_size: &RangeSize,
        target: Target,
    ) -> RangeShape {
        let &RangeSize { page_bytes, bytes: table_bytes, .. } = range_size;
        let scan_stats = &self.policy.scan_stats;
        let (scans, read_cost) = scan_stats.of(lower, upper);
        let conversion_cost =
            (cost_model::conversion_cost(target, cost_model::bytes_rewritten(range_size)), FIXED_COST);
        let threshold = if table_bytes > 0 { scan_stats.threshold(lower, upper, conversion_cost) } else { 0.0 };
        let finished = self.finished.iter().rfind(|task| !task.is_given_up && task.overlaps_range(lower, Some(upper)));
        let reason = finished.map(|task| task.reason);
        let (lower, upper, read_cost_seconds, threshold_seconds) =
            (lower.to_vec(), upper.to_vec(), read_cost / 1e9, threshold / 1e9);
        RangeShape { lower, upper, shape, page_bytes, table_bytes, scans, read_cost_seconds, threshold_seconds, reason }
    }
}
