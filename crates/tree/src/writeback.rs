//! Background write-out for all tree keyspaces of a database, and the write throttle and write stalls that bound the
//! dirty records.
//!
//! Above the soft limit writers are delayed and a background job writes out; at the hard limit writers wait. Idle jobs
//! reorganise segments with overflow pages and return free space to the file system.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ecotone_engine::{contract::Shared, write_delay::WriteDelay};
use ecotone_substrate::{
    Result, Seq,
    failures::Failures,
    lock_rank::{self, Wait},
    metrics::{Counter, Histogram},
    retry::Retry,
    scheduler::Priority,
    throttle::WriteThrottle,
};
use ecotone_sys::primitive::{
    Mutex,
    atomic::{AtomicBool, AtomicU64},
};

use super::{
    cache::{Cache, KeySpan},
    sweep::Sweep,
    write_out::WriteOut,
};

/// Time between two checks whether a helper has finished its batch.
const HELPER_WAIT: Duration = Duration::from_micros(200);
/// Soft and low limit in sixteenths of the hard limit. Above *soft* writers are slowed down, and the background writes
/// out down to *low*. Both are high, since a record that stays dirty longer is written together with more records of
/// its page.
const SOFT: usize = 12;
const LOW: usize = 11;
/// Idle reorganisation pauses while more than the hard limit divided by this is dirty.
const BUSY: usize = 16;

/// The outcome of a round.
enum RoundResult {
    Ended,
    /// Another thread sweeps over the keyspace that was due.
    LeftToAnother,
}

/// The background work for the trees of one database.
#[derive(Debug)]
pub(crate) struct Writeback {
    cache: Arc<Cache>,
    trees: Mutex<Vec<Weak<WriteOut>>>,
    writing: AtomicBool,
    tidying: AtomicBool,
    trimming: AtomicBool,
    /// Number of written batches and ended rounds. A writer that waits for space checks again when it changes.
    steps: AtomicU64,
    /// Whether a round has left the work to another thread that sweeps. No round begins until that sweep has ended.
    left: AtomicBool,
    /// Whether a writer found no space. A batch is written out then, however little is dirty.
    wanted: AtomicBool,
    /// The write throttle while much is dirty.
    pace: WriteThrottle,
    /// Failures of rounds that ended early: a full disk, or lack of memory.
    failures: Failures,
    retry: Retry,
    /// Dirty bytes from which writers and replay stall.
    hard_limit: AtomicUsize,
    /// Writers that waited for write-out.
    pub(crate) stalls: Counter,
    /// Delays of the writers that were delayed, in nanoseconds.
    pub(crate) delays: Histogram,
}

impl Writeback {
    pub(crate) fn new(cache: Arc<Cache>) -> Arc<Self> {
        let hard_limit = cache.dirty_limit();
        Arc::new(Writeback {
            cache,
            trees: Mutex::default(),
            writing: AtomicBool::new(false),
            tidying: AtomicBool::new(false),
            trimming: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            left: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            pace: WriteThrottle::default(),
            failures: Failures::default(),
            retry: Retry::default(),
            hard_limit: AtomicUsize::new(hard_limit),
            stalls: Counter::default(),
            delays: Histogram::default(),
        })
    }

    pub(crate) fn join(&self, tree: &Arc<WriteOut>) {
        let mut trees = self.trees.lock();
        trees.retain(|tree| tree.strong_count() > 0);
        trees.push(Arc::downgrade(tree));
    }

    fn hard_limit(&self) -> usize {
        self.hard_limit.load(Ordering::Relaxed)
    }

    /// Updates the hard limit from the cache. The limit changes slowly, and to compute it costs too much for every
    /// write.
    pub(crate) fn refresh_limit(&self) {
        self.hard_limit.store(self.cache.dirty_limit(), Ordering::Relaxed);
    }

    /// Delays a writer when much is dirty, and stalls it at the hard limit.
    pub(crate) fn delay_writer(
        self: &Arc<Self>,
        shared: &Shared,
        bytes: usize,
        delay: &mut WriteDelay<'_>,
    ) -> Result<()> {
        let (dirty, hard) = (self.cache.dirty_bytes(), self.hard_limit());
        let soft = hard / 16 * SOFT;
        if dirty <= soft {
            return Ok(());
        }
        self.start(shared);
        if dirty >= hard {
            return self.make_room(shared, delay);
        }
        let fullness = (dirty - soft) as f64 / (hard - soft) as f64;
        // After a failed round a delay would not help; a writer that finds no space gets the error.
        if shared.scheduler.is_threaded()
            && !self.retry.has_failed()
            && let Some(owed) = self.pace.charge(fullness, bytes)
        {
            delay.sleep(owed);
        }
        Ok(())
    }

    /// Stalls a writer while the dirty bytes reach the hard limit.
    pub(crate) fn stall(self: &Arc<Self>, shared: &Shared, delay: &mut WriteDelay<'_>) -> Result<()> {
        if self.cache.dirty_bytes() < self.hard_limit() { Ok(()) } else { self.make_room(shared, delay) }
    }

    /// Waits until write-out has made some space: a batch was written, or a round has ended.
    pub(crate) fn make_room(self: &Arc<Self>, shared: &Shared, delay: &mut WriteDelay<'_>) -> Result<()> {
        lock_rank::about_to_wait(Wait::Room);
        delay.begin();
        self.stalls.increment();
        let before = self.steps.load(Ordering::Acquire);
        let failures = self.failures.count();
        self.retry.succeeded();
        self.wanted.store(true, Ordering::Release);
        let stepped = || self.steps.load(Ordering::Acquire) != before || self.failures.since(failures).is_some();
        shared.scheduler.wait_until("write-out", || {
            // Starts again on each check: a round that finds another thread sweeping leaves the work to that thread,
            // whose sweep may just have ended.
            self.start(shared);
            stepped()
        })?;
        shared.health.check()?;
        self.failures.since(failures).map_or(Ok(()), Err)
    }

    /// Writes out a tree until no record below `below` is dirty.
    pub(crate) fn flush(self: &Arc<Self>, shared: &Shared, tree: &Arc<WriteOut>, below: Seq) -> Result<()> {
        let is_dirty = || tree.cache.next_dirty(&KeySpan::default(), below).is_some();
        while is_dirty() {
            // The jobs of a manual scheduler run on the waiting thread, which may hold the job lock already.
            let guard =
                if shared.scheduler.is_threaded() { Some(tree.sweeping.lock()) } else { tree.sweeping.try_lock() };
            // Another thread may have swept meanwhile.
            let swept = if is_dirty() {
                self.sweep(shared, &Arc::new(Sweep::of_all(tree, below)), Priority::Checkpoint)
            } else {
                Ok(true)
            };
            drop(guard);
            self.swept(shared);
            if !swept? {
                // Other operations hold the claims. Each is short: a check or a reorganisation.
                shared.health.check()?;
                ecotone_sys::primitive::thread::sleep(Duration::from_micros(100));
            }
        }
        tree.end_round();
        Ok(())
    }

    /// To be called by a thread that has swept over a tree and released the job lock: restarts the background round
    /// that was left to it.
    fn swept(self: &Arc<Self>, shared: &Shared) {
        if self.left.swap(false, Ordering::SeqCst) {
            self.start(shared);
        }
    }

    /// Starts a background round, unless one is running.
    pub(crate) fn start(self: &Arc<Self>, shared: &Shared) {
        if self.writing.load(Ordering::Relaxed)
            || self.left.load(Ordering::Relaxed)
            || !self.retry.is_due(&*shared.clock)
            || self.writing.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let (writeback, shared) = (self.clone(), shared.clone());
        let scheduler = shared.scheduler.clone();
        scheduler.spawn(Priority::Flush, "write out dirty pages", move || writeback.run(&shared));
    }

    fn run(self: Arc<Self>, shared: &Shared) {
        let ended = self.round(shared);
        self.writing.store(false, Ordering::Release);
        match ended {
            // The thread that sweeps counts the steps.
            Ok(RoundResult::LeftToAnother) => return,
            Ok(RoundResult::Ended) => self.retry.succeeded(),
            Err(error) => {
                self.retry.failed(&*shared.clock);
                let error = shared.health.postpone("writing out dirty pages", error);
                self.failures.add(error);
            }
        }
        self.step(shared);
        self.start_trimming(shared);
        self.start_tidying(shared);
    }

    fn step(&self, shared: &Shared) {
        self.steps.fetch_add(1, Ordering::AcqRel);
        shared.scheduler.notify();
    }

    /// Writes out until the dirty bytes fall to the low limit, each time from the keyspace that has the most dirty
    /// records.
    fn round(self: &Arc<Self>, shared: &Shared) -> Result<RoundResult> {
        while let Some(tree) = self.due() {
            // A worker thread must not wait for a flush.
            let guard = tree.sweeping.try_lock();
            if shared.scheduler.is_threaded() && (guard.is_none() || tree.sweeping.has_waiters()) {
                drop(guard);
                self.left.store(true, Ordering::SeqCst);
                // A thread that releases the job lock after this check clears `left`.
                if tree.sweeping.is_locked() || tree.sweeping.has_waiters() {
                    return Ok(RoundResult::LeftToAnother);
                }
                self.left.store(false, Ordering::SeqCst);
                continue;
            }
            let sweep = Arc::new(Sweep::of_round(&tree));
            if !self.sweep(shared, &sweep, Priority::Flush)? {
                break;
            }
        }
        self.wanted.store(false, Ordering::Release);
        Ok(RoundResult::Ended)
    }

    /// The keyspace to write out next, if any.
    fn due(&self) -> Option<Arc<WriteOut>> {
        if !self.is_above_low() && !self.wanted.load(Ordering::Acquire) {
            return None;
        }
        let trees = self.live_trees().into_iter();
        let dirty = trees.map(|tree| (tree.cache.dirty_records(), tree)).filter(|(dirty, _)| *dirty > 0);
        dirty.max_by_key(|(dirty, _)| *dirty).map(|(_, tree)| tree)
    }

    /// Writes out a sweep with the help of another worker: one reads and merges while the other writes. False if
    /// nothing could be written.
    fn sweep(self: &Arc<Self>, shared: &Shared, sweep: &Arc<Sweep>, priority: Priority) -> Result<bool> {
        let began = shared.clock.now_for_log();
        let first = self.next_batch(sweep);
        if sweep.has_more() && shared.scheduler.is_threaded() {
            let (writeback, shared, sweep) = (self.clone(), shared.clone(), sweep.clone());
            let scheduler = shared.scheduler.clone();
            scheduler.spawn(priority, "help to write out", move || {
                if let Some(_helping) = sweep.help() {
                    // The thread that asked for help meets the same failure, since the records are still dirty.
                    let _ = writeback.write(&shared, &sweep, None).map_err(|error| shared.health.poison(error));
                }
            });
        }
        let written = self.write(shared, sweep, first).inspect_err(|_| sweep.stop());
        // A helper that has begun waits for I/O only. A helper that has not begun finds nothing left.
        while sweep.is_helped() {
            ecotone_sys::primitive::thread::sleep(HELPER_WAIT);
        }
        tracing::debug!(
            keyspace = sweep.keyspace(),
            pages = sweep.taken(),
            dirty_left = self.cache.dirty_bytes(),
            took = ?shared.clock.since(began),
            "wrote out dirty pages"
        );
        written.map(|()| sweep.has_progress())
    }

    /// The next batch of a sweep that has not cleaned enough. A background round yields to a waiting flush: a flush
    /// writes by age, as log reclaim needs, and makes space as well.
    fn next_batch(&self, sweep: &Sweep) -> Option<Vec<Vec<u8>>> {
        let is_needed = || self.is_above_low() || self.wanted.load(Ordering::Acquire);
        if !sweep.is_round() || is_needed() && !sweep.is_wanted() { sweep.next_batch() } else { None }
    }

    /// Writes out batches, `first` before the others, until the sweep is over or has cleaned enough.
    fn write(&self, shared: &Shared, sweep: &Sweep, first: Option<Vec<Vec<u8>>>) -> Result<()> {
        let mut next = first.or_else(|| self.next_batch(sweep));
        while let Some(batch) = next {
            shared.health.check()?;
            self.wanted.store(false, Ordering::Release);
            sweep.write(&batch)?;
            self.step(shared);
            next = self.next_batch(sweep);
        }
        Ok(())
    }

    fn is_above_low(&self) -> bool {
        self.refresh_limit();
        self.cache.dirty_bytes() > self.hard_limit() / 16 * LOW
    }

    /// Starts an idle job that reorganises segments with overflow pages.
    pub(crate) fn start_tidying(self: &Arc<Self>, shared: &Shared) {
        let work = self.live_trees().iter().any(|tree| tree.store.overflow_pages() > 0);
        if !work || self.tidying.swap(true, Ordering::AcqRel) {
            return;
        }
        let (writeback, shared) = (self.clone(), shared.clone());
        let scheduler = shared.scheduler.clone();
        scheduler.spawn(Priority::Idle, "reorganise overflow pages", move || {
            let more = writeback.tidy(&shared);
            writeback.tidying.store(false, Ordering::Release);
            match more {
                Ok(true) => writeback.start_tidying(&shared),
                Ok(false) => {}
                Err(error) => drop(shared.health.postpone("reorganising overflow pages", error)),
            }
            shared.scheduler.notify();
        });
    }

    /// Starts an idle job that returns free space to the file system.
    pub(crate) fn start_trimming(self: &Arc<Self>, shared: &Shared) {
        let work = self.live_trees().iter().any(|tree| tree.store.space.has_spare());
        if !work || self.trimming.swap(true, Ordering::AcqRel) {
            return;
        }
        let (writeback, shared) = (self.clone(), shared.clone());
        let scheduler = shared.scheduler.clone();
        scheduler.spawn(Priority::Idle, "give free space back", move || {
            let trees = writeback.live_trees();
            let trimmed =
                shared.health.check().and_then(|()| trees.iter().try_for_each(|tree| tree.store.space.trim()));
            writeback.trimming.store(false, Ordering::Release);
            if let Err(error) = trimmed {
                drop(shared.health.postpone("giving free space back", error));
            }
            shared.scheduler.notify();
        });
    }

    fn live_trees(&self) -> Vec<Arc<WriteOut>> {
        self.trees.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// One step for each keyspace. False when there is nothing to do, or when much is dirty.
    fn tidy(&self, shared: &Shared) -> Result<bool> {
        shared.health.check()?;
        if self.cache.dirty_bytes() > self.hard_limit() / BUSY {
            return Ok(false);
        }
        let mut more = false;
        for tree in self.live_trees() {
            more |= tree.reorganiser.reorganise_when_idle()?;
        }
        Ok(more)
    }
}
