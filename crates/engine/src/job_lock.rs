//! A job lock: its holder does the work for all threads that wait for the lock, and may hold it across I/O
//! (compaction-pace.md, invariants 1, 2 and 14; `docs/design/waiting.md`).

use ecotone_substrate::lock_rank::{self, HeldRank, LockRank};
use ecotone_sys::primitive::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// A mutex that tells whether a thread waits for it.
#[derive(Debug)]
pub struct JobLock {
    mutex: Mutex<()>,
    kind: LockRank,
    /// Whether a thread holds the lock.
    taken: AtomicBool,
    /// Threads that wait, or are about to. A hint: no ordering between threads depends on it.
    waiting: AtomicUsize,
}

/// Holds the job lock until it is dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct JobLockGuard<'a> {
    lock: &'a JobLock,
    _guard: MutexGuard<'a, ()>,
    _held: HeldRank,
}

impl Drop for JobLockGuard<'_> {
    fn drop(&mut self) {
        self.lock.taken.store(false, Ordering::SeqCst);
    }
}

impl JobLock {
    /// Creates an unlocked lock of this rank.
    pub fn of(kind: LockRank) -> JobLock {
        JobLock { mutex: Mutex::default(), kind, taken: AtomicBool::new(false), waiting: AtomicUsize::new(0) }
    }

    /// Waits for the lock.
    pub fn lock(&self) -> JobLockGuard<'_> {
        let held = lock_rank::hold(self.kind);
        // Before the attempt, so that a holder that sleeps sees the waiter at its next check.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.mutex.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.take(guard, held)
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<JobLockGuard<'_>> {
        self.mutex.try_lock().map(|guard| self.take(guard, lock_rank::hold(self.kind)))
    }

    fn take<'a>(&'a self, guard: MutexGuard<'a, ()>, held: HeldRank) -> JobLockGuard<'a> {
        self.taken.store(true, Ordering::SeqCst);
        JobLockGuard { lock: self, _guard: guard, _held: held }
    }

    /// Whether a thread holds the lock, or is just about to release it.
    pub fn is_locked(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }

    /// Whether a thread waits for the lock.
    pub fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}
