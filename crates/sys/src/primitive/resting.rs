//! Locks for threads that rest while there is nothing to do. Only the kernel knows the waiting threads.
//!
//! parking_lot keeps waiting threads in a table of the process. A fork copies the table and none of the threads, and
//! the thread-local memory of the copy's threads lies where that of the original's threads was. A copy that opens a
//! database of its own thus finds its threads among the waiters of another database, and some are never woken. So
//! nothing of an idle database may be in that table. The interface is parking_lot's: no poisoning, and a condition
//! variable that borrows the guard.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        self, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// A mutex.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// A locked [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    /// `None` only while a [`Condvar`] waits.
    locked: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { locked: Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)) }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.locked.as_ref().expect("nobody looks while it waits")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.locked.as_mut().expect("nobody looks while it waits")
    }
}

/// Whether a wait ended by its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the wait timed out.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar {
    condition: sync::Condvar,
    /// The number of waiting threads: without any, a notification makes no system call.
    waiting: AtomicUsize,
}

impl Condvar {
    /// A condition variable without waiters.
    pub fn new() -> Self {
        Condvar::default()
    }

    /// Unlocks, waits for a notification, and locks again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let locked = guard.locked.take().expect("nobody looks while it waits");
        self.waiting.fetch_add(1, Ordering::SeqCst);
        guard.locked = Some(self.condition.wait(locked).unwrap_or_else(PoisonError::into_inner));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// The same, with a timeout.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, longest: Duration) -> WaitTimeoutResult {
        let locked = guard.locked.take().expect("nobody looks while it waits");
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let (locked, ended) = self.condition.wait_timeout(locked, longest).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        guard.locked = Some(locked);
        WaitTimeoutResult(ended.timed_out())
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.condition.notify_one();
        }
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.condition.notify_all();
        }
    }
}
