//! One pool of worker threads for all background work.
//!
//! A *threaded* scheduler runs jobs on its own threads. A *manual* one runs jobs on the thread that waits for their
//! effect, one after the other, so that a simulated history is a function of its seed.
//!
//! If there are more than two threads, two are kept for jobs more urgent than compaction, since writers wait for
//! flushes (compaction-pace.md, invariant 13).
//!
//! A thread without work sleeps until there is some. *Ticks* come once a second. They end after a minute in which
//! nothing was spawned and no tick had anything to do, so that an unused database costs nothing. The next use [wakes
//! them](Pool::wake).

use std::{
    collections::BinaryHeap,
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ecotone_sys::primitive::{
    resting::{Condvar, Mutex},
    thread::JoinHandle,
    unless_checked,
};

use crate::{Error, Result, health::Health, lock_rank};

/// More urgent jobs run first; equal ones in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Cleanup that no thread waits for.
    Idle,
    /// Compaction: it frees space, for which writers wait late or never.
    Compact,
    /// Checkpoints and log truncation.
    Checkpoint,
    /// Write-out: writers wait for its memory.
    Flush,
}

impl Priority {
    /// Whether writers wait for the job late or never, so that such jobs may not take all workers.
    fn is_patient(self) -> bool {
        self <= Priority::Compact
    }
}

struct Job {
    priority: Priority,
    number: u64,
    name: &'static str,
    run: Box<dyn FnOnce() + Send>,
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Job {}
impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Job {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.priority.cmp(&other.priority).then(other.number.cmp(&self.number))
    }
}

/// The result of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// The object is in use.
    InUse,
    /// The object is not used, and there is nothing to do for it while that is so.
    Idle,
    /// The object is gone: the tick is not called again.
    Over,
}

/// A callback that is called periodically.
type Ticker = Arc<dyn Fn() -> Tick + Send + Sync>;

#[derive(Default)]
struct State {
    jobs: BinaryHeap<Job>,
    spawned: u64,
    running: usize,
    /// Running jobs that are patient.
    patient: usize,
    stopping: bool,
    tickers: Vec<Ticker>,
}

/// The pool and its threads. Dropping it finishes running jobs and drops waiting ones.
pub struct Scheduler {
    pool: Arc<Pool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// State shared by the threads.
pub struct Pool {
    state: Mutex<State>,
    work: Condvar,
    progress: Condvar,
    /// Notified for the thread that calls ticks.
    tick: Condvar,
    /// Whether ticks have ended until the next wake.
    asleep: AtomicBool,
    manual: bool,
    /// The most patient jobs that run at a time.
    most_patient: usize,
    health: Arc<Health>,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("manual", &self.manual).field("debt", &self.debt()).finish()
    }
}

/// Longest sleep of a waiter between two checks of its condition, in case a notification is missed.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Workers that are kept for urgent jobs.
const URGENT_WORKERS: usize = 2;

/// Time between two calls of the ticks.
const BETWEEN_TICKS: Duration = Duration::from_secs(1);
/// Ticks end after this many calls in a row without anything to do.
const QUIET: u32 = 60;

impl Deref for Scheduler {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.pool
    }
}

impl Scheduler {
    /// A pool of `workers` threads. A job that panics poisons `health`.
    pub fn threaded(workers: usize, health: Arc<Health>) -> Arc<Self> {
        let pool = Arc::new(Pool::new(Some(workers), health));
        let mut threads = Vec::new();
        for worker in 0..workers.max(1) {
            let pool = pool.clone();
            let thread = ecotone_sys::primitive::thread::Builder::new().name(format!("ecotone-{worker}"));
            threads.extend(thread.spawn(move || pool.work()));
        }
        if unless_checked(true, false) {
            let pool = pool.clone();
            let thread = ecotone_sys::primitive::thread::Builder::new().name("ecotone-tick".to_owned());
            threads.extend(thread.spawn(move || pool.call_ticks()));
        }
        Arc::new(Scheduler { pool, threads: Mutex::new(threads) })
    }

    /// A pool without threads: [`wait_until`](Pool::wait_until) and [`run_one`](Pool::run_one) run the jobs.
    pub fn manual(health: Arc<Health>) -> Arc<Self> {
        Arc::new(Scheduler { pool: Arc::new(Pool::new(None, health)), threads: Mutex::default() })
    }

    /// Finishes running jobs, drops waiting ones, ends the threads, and ends the waits for dropped jobs.
    pub fn stop(&self) {
        let forgotten = {
            let mut state = self.state.lock();
            state.stopping = true;
            (std::mem::take(&mut state.jobs), std::mem::take(&mut state.tickers))
        };
        drop(forgotten);
        self.work.notify_all();
        self.progress.notify_all();
        self.tick.notify_all();
        let me = ecotone_sys::primitive::thread::current().id();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.thread().id() != me {
                // A panic inside a job was caught and poisoned the database already.
                let _ = thread.join();
            }
        }
    }
}

impl Pool {
    fn new(workers: Option<usize>, health: Arc<Health>) -> Self {
        Pool {
            state: Mutex::default(),
            work: Condvar::new(),
            progress: Condvar::new(),
            tick: Condvar::new(),
            asleep: AtomicBool::new(false),
            manual: workers.is_none(),
            most_patient: workers.map_or(usize::MAX, |workers| workers.saturating_sub(URGENT_WORKERS).max(1)),
            health,
        }
    }

    /// Whether jobs run on threads of their own.
    pub fn is_threaded(&self) -> bool {
        !self.manual
    }

    /// Adds a job. Jobs may wait for I/O, not for other jobs.
    pub fn spawn(&self, priority: Priority, name: &'static str, run: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        if state.stopping {
            return;
        }
        let number = state.spawned;
        state.spawned += 1;
        state.jobs.push(Job { priority, number, name, run: Box::new(run) });
        drop(state);
        self.work.notify_one();
        self.wake();
    }

    /// Registers a callback that a thread of its own calls about once a second, until it returns `Over` or the database
    /// is not used for long. It must be short, and spawns longer work. Under tests that choose the order of threads,
    /// and without threads, only [`tick`](Self::tick) calls it.
    pub fn add_tick(&self, tick: impl Fn() -> Tick + Send + Sync + 'static) {
        self.state.lock().tickers.push(Arc::new(tick));
        self.wake();
        self.tick.notify_all();
    }

    /// Calls all ticks. Returns whether none has anything to do.
    pub fn tick(&self) -> bool {
        let tickers = self.state.lock().tickers.clone();
        let mut is_idle = true;
        for ticker in tickers {
            let mut said = Tick::Over;
            self.guard("tick", || said = ticker());
            is_idle &= said != Tick::InUse;
            if said == Tick::Over {
                self.state.lock().tickers.retain(|other| !Arc::ptr_eq(other, &ticker));
            }
        }
        is_idle
    }

    /// Resumes ticks if they have ended, since the database is in use.
    #[inline]
    pub fn wake(&self) {
        if self.asleep.load(Ordering::Relaxed) {
            self.wake_ticks();
        }
    }

    #[cold]
    fn wake_ticks(&self) {
        // Under the lock, so that the notification does not fall between the ticker's check and its sleep.
        let _state = self.state.lock();
        self.asleep.store(false, Ordering::Relaxed);
        self.tick.notify_all();
    }

    /// Waits until `ready` is true. It is checked again whenever [`notify`](Self::notify) is called or a job ends. A
    /// manual scheduler runs jobs meanwhile.
    ///
    /// # Errors
    /// If writing or the pool has stopped: the job that would make it ready may never run then.
    ///
    /// # Panics
    /// A manual scheduler that has no job left and is not ready: that is a deadlock, and a bug.
    pub fn wait_until(&self, what: &'static str, mut ready: impl FnMut() -> bool) -> Result<()> {
        while !ready() {
            self.health.check()?;
            let mut state = self.state.lock();
            if state.stopping {
                return Err(Error::Closed { what: "the database" });
            }
            if self.manual {
                drop(state);
                assert!(self.run_one() || ready(), "deadlock: nothing runs that could end the wait for {what}");
            } else {
                self.progress.wait_for(&mut state, LOOK_AGAIN);
            }
        }
        Ok(())
    }

    /// Wakes waiters, since something may have become ready.
    pub fn notify(&self) {
        self.progress.notify_all();
    }

    /// Runs the most urgent job on this thread. False if there is none.
    pub fn run_one(&self) -> bool {
        let job = self.take(&mut self.state.lock());
        job.map(|job| self.run(job)).is_some()
    }

    /// Whether the pool starts no more jobs.
    pub fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }

    /// Number of jobs that wait or run.
    pub fn debt(&self) -> usize {
        let state = self.state.lock();
        state.jobs.len() + state.running
    }

    /// Takes the most urgent job and counts it as running. `None` if that job is patient and enough patient ones run:
    /// then no waiting job is more urgent.
    fn take(&self, state: &mut State) -> Option<Job> {
        let patient = state.jobs.peek()?.priority.is_patient();
        if patient && state.patient >= self.most_patient {
            return None;
        }
        state.running += 1;
        state.patient += usize::from(patient);
        state.jobs.pop()
    }

    fn run(&self, job: Job) {
        let patient = job.priority.is_patient();
        self.guard(job.name, job.run);
        let mut state = self.state.lock();
        state.running -= 1;
        state.patient -= usize::from(patient);
        let waits = !state.jobs.is_empty();
        drop(state);
        if waits {
            // Wakes a worker for a job that waited for the number of patient ones to fall.
            self.work.notify_one();
        }
        self.progress.notify_all();
    }

    /// Runs a job. A panic poisons.
    fn guard(&self, name: &'static str, run: impl FnOnce()) {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock_rank::aside(run))).is_err() {
            self.health.poison(Error::Invalid(format!("the background job {name:?} panicked")));
        }
    }

    fn work(&self) {
        loop {
            let mut state = self.state.lock();
            let job = loop {
                if state.stopping {
                    return;
                }
                match self.take(&mut state) {
                    Some(job) => break job,
                    None => self.work.wait(&mut state),
                }
            };
            drop(state);
            self.run(job);
        }
    }

    fn call_ticks(&self) {
        // The number of calls in a row that found nothing to do, and of jobs spawned before the last one.
        let (mut quiet, mut spawned) = (0, 0);
        loop {
            {
                let mut state = self.state.lock();
                if state.stopping {
                    return;
                }
                if state.tickers.is_empty() {
                    // Without tickers a wake has nothing to call.
                    self.tick.wait(&mut state);
                    quiet = 0;
                    continue;
                }
                if quiet >= QUIET {
                    self.asleep.store(true, Ordering::Relaxed);
                    self.tick.wait(&mut state);
                    self.asleep.store(false, Ordering::Relaxed);
                    quiet = 0;
                    continue;
                }
                if !self.tick.wait_for(&mut state, BETWEEN_TICKS).timed_out() {
                    continue;
                }
                if state.spawned != spawned {
                    quiet = 0;
                }
                spawned = state.spawned;
            }
            quiet = if self.tick() { quiet + 1 } else { 0 };
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Instant,
    };

    use ecotone_testkit::thread_watch::ThreadWatch;

    use super::*;

    #[test]
    fn manual_runs_the_urgent_first_and_on_the_waiting_thread() {
        let scheduler = Scheduler::manual(Arc::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        for (priority, mark) in [
            (Priority::Idle, 1),
            (Priority::Compact, 2),
            (Priority::Flush, 3),
            (Priority::Checkpoint, 4),
            (Priority::Flush, 5),
        ] {
            let order = order.clone();
            scheduler.spawn(priority, "mark", move || order.lock().push(mark));
        }
        scheduler.wait_until("five marks", || order.lock().len() == 5).unwrap();
        assert_eq!(*order.lock(), [3, 5, 4, 2, 1]);
    }

    #[test]
    fn threads_run_jobs_and_a_panic_poisons() {
        let health = Arc::new(Health::default());
        let scheduler = Scheduler::threaded(2, health.clone());
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let count = count.clone();
            scheduler.spawn(Priority::Idle, "count", move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
        }
        scheduler.wait_until("a hundred", || count.load(Ordering::SeqCst) == 100).unwrap();
        scheduler.spawn(Priority::Flush, "panic", || panic!("on purpose"));
        let waited = scheduler.wait_until("what the panic took along", || false);
        assert!(matches!(waited, Err(Error::Poisoned { .. })), "{waited:?}");
        assert!(health.check().unwrap_err().to_string().contains("panicked"));
    }

    #[test]
    fn a_flush_runs_while_compactions_stand_and_these_go_on_afterwards() {
        let scheduler = Scheduler::threaded(4, Arc::default());
        let (gate, standing, ended) =
            (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let held = gate.lock();
        for priority in [Priority::Compact, Priority::Idle, Priority::Compact, Priority::Idle, Priority::Compact] {
            let (gate, standing, ended) = (gate.clone(), standing.clone(), ended.clone());
            scheduler.spawn(priority, "stand", move || {
                standing.fetch_add(1, Ordering::SeqCst);
                drop(gate.lock());
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        scheduler.wait_until("all that may run", || standing.load(Ordering::SeqCst) >= 2).unwrap();
        let (flushed, deadline) = (Arc::new(AtomicUsize::new(0)), Instant::now() + Duration::from_secs(10));
        for _ in 0..100 {
            let flushed = flushed.clone();
            scheduler.spawn(Priority::Flush, "flush", move || _ = flushed.fetch_add(1, Ordering::SeqCst));
        }
        scheduler.wait_until("flushes", || flushed.load(Ordering::SeqCst) == 100 || Instant::now() > deadline).unwrap();
        assert_eq!((flushed.load(Ordering::SeqCst), standing.load(Ordering::SeqCst)), (100, 2));
        drop(held);
        scheduler.wait_until("what stood", || ended.load(Ordering::SeqCst) == 5).unwrap();
    }

    #[test]
    fn a_pool_of_few_threads_compacts_with_one() {
        for workers in 1..=3 {
            let (scheduler, ended) = (Scheduler::threaded(workers, Arc::default()), Arc::new(AtomicUsize::new(0)));
            for _ in 0..20 {
                let ended = ended.clone();
                scheduler.spawn(Priority::Compact, "compact", move || _ = ended.fetch_add(1, Ordering::SeqCst));
            }
            scheduler.wait_until("all", || ended.load(Ordering::SeqCst) == 20).unwrap();
        }
    }

    #[test]
    fn uses_wake_nobody_where_there_is_nothing_to_call() {
        let (scheduler, watch) = (Scheduler::manual(Arc::default()), ThreadWatch::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                watch.begin();
                scheduler.call_ticks();
            });
            watch.wait_asleep();
            let is_to_be_woken = scheduler.asleep.load(Ordering::Relaxed);
            scheduler.stop();
            assert!(!is_to_be_woken, "the next use wakes the thread");
        });
    }

    #[test]
    fn ticks_come_about_once_a_second_until_they_say_no() {
        let scheduler = Scheduler::threaded(2, Arc::default());
        let (called, others) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counts, counts_others) = (called.clone(), others.clone());
        scheduler.add_tick(move || if counts.fetch_add(1, Ordering::SeqCst) == 0 { Tick::InUse } else { Tick::Over });
        scheduler.add_tick(move || {
            counts_others.fetch_add(1, Ordering::SeqCst);
            Tick::InUse
        });
        let began = Instant::now();
        scheduler.wait_until("three ticks", || others.load(Ordering::SeqCst) >= 3).unwrap();
        assert_eq!(called.load(Ordering::SeqCst), 2);
        assert!(began.elapsed() >= 2 * BETWEEN_TICKS, "{:?}", began.elapsed());
    }

    #[test]
    fn a_tick_that_panics_poisons_and_is_not_called_again() {
        let health = Arc::new(Health::default());
        let scheduler = Scheduler::manual(health.clone());
        scheduler.add_tick(|| panic!("on purpose"));
        scheduler.tick();
        assert!(health.check().unwrap_err().to_string().contains("panicked"));
        scheduler.tick();
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn manual_finds_a_deadlock() {
        let _ = Scheduler::manual(Arc::default()).wait_until("nothing", || false);
    }

    #[test]
    fn waits_end_when_the_pool_stops() {
        for scheduler in [Scheduler::manual(Arc::default()), Scheduler::threaded(1, Arc::default())] {
            assert!(!scheduler.is_stopping());
            scheduler.stop();
            assert!(scheduler.is_stopping());
            scheduler.spawn(Priority::Flush, "never", || unreachable!("the pool has stopped"));
            let waited = scheduler.wait_until("a forgotten job", || false);
            assert!(matches!(waited, Err(Error::Closed { .. })), "{waited:?}");
            scheduler.wait_until("what is there", || true).unwrap();
        }
    }
}
