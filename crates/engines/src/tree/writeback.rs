//! Write-out in the background, for all tree keyspaces of a database, and the pressure that it puts on writers.

use ecotone_sys::primitive::atomic::{AtomicBool, AtomicU64};
use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ecotone_substrate::{
    Result, Seq,
    failures::Failures,
    held::{self, Wait},
    metrics::{Counter, Histogram},
    pace::Pace,
    retry::Retry,
    scheduler::Priority,
};
use ecotone_sys::primitive::Mutex;

use super::{Tree, cache::Cache, sweep::Sweep};
use crate::{delay::Delay, engine::Shared};

/// Between two looks at whether a helper has finished its batch.
const HELPER_WAIT: Duration = Duration::from_micros(200);
/// Parts of the hard limit, in sixteenths: above *soft* writers are slowed down and the background writes out, down to
/// *low*. Both are high, since what stays dirty for longer is written together with more records of its page.
const SOFT: usize = 12;
const LOW: usize = 11;
/// Tidying rests while more than this part of the hard limit is dirty.
const BUSY: usize = 16;

/// What a round came to.
enum Round {
    Ended,
    /// Another sweeps over the keyspace that was due.
    LeftToAnother,
}

/// The background of one database's trees.
#[derive(Debug)]
pub(crate) struct Writeback {
    cache: Arc<Cache>,
    trees: Mutex<Vec<Weak<Tree>>>,
    writing: AtomicBool,
    tidying: AtomicBool,
    trimming: AtomicBool,
    /// Batches that were written out and rounds that have ended: whoever waits for room looks again.
    steps: AtomicU64,
    /// Whether a round has left the work to another who sweeps: then none is begun until that one has ended.
    left: AtomicBool,
    /// Whether somebody found no room: then a batch is written out, however little is dirty.
    wanted: AtomicBool,
    /// What writers owe while much is dirty.
    pace: Pace,
    /// Of rounds that ended early: a full disk, or want of memory.
    failures: Failures,
    retry: Retry,
    /// Dirty bytes at which writers and replay wait.
    hard_limit: AtomicUsize,
    /// Writers that waited for write-out.
    pub(crate) stalls: Counter,
    /// How long writers were held up, of those who were, in nanoseconds.
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
            pace: Pace::default(),
            failures: Failures::default(),
            retry: Retry::default(),
            hard_limit: AtomicUsize::new(hard_limit),
            stalls: Counter::default(),
            delays: Histogram::default(),
        })
    }

    pub(crate) fn join(&self, tree: &Arc<Tree>) {
        let mut trees = self.trees.lock();
        trees.retain(|tree| tree.strong_count() > 0);
        trees.push(Arc::downgrade(tree));
    }

    fn hard_limit(&self) -> usize {
        self.hard_limit.load(Ordering::Relaxed)
    }

    /// The cache's share changes slowly, and asking for it costs more than a write should.
    pub(crate) fn refresh_limit(&self) {
        self.hard_limit.store(self.cache.dirty_limit(), Ordering::Relaxed);
    }

    /// Delays a writer a little when much is dirty, and stops it when too much is.
    pub(crate) fn slow_down(self: &Arc<Self>, shared: &Shared, bytes: usize, delay: &mut Delay<'_>) -> Result<()> {
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
        // Nobody waits for what cannot be done: who finds no room is told why.
        if shared.scheduler.is_threaded()
            && !self.retry.has_failed()
            && let Some(owed) = self.pace.charge(fullness, bytes)
        {
            delay.sleep(owed);
        }
        Ok(())
    }

    /// Stops whoever makes records dirty while too much is.
    pub(crate) fn hold_back(self: &Arc<Self>, shared: &Shared, delay: &mut Delay<'_>) -> Result<()> {
        if self.cache.dirty_bytes() < self.hard_limit() { Ok(()) } else { self.make_room(shared, delay) }
    }

    /// Waits until write-out has made some room: a batch is written, or it ended.
    pub(crate) fn make_room(self: &Arc<Self>, shared: &Shared, delay: &mut Delay<'_>) -> Result<()> {
        held::about_to_wait(Wait::Room);
        delay.begin();
        self.stalls.increment();
        let before = self.steps.load(Ordering::Acquire);
        let failures = self.failures.count();
        self.retry.succeeded();
        self.wanted.store(true, Ordering::Release);
        let stepped = || self.steps.load(Ordering::Acquire) != before || self.failures.since(failures).is_some();
        shared.scheduler.wait_until("write-out", || {
            // Again and again: a round that finds another sweeping leaves the work to that one, and that one may have
            // just ended.
            self.start(shared);
            stepped()
        })?;
        shared.health.check()?;
        self.failures.since(failures).map_or(Ok(()), Err)
    }

    /// Who has swept over a tree has given the turn back.
    pub(crate) fn swept(self: &Arc<Self>, shared: &Shared) {
        if self.left.swap(false, Ordering::SeqCst) {
            self.start(shared);
        }
    }

    /// Has the background write out, unless it does.
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
            // Who sweeps makes the steps.
            Ok(Round::LeftToAnother) => return,
            Ok(Round::Ended) => self.retry.succeeded(),
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

    /// Writes out until little enough is dirty, sweeping over the keyspace that has the most dirty records.
    fn round(self: &Arc<Self>, shared: &Shared) -> Result<Round> {
        while let Some(tree) = self.due() {
            // A worker does not wait for a flush.
            let turn = tree.sweeping.try_lock();
            if tree.is_threaded() && (turn.is_none() || tree.sweeping.is_wanted()) {
                drop(turn);
                self.left.store(true, Ordering::SeqCst);
                // Who gives the turn back behind this look clears the mark.
                if tree.sweeping.is_taken() || tree.sweeping.is_wanted() {
                    return Ok(Round::LeftToAnother);
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
        Ok(Round::Ended)
    }

    /// The keyspace that is to be written out next, if any.
    fn due(&self) -> Option<Arc<Tree>> {
        if !self.is_above_low() && !self.wanted.load(Ordering::Acquire) {
            return None;
        }
        let trees = self.living().into_iter();
        let dirty = trees.map(|tree| (self.cache.dirty_records(tree.space()), tree)).filter(|(dirty, _)| *dirty > 0);
        dirty.max_by_key(|(dirty, _)| *dirty).map(|(_, tree)| tree)
    }

    /// Writes out what of a tree is dirty since a sequence below this one; false if nothing could be written.
    pub(crate) fn write_all(self: &Arc<Self>, shared: &Shared, tree: &Tree, below: Seq) -> Result<bool> {
        let trees: Vec<Arc<Tree>> = self.trees.lock().iter().filter_map(Weak::upgrade).collect();
        let tree = trees.into_iter().find(|joined| joined.number == tree.number).expect("a tree joins when it is made");
        self.sweep(shared, &Arc::new(Sweep::of_all(&tree, below)), Priority::Checkpoint)
    }

    /// Writes out what a sweep goes over, with the help of another worker: one reads and merges while the other writes.
    /// False if nothing could be written.
    fn sweep(self: &Arc<Self>, shared: &Shared, sweep: &Arc<Sweep>, priority: Priority) -> Result<bool> {
        let began = shared.clock.now_for_log();
        let first = self.next_batch(sweep);
        if sweep.has_more() && shared.scheduler.is_threaded() {
            let (writeback, shared, sweep) = (self.clone(), shared.clone(), sweep.clone());
            let scheduler = shared.scheduler.clone();
            scheduler.spawn(priority, "help to write out", move || {
                if let Some(_helping) = sweep.help() {
                    // Whoever asked for help meets the same failure, since the pages are still dirty.
                    let _ = writeback.write(&shared, &sweep, None).map_err(|error| shared.health.poison(error));
                }
            });
        }
        let written = self.write(shared, sweep, first).inspect_err(|_| sweep.stop());
        // A helper that has begun waits for I/O alone; one that has not finds nothing left.
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

    /// The next batch of a sweep that has not cleaned enough. Where a flush waits, that goes by age, which the log
    /// needs, and makes room as well.
    fn next_batch(&self, sweep: &Sweep) -> Option<Vec<Vec<u8>>> {
        let is_needed = || self.is_above_low() || self.wanted.load(Ordering::Acquire);
        if !sweep.is_round() || is_needed() && !sweep.is_wanted() { sweep.next_batch() } else { None }
    }

    /// Writes out the first batch of a sweep and others until it is over, or has cleaned enough.
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

    /// Has segments with overflow pages reorganised while nothing else is to be done.
    pub(crate) fn start_tidying(self: &Arc<Self>, shared: &Shared) {
        let work = self.living().iter().any(|tree| tree.store.overflow_pages() > 0);
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

    /// Has free space given back to the file system while nothing else is to be done.
    pub(crate) fn start_trimming(self: &Arc<Self>, shared: &Shared) {
        let work = self.living().iter().any(|tree| tree.store.space.has_spare());
        if !work || self.trimming.swap(true, Ordering::AcqRel) {
            return;
        }
        let (writeback, shared) = (self.clone(), shared.clone());
        let scheduler = shared.scheduler.clone();
        scheduler.spawn(Priority::Idle, "give free space back", move || {
            let trees = writeback.living();
            let trimmed =
                shared.health.check().and_then(|()| trees.iter().try_for_each(|tree| tree.store.space.trim()));
            writeback.trimming.store(false, Ordering::Release);
            if let Err(error) = trimmed {
                drop(shared.health.postpone("giving free space back", error));
            }
            shared.scheduler.notify();
        });
    }

    fn living(&self) -> Vec<Arc<Tree>> {
        self.trees.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// One step for each keyspace; false when there is nothing to do, or something better.
    fn tidy(&self, shared: &Shared) -> Result<bool> {
        shared.health.check()?;
        if self.cache.dirty_bytes() > self.hard_limit() / BUSY {
            return Ok(false);
        }
        let mut more = false;
        for tree in self.living() {
            more |= tree.tidy()?;
        }
        Ok(more)
    }
}
