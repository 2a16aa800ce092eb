//! The background controller of a hash keyspace. It schedules index growth, writing out the hot log, compaction, and
//! merges of deltas into the base runs, and it delays writers while compaction is behind (hash.md, "Back-pressure and
//! space").

use std::{sync::Arc, time::Duration};

use ecotone_engine::{
    idle::IdleDetector,
    write_delay::{self, WriteDelay},
};
use ecotone_substrate::{
    Error, Result,
    coalesced_job::CoalescedJob,
    environment::Environment,
    metrics::Histogram,
    retry::Retry,
    scheduler::{Priority, Tick},
    throttle::WriteThrottle,
};
use ecotone_sys::primitive::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{
    Hash,
    compact::{CompactionLimits, Compactor},
    install::Files,
};

/// The kinds of background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Grow,
    WriteOut,
    Compact,
    MergeBase,
}

impl Work {
    const ALL: [Work; 4] = [Work::Grow, Work::WriteOut, Work::Compact, Work::MergeBase];
    /// The kinds that free disk space.
    const SAVING: [Work; 2] = [Work::Compact, Work::MergeBase];

    /// Index growth comes first, since writers wait for buckets at once, and for the other work only when it is late.
    fn priority(self) -> Priority {
        if let Work::Grow = self { Priority::Flush } else { Priority::Compact }
    }

    fn name(self) -> &'static str {
        match self {
            Work::Grow => "give a hash index more buckets",
            Work::WriteOut => "write out a hot log",
            Work::Compact => "compact a hot log",
            Work::MergeBase => "merge a base",
        }
    }
}

/// The background controller of one keyspace.
#[derive(Debug)]
pub(super) struct BackgroundController {
    hash: Arc<Hash>,
    files: Arc<Files>,
    environment: Environment,
    limits: CompactionLimits,
    /// The job of each kind of work, indexed by its discriminant.
    jobs: [CoalescedJob; Work::ALL.len()],
    /// Number of finished steps.
    steps: AtomicU64,
    /// Consecutive steps that should have freed disk space and failed.
    in_vain: AtomicU64,
    /// How far compaction is behind for writers, as the bits of an `f64`; 0 while no writer is delayed.
    behind: AtomicU64,
    /// The same for deletes, which a shortage of space does not delay: a tombstone is small, and frees space later.
    behind_for_deletes: AtomicU64,
    /// Whether live data fills the disk budget.
    full: AtomicBool,
    /// The delay of writers while compaction is behind.
    pace: WriteThrottle,
    retry: Retry,
    delays: Histogram,
    /// Detects ticks in which nothing has used the keyspace, by the count in `used`.
    idle: IdleDetector<u64>,
    used: AtomicU64,
}

/// Fill of the hot log's disk limit from which on writers are slowed down.
const SLOW_FROM: f64 = 0.8;
/// Shortage of disk space from which on writers are slowed down.
const SLOW_FROM_SHORTAGE: f64 = 0.75;
/// Failed steps in a row after which writers no longer wait for the next one, and the minimum time between two tries.
const TRIES: u64 = 16;
const TRY_AGAIN: Duration = Duration::from_millis(1);

impl BackgroundController {
    pub(super) fn new(hash: Arc<Hash>, files: Arc<Files>, limits: CompactionLimits) -> Arc<BackgroundController> {
        let environment = files.environment().clone();
        let (jobs, steps, in_vain, behind, behind_for_deletes, full, pace, retry, delays, idle, used) =
            Default::default();
        Arc::new(BackgroundController {
            hash,
            files,
            environment,
            limits,
            jobs,
            steps,
            in_vain,
            behind,
            behind_for_deletes,
            full,
            pace,
            retry,
            delays,
            idle,
            used,
        })
    }

    /// Registers a scheduler tick that watches whether the keyspace is used, as long as it exists.
    pub(super) fn watch_use(self: &Arc<Self>) {
        let background = Arc::downgrade(self);
        self.environment
            .scheduler
            .add_tick(move || background.upgrade().map_or(Tick::Over, |background| background.tick()));
    }

    /// One tick of the scheduler: updates idleness, and starts work in an idle keyspace.
    fn tick(self: &Arc<Self>) -> Tick {
        if self.files.check_live().is_err() || self.environment.health.check().is_err() {
            return Tick::Over;
        }
        let more = u64::from(self.hash.used.swap(false, Ordering::Relaxed));
        self.idle.tick(self.used.fetch_add(more, Ordering::Relaxed) + more);
        if !self.idle.is_idle() {
            return Tick::InUse;
        }
        if self.files.context().shared.wal.has_begun() {
            self.begin();
        }
        Tick::Idle
    }

    /// Starts due work if the keyspace has taken memory since the last call.
    #[inline]
    pub(super) fn call(self: &Arc<Self>) {
        if self.hash.reservations.has_grown() {
            self.begin();
        }
    }

    /// The same for a write. It is delayed a little while compaction is behind or space is short, and waits for a step
    /// while compaction is far behind or there is no space.
    #[inline]
    pub(super) fn call_for_write(self: &Arc<Self>, bytes: usize, adds: bool) -> Result<()> {
        if self.hash.reservations.has_grown() || self.full.load(Ordering::Relaxed) {
            self.hold_back()?;
        }
        let behind = if adds { &self.behind } else { &self.behind_for_deletes };
        match behind.load(Ordering::Relaxed) {
            0 => {}
            behind => self.slow_down(f64::from_bits(behind), bytes),
        }
        Ok(())
    }

    /// Starts due work and updates `full`, if the keyspace has taken memory since the last call. For callers that admit
    /// many operations in sequence.
    #[inline]
    pub(super) fn look_again(self: &Arc<Self>) {
        if self.hash.reservations.has_grown() {
            self.begin();
            let is_full = self.compactor().shortage() >= 1.0 && !self.is_busy(&Work::SAVING);
            self.full.store(is_full, Ordering::Relaxed);
        }
    }

    /// The error of a write that adds something, if no disk space is left and none can be freed. Deletes are written
    /// anyway.
    #[inline]
    pub(super) fn refusal(&self) -> Option<Error> {
        if self.full.load(Ordering::Relaxed) { self.files.budget().map(|budget| budget.refusal()) } else { None }
    }

    /// Starts due work. Waits for a step if compaction is far behind, and, if there is no space, as long as steps free
    /// some; else computes the backlog. Without background threads it does not delay, since no work would catch up.
    ///
    /// # Errors
    /// If the keyspace was dropped, or the database closes.
    #[cold]
    fn hold_back(self: &Arc<Self>) -> Result<()> {
        let scheduler = &self.environment.scheduler;
        // Once all tries have failed, a writer still has one step tried: there may be space again.
        let mut tries = if self.in_vain.load(Ordering::Relaxed) < TRIES { TRIES } else { 1 };
        loop {
            self.files.check_live()?;
            // Read before work starts, since a running step may be the last. A job counts as busy until it has ended,
            // which costs one more wait.
            let before = self.steps.load(Ordering::Acquire);
            let saves = self.is_busy(&Work::SAVING);
            self.begin();
            // This sees steps that end meanwhile. The space is read last.
            let saves = saves || self.is_busy(&Work::SAVING) || self.steps.load(Ordering::Acquire) != before;
            let saves = saves && tries > 0;
            let is_short = self.compactor().shortage() >= 1.0;
            self.full.store(is_short && !saves, Ordering::Relaxed);
            if !is_short && self.compactor().fullness() < 1.0 || is_short && !saves {
                break;
            }
            let mut delay = self.no_delay();
            delay.begin();
            // If nothing is due there is nothing to wait for.
            scheduler.wait_until("compaction", || {
                self.steps.load(Ordering::Acquire) != before || !self.is_busy(&Work::ALL)
            })?;
            if !is_short {
                return Ok(());
            }
            if self.in_vain.load(Ordering::Relaxed) > 0 {
                tries -= 1;
                self.files.context().shared.clock.sleep(TRY_AGAIN);
            }
        }
        if scheduler.is_threaded() {
            self.look_behind();
        }
        Ok(())
    }

    fn is_busy(&self, work: &[Work]) -> bool {
        !work.iter().all(|work| self.jobs[*work as usize].is_idle())
    }

    fn look_behind(&self) {
        let part = |of: f64, from: f64| (of - from) / (1.0 - from);
        let (fullness, shortage) = (self.compactor().fullness(), self.compactor().shortage());
        let late = part(fullness, SLOW_FROM).max(self.compactor().crowding()).clamp(0.0, 1.0);
        let behind = late.max(part(shortage, SLOW_FROM_SHORTAGE).min(1.0));
        self.behind_for_deletes.store(late.to_bits(), Ordering::Relaxed);
        self.behind.store(behind.to_bits(), Ordering::Relaxed);
    }

    #[cold]
    fn slow_down(self: &Arc<Self>, behind: f64, bytes: usize) {
        if !self.is_busy(&Work::ALL) {
            // Without a running job there is nothing to wait for: the work is requested, and the backlog is computed
            // again.
            if self.retry.is_due(&*self.files.context().shared.clock) {
                self.begin();
            }
            self.look_behind();
        }
        if self.retry.has_failed() || !self.is_busy(&Work::ALL) {
            return;
        }
        if let Some(owed) = self.pace.charge(behind, bytes) {
            self.no_delay().sleep(owed);
        }
    }

    fn no_delay(&self) -> WriteDelay<'_> {
        WriteDelay::new(&self.delays, &*self.files.context().shared.clock)
    }

    /// The delays of writers, as statistics show them.
    pub(super) fn delays(&self) -> impl Iterator<Item = (&'static str, u64)> {
        write_delay::stats(&self.delays).into_iter()
    }

    #[cold]
    fn begin(self: &Arc<Self>) {
        let due = |work: &Work| match work {
            Work::Grow => self.hash.chains.index.is_crowded(),
            Work::WriteOut => self.compactor().write_out_is_due(),
            Work::Compact => self.compactor().compaction_is_due(),
            Work::MergeBase => self.compactor().base_merge_is_due(),
        };
        Work::ALL.into_iter().filter(due).for_each(|work| self.spawn(work));
    }

    fn spawn(self: &Arc<Self>, work: Work) {
        let background = Arc::downgrade(self);
        self.jobs[work as usize].request(&self.environment.scheduler, work.priority(), work.name(), move || {
            background.upgrade().into_iter().for_each(|background| background.run(work));
        });
    }

    /// Runs one step, so that other jobs run in between.
    fn run(self: &Arc<Self>, work: Work) {
        let context = self.files.context();
        let began = context.shared.clock.now_for_log();
        let done = match work {
            Work::Grow => Ok(self.hash.reservations.grow_index(&self.hash.chains)),
            Work::WriteOut => self.compactor().write_out_if_due(),
            Work::Compact => self.compactor().compact_if_due(),
            Work::MergeBase => self.compactor().merge_base_if_due(),
        };
        if Work::SAVING.contains(&work) {
            match done {
                Ok(true) => self.in_vain.store(0, Ordering::Relaxed),
                Ok(false) => {}
                Err(_) => _ = self.in_vain.fetch_add(1, Ordering::Relaxed),
            }
        }
        match done {
            Ok(true) => {
                tracing::debug!(
                    keyspace = context.keyspace,
                    hot_log = self.hash.chains.log.bytes(),
                    deltas = self.hash.cold.runs().delta_bytes(),
                    base = self.hash.cold.runs().base_bytes(),
                    took = ?context.shared.clock.since(began),
                    "done: {}",
                    work.name()
                );
                self.retry.succeeded();
                self.begin();
            }
            // Nothing more is due. After a shortage of memory or space the work is tried again when the keyspace has
            // taken more memory, or when writers come while it is behind.
            Ok(false) => self.retry.succeeded(),
            Err(_) if self.files.is_retired() => {}
            Err(error) => {
                if error.is_shortage() {
                    self.hash.counts.postponed.increment();
                }
                self.retry.failed(&*self.files.context().shared.clock);
                self.idle.reset();
                self.environment.health.postpone(work.name(), error);
            }
        }
        if self.behind.load(Ordering::Relaxed) > 0 {
            self.look_behind();
        }
        self.steps.fetch_add(1, Ordering::AcqRel);
        self.environment.scheduler.notify();
    }

    pub(super) fn compactor(&self) -> Compactor<'_> {
        Compactor {
            hash: &self.hash,
            environment: &self.environment,
            install: &*self.files,
            limits: self.limits,
            is_idle: self.idle.is_idle(),
        }
    }
}
