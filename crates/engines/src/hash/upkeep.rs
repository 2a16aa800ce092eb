//! What the background does for a keyspace: buckets for an index that is crowded, compaction, folds (decision 9,
//! "Compaction, budgets, back-pressure").

use std::{sync::Arc, time::Duration};

use ecotone_substrate::{
    Error, Result,
    environment::Environment,
    metrics::Histogram,
    pace::Pace,
    retry::Retry,
    scheduler::{Priority, Tick},
    single::Single,
};
use ecotone_sys::{
    epoch,
    primitive::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        thread,
    },
};

use super::{
    Hash,
    compact::{Compactor, Goals},
    install::Files,
    log::Address,
};
use crate::{
    delay::{self, Delay},
    idle::Idle,
};

/// What there may be to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Grow,
    WriteOut,
    Compact,
    Fold,
}

impl Work {
    const ALL: [Work; 4] = [Work::Grow, Work::WriteOut, Work::Compact, Work::Fold];
    /// What gives space on the disk back.
    const SAVING: [Work; 2] = [Work::Compact, Work::Fold];

    /// What writers wait for is not behind what they wait for late.
    fn priority(self) -> Priority {
        if let Work::Grow = self { Priority::Flush } else { Priority::Compact }
    }

    fn name(self) -> &'static str {
        match self {
            Work::Grow => "give a hash index more buckets",
            Work::WriteOut => "write out a hot log",
            Work::Compact => "compact a hot log",
            Work::Fold => "fold a partition",
        }
    }
}

/// The background of one keyspace.
#[derive(Debug)]
pub(super) struct Upkeep {
    hash: Arc<Hash>,
    files: Arc<Files>,
    environment: Environment,
    goals: Goals,
    /// The job of each kind of work, by its number.
    jobs: [Single; Work::ALL.len()],
    /// Steps of work that have ended.
    steps: AtomicU64,
    /// Steps in a row that were to save space, and could not.
    in_vain: AtomicU64,
    /// How far compaction is behind for those who write: the bits of a part, which is 0 as long as none is delayed.
    behind: AtomicU64,
    /// The same for those who delete, whom a shortage of space does not delay: what they write is small, and gives
    /// space back.
    behind_for_deletes: AtomicU64,
    /// Whether what lives fills the budget of disk.
    full: AtomicBool,
    /// What writers owe while it is behind.
    pace: Pace,
    retry: Retry,
    delays: Histogram,
    /// Ticks in which somebody has used it.
    idle: Idle<u64>,
    used: AtomicU64,
}

/// The part of what the hot log may have on disk from which on writers are slowed down.
const SLOW_FROM: f64 = 0.8;
/// How short space on the disk is where writers are slowed down.
const SLOW_FROM_SHORTAGE: f64 = 0.75;
/// Steps in a row that could not save space, after which nobody waits for the next one, and the time that passes
/// between two of them at least.
const TRIES: u64 = 16;
const TRY_AGAIN: Duration = Duration::from_millis(1);

impl Upkeep {
    pub(super) fn new(hash: Arc<Hash>, files: Arc<Files>, goals: Goals) -> Arc<Upkeep> {
        let environment = files.environment().clone();
        let (jobs, steps, in_vain, behind, behind_for_deletes, full, pace, retry, delays, idle, used) =
            Default::default();
        Arc::new(Upkeep {
            hash,
            files,
            environment,
            goals,
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

    /// Has the scheduler look whether anybody uses the keyspace as long as it is there.
    pub(super) fn watch_use(self: &Arc<Self>) {
        let upkeep = Arc::downgrade(self);
        self.environment.scheduler.add_tick(move || upkeep.upgrade().map_or(Tick::Over, |upkeep| upkeep.tick()));
    }

    /// Some time has passed.
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

    /// Has the background do what there is to do, if the keyspace has taken memory since it was asked last.
    #[inline]
    pub(super) fn call(self: &Arc<Self>) {
        if self.hash.room.has_grown() {
            self.begin();
        }
    }

    /// The same for who writes, and is delayed a little while compaction is behind or space is short, and stopped for a
    /// step while it is far behind or there is none.
    #[inline]
    pub(super) fn call_for_write(self: &Arc<Self>, bytes: usize, adds: bool) -> Result<()> {
        if self.hash.room.has_grown() || self.full.load(Ordering::Relaxed) {
            self.hold_back()?;
        }
        let behind = if adds { &self.behind } else { &self.behind_for_deletes };
        match behind.load(Ordering::Relaxed) {
            0 => {}
            behind => self.slow_down(f64::from_bits(behind), bytes),
        }
        Ok(())
    }

    /// Begins what there is to do, and finds out whether what lives fills the budget, if the keyspace has taken memory
    /// since it was asked last: for who admits many operations one after the other.
    #[inline]
    pub(super) fn look_again(self: &Arc<Self>) {
        if self.hash.room.has_grown() {
            self.begin();
            let is_full = self.compactor().shortage() >= 1.0 && !self.is_busy(&Work::SAVING);
            self.full.store(is_full, Ordering::Relaxed);
        }
    }

    /// Why nothing may be added now: nothing on the disk is left to save space on. What deletes something may be
    /// written all the same.
    #[inline]
    pub(super) fn refusal(&self) -> Option<Error> {
        if self.full.load(Ordering::Relaxed) { self.files.budget().map(|budget| budget.refusal()) } else { None }
    }

    /// Has the background begin. Waits for a step if compaction is far behind, and as long as there is no space and
    /// steps save some, else finds out how far it is. Without threads in the background nobody would catch up.
    ///
    /// # Errors
    /// If the keyspace was dropped, or the database closes.
    #[cold]
    fn hold_back(self: &Arc<Self>) -> Result<()> {
        let scheduler = &self.environment.scheduler;
        // Once they have all been in vain, who writes has one tried all the same: there may be space again.
        let mut tries = if self.in_vain.load(Ordering::Relaxed) < TRIES { TRIES } else { 1 };
        loop {
            self.files.check_live()?;
            // Before it begins, since a step that has begun already may be the last.
            let before = self.steps.load(Ordering::Acquire);
            let saves = self.is_busy(&Work::SAVING);
            self.begin();
            // What ends meanwhile is seen by this: the space comes last.
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
            // Nobody waits for what nobody does: it is asked for, and what there is to do now may be less than it was.
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

    fn no_delay(&self) -> Delay<'_> {
        Delay::new(&self.delays, &*self.files.context().shared.clock)
    }

    /// How long writers were held up, as statistics show it.
    pub(super) fn delays(&self) -> impl Iterator<Item = (&'static str, u64)> {
        delay::named(&self.delays).into_iter()
    }

    #[cold]
    fn begin(self: &Arc<Self>) {
        let due = |work: &Work| match work {
            Work::Grow => self.hash.table.is_crowded(),
            Work::WriteOut => self.compactor().write_out_is_due(),
            Work::Compact => self.compactor().compaction_is_due(),
            Work::Fold => self.compactor().fold_is_due(),
        };
        Work::ALL.into_iter().filter(due).for_each(|work| self.spawn(work));
    }

    fn spawn(self: &Arc<Self>, work: Work) {
        if self.jobs[work as usize].call() {
            self.schedule(work);
        }
    }

    fn schedule(self: &Arc<Self>, work: Work) {
        let upkeep = Arc::downgrade(self);
        self.environment.scheduler.spawn(work.priority(), work.name(), move || {
            if let Some(upkeep) = upkeep.upgrade() {
                upkeep.run(work);
            }
        });
    }

    /// One step, so that others come in between.
    fn run(self: Arc<Self>, work: Work) {
        self.jobs[work as usize].begin();
        let context = self.files.context();
        let began = context.shared.clock.now_for_log();
        let done = match work {
            Work::Grow => Ok(self.hash.grow_index()),
            Work::WriteOut => self.compactor().write_out_if_due(),
            Work::Compact => self.compactor().compact_if_due(),
            Work::Fold => self.compactor().fold_if_due(),
        };
        if self.jobs[work as usize].end() {
            self.schedule(work);
        }
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
                    hot_log = self.hash.log.bytes(),
                    deltas = self.hash.cold.runs().delta_bytes(),
                    base = self.hash.cold.runs().base_bytes(),
                    took = ?context.shared.clock.since(began),
                    "done: {}",
                    work.name()
                );
                self.retry.succeeded();
                self.begin();
            }
            // There is no more to do. Without memory or space it is tried again when the keyspace has taken more
            // memory, or when writers come while it is behind.
            Ok(false) => self.retry.succeeded(),
            Err(_) if self.files.is_retired() => {}
            Err(error) => {
                if error.is_shortage() {
                    self.hash.counts.postponed.increment();
                }
                self.retry.failed(&*self.files.context().shared.clock);
                self.idle.begin_anew();
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
            goals: self.goals,
            is_idle: self.idle.is_idle(),
        }
    }
}

impl Hash {
    /// Gives the index more buckets while it is crowded and there is memory, unless another thread does. Whether it got
    /// some.
    pub(crate) fn grow_index(&self) -> bool {
        epoch::assert_unpinned();
        let mut grown = false;
        while self.table.is_crowded() && self.table.grow(|| self.lease_or_take(|| self.room.lease().ok())) {
            grown = true;
        }
        grown
    }

    /// Frees the entries of what was truncated below `until`, and sweeps the links of copies, as soon as everybody
    /// knows of that (decision 10, invariant 21).
    pub(crate) fn clear_entries(&self, until: Address) {
        while self.log.bounds().clearable() < until {
            self.domain.drain();
            thread::yield_now();
        }
        self.table.sweep(until);
        self.sweep_copies();
    }
}
