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
    Error, Result,
    metrics::{Counter, Histogram},
    scheduler::Priority,
};
use ecotone_sys::primitive::Mutex;

use super::{Tree, cache::Cache, delay::Delay};
use crate::engine::Shared;

/// Longest delay of one writer just below the hard limit.
const LONGEST_DELAY: Duration = Duration::from_micros(200);
/// Tidying rests while more than this part of the hard limit is dirty.
const BUSY: usize = 16;

/// The background of one database's trees.
#[derive(Debug)]
pub(crate) struct Writeback {
    cache: Arc<Cache>,
    trees: Mutex<Vec<Weak<Tree>>>,
    writing: AtomicBool,
    tidying: AtomicBool,
    /// Rounds of write-out that have ended.
    rounds: AtomicU64,
    /// Why the last round ended early: a full disk.
    failure: Mutex<Option<Error>>,
    /// Dirty bytes at which writers and replay wait: half of what the cache may hold, so that write-out finds clean records to evict.
    hard_limit: AtomicUsize,
    /// Writers that waited for write-out.
    pub(crate) stalls: Counter,
    /// How long writers were held up, of those who were, in nanoseconds.
    pub(crate) delays: Histogram,
}

impl Writeback {
    pub(crate) fn new(cache: Arc<Cache>) -> Arc<Self> {
        let hard_limit = cache.capacity_bytes() / 2;
        Arc::new(Writeback {
            cache,
            trees: Mutex::default(),
            writing: AtomicBool::new(false),
            tidying: AtomicBool::new(false),
            rounds: AtomicU64::new(0),
            failure: Mutex::default(),
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
        self.hard_limit.store(self.cache.capacity_bytes() / 2, Ordering::Relaxed);
    }

    /// Delays a writer a little when much is dirty, and stops it when too much is.
    pub(crate) fn slow_down(self: &Arc<Self>, shared: &Shared, held: &mut Delay<'_>) -> Result<()> {
        let (dirty, hard) = (self.cache.dirty_bytes(), self.hard_limit());
        let soft = hard / 2;
        if dirty <= soft {
            return Ok(());
        }
        self.start(shared);
        if dirty >= hard {
            return self.make_room(shared, held);
        }
        // Quadratic: hardly felt near the soft limit, so that write-out catches up before anybody has to stop.
        let full = (dirty - soft) as f64 / (hard - soft) as f64;
        let delay = LONGEST_DELAY.mul_f64(full * full);
        if shared.scheduler.is_threaded() && delay > Duration::from_micros(50) {
            held.begin();
            ecotone_sys::primitive::thread::sleep(delay);
        }
        Ok(())
    }

    /// Stops whoever makes records dirty while too much is.
    pub(crate) fn hold_back(self: &Arc<Self>, shared: &Shared, delay: &mut Delay<'_>) -> Result<()> {
        if self.cache.dirty_bytes() < self.hard_limit() { Ok(()) } else { self.make_room(shared, delay) }
    }

    /// Waits until write-out has made room for a writer.
    pub(crate) fn make_room(self: &Arc<Self>, shared: &Shared, held: &mut Delay<'_>) -> Result<()> {
        held.begin();
        self.stalls.increment();
        let (before, goal) = (self.rounds.load(Ordering::Acquire), self.hard_limit());
        self.failure.lock().take();
        self.start(shared);
        let round_over = || self.rounds.load(Ordering::Acquire) != before;
        let ready = || round_over() || self.failure.lock().is_some() || shared.health.cause().is_some();
        shared.scheduler.wait_until("write-out", || ready() || self.cache.dirty_bytes() < goal / 8 * 7);
        shared.health.check()?;
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    /// Has the background write out, unless it does.
    fn start(self: &Arc<Self>, shared: &Shared) {
        if self.writing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (writeback, shared) = (self.clone(), shared.clone());
        let scheduler = shared.scheduler.clone();
        scheduler.spawn(Priority::Flush, "write out dirty pages", move || writeback.run(&shared));
    }

    fn run(self: Arc<Self>, shared: &Shared) {
        let ended = self.round(shared);
        self.writing.store(false, Ordering::Release);
        if let Err(error) = ended {
            let error = shared.health.poison(error);
            *self.failure.lock() = Some(error);
        }
        self.rounds.fetch_add(1, Ordering::AcqRel);
        shared.scheduler.notify();
        self.start_tidying(shared);
    }

    /// Writes out until a quarter of the hard limit is dirty, sweeping over the keyspace that has the most dirty pages.
    fn round(&self, shared: &Shared) -> Result<()> {
        while self.is_above_low() {
            let Some(tree) = self.dirtiest() else { return Ok(()) };
            let pages = tree.sweep();
            if !self.sweep(shared, &tree, &pages)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn dirtiest(&self) -> Option<Arc<Tree>> {
        let trees: Vec<Arc<Tree>> = self.trees.lock().iter().filter_map(Weak::upgrade).collect();
        trees.into_iter().max_by_key(|tree| self.cache.dirty_records(tree.number))
    }

    /// Writes out these pages until enough is clean; false if nothing could be written.
    fn sweep(&self, shared: &Shared, tree: &Tree, pages: &[u32]) -> Result<bool> {
        let mut progress = false;
        for batch in pages.chunks(tree.batch_pages()) {
            if !self.is_above_low() {
                return Ok(true);
            }
            shared.health.check()?;
            progress |= tree.write_pages(batch)?;
            tree.counters.elevator.store(batch.last().copied().unwrap_or(0), Ordering::Relaxed);
            shared.scheduler.notify();
        }
        Ok(progress)
    }

    fn is_above_low(&self) -> bool {
        self.refresh_limit();
        self.cache.dirty_bytes() > self.hard_limit() / 4
    }

    /// Has segments with overflow pages reorganised while nothing else is to be done.
    pub(crate) fn start_tidying(self: &Arc<Self>, shared: &Shared) {
        let overflowing = |tree: Arc<Tree>| tree.store.overflow_pages() > 0;
        let work = self.trees.lock().iter().filter_map(Weak::upgrade).any(overflowing);
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
                Err(error) => drop(shared.health.poison(error)),
            }
            shared.scheduler.notify();
        });
    }

    /// One step for each keyspace; false when there is nothing to do, or something better.
    fn tidy(&self, shared: &Shared) -> Result<bool> {
        shared.health.check()?;
        if self.cache.dirty_bytes() > self.hard_limit() / BUSY {
            return Ok(false);
        }
        let trees: Vec<Arc<Tree>> = self.trees.lock().iter().filter_map(Weak::upgrade).collect();
        let mut more = false;
        for tree in trees {
            more |= tree.tidy()?;
        }
        Ok(more)
    }
}
