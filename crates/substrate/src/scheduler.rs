//! One pool of workers for everything in the background.
//!
//! A *threaded* scheduler runs jobs on its own threads. A *manual* one runs them on the thread that waits for their effect, one after
//! the other, so that a simulated history is a function of its seed.

use std::{
    collections::BinaryHeap,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use ecotone_sys::primitive::{Condvar, Mutex, thread::JoinHandle};

use crate::{Error, Result, health::Health};

/// What is more urgent runs first; equals in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Tidying up that nobody waits for.
    Idle,
    /// Compaction: it makes space, which writers wait for late or never.
    Compact,
    /// Checkpoints and log truncation.
    Checkpoint,
    /// Write-out: writers wait for its memory.
    Flush,
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

#[derive(Default)]
struct State {
    jobs: BinaryHeap<Job>,
    spawned: u64,
    running: usize,
    stopping: bool,
}

/// The pool. Dropping it finishes the jobs that run and forgets those that wait.
pub struct Scheduler {
    state: Mutex<State>,
    work: Condvar,
    progress: Condvar,
    manual: bool,
    health: Arc<Health>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("manual", &self.manual).field("debt", &self.debt()).finish()
    }
}

/// Longest sleep of a waiter between two looks at its condition, should a notification be missed.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

impl Scheduler {
    /// A pool of `workers` threads. A job that panics poisons `health`.
    pub fn threaded(workers: usize, health: Arc<Health>) -> Arc<Self> {
        let scheduler = Arc::new(Self::new(false, health));
        let mut threads = scheduler.threads.lock();
        for worker in 0..workers.max(1) {
            let weak = Arc::downgrade(&scheduler);
            let thread = ecotone_sys::primitive::thread::Builder::new().name(format!("ecotone-{worker}"));
            threads.extend(thread.spawn(move || Self::work(&weak)));
        }
        drop(threads);
        scheduler
    }

    /// A pool without threads: [`wait_until`](Self::wait_until) and [`run_one`](Self::run_one) run the jobs.
    pub fn manual(health: Arc<Health>) -> Arc<Self> {
        Arc::new(Self::new(true, health))
    }

    fn new(manual: bool, health: Arc<Health>) -> Self {
        Scheduler {
            state: Mutex::default(),
            work: Condvar::new(),
            progress: Condvar::new(),
            manual,
            health,
            threads: Mutex::default(),
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
        self.work.notify_one();
    }

    /// Waits until `ready`, which is looked at again whenever [`notify`](Self::notify) is called or a job ends. A manual scheduler runs jobs
    /// meanwhile.
    ///
    /// # Errors
    /// If writing has stopped, or the pool has: the job that would make it ready may never come then.
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

    /// Tells waiters that something may have become ready.
    pub fn notify(&self) {
        self.progress.notify_all();
    }

    /// Runs the most urgent job on this thread; false if there is none.
    pub fn run_one(&self) -> bool {
        let job = self.state.lock().jobs.pop();
        job.map(|job| self.run(job)).is_some()
    }

    /// Jobs that wait or run.
    pub fn debt(&self) -> usize {
        let state = self.state.lock();
        state.jobs.len() + state.running
    }

    /// Finishes the jobs that run, forgets those that wait, ends the threads, and the waits for what is forgotten.
    pub fn stop(&self) {
        let forgotten = {
            let mut state = self.state.lock();
            state.stopping = true;
            std::mem::take(&mut state.jobs)
        };
        drop(forgotten);
        self.work.notify_all();
        self.progress.notify_all();
        let me = ecotone_sys::primitive::thread::current().id();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.thread().id() != me {
                // A panic inside a job was caught and poisoned the database already.
                let _ = thread.join();
            }
        }
    }

    fn run(&self, job: Job) {
        self.state.lock().running += 1;
        let name = job.name;
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job.run)).is_err() {
            self.health.poison(Error::Invalid(format!("the background job {name:?} panicked")));
        }
        self.state.lock().running -= 1;
        self.progress.notify_all();
    }

    fn work(weak: &Weak<Self>) {
        while let Some(scheduler) = weak.upgrade() {
            let mut state = scheduler.state.lock();
            if state.stopping {
                return;
            }
            let Some(job) = state.jobs.pop() else {
                // Short, so that a scheduler that nobody holds any more is noticed.
                scheduler.work.wait_for(&mut state, Duration::from_millis(100));
                continue;
            };
            drop(state);
            scheduler.run(job);
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn manual_runs_the_urgent_first_and_on_the_waiting_thread() {
        let scheduler = Scheduler::manual(Arc::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        for (priority, mark) in
            [(Priority::Idle, 1), (Priority::Compact, 2), (Priority::Flush, 3), (Priority::Checkpoint, 4), (Priority::Flush, 5)]
        {
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
    #[should_panic(expected = "deadlock")]
    fn manual_finds_a_deadlock() {
        let _ = Scheduler::manual(Arc::default()).wait_until("nothing", || false);
    }

    #[test]
    fn waits_end_when_the_pool_stops() {
        for scheduler in [Scheduler::manual(Arc::default()), Scheduler::threaded(1, Arc::default())] {
            scheduler.stop();
            scheduler.spawn(Priority::Flush, "never", || unreachable!("the pool has stopped"));
            let waited = scheduler.wait_until("a forgotten job", || false);
            assert!(matches!(waited, Err(Error::Closed { .. })), "{waited:?}");
            scheduler.wait_until("what is there", || true).unwrap();
        }
    }
}
