//! The locks of shuttle or loom, with parking_lot's interface: no poisoning, and a condition variable that borrows the
//! guard.

#[cfg(not(feature = "shuttle"))]
pub use std::thread_local;
use std::{
    ops::{Deref, DerefMut},
    sync::{PoisonError, TryLockError},
    time::{Duration, Instant},
};

#[cfg(not(feature = "shuttle"))]
use loom::sync;
#[cfg(feature = "shuttle")]
use shuttle::sync;
#[cfg(feature = "shuttle")]
pub use shuttle::thread_local;
pub use sync::atomic;

/// Threads. Time does not exist here, so a sleep only lets other threads run.
#[cfg(feature = "shuttle")]
pub mod thread {
    pub use shuttle::thread::*;

    /// Lets other threads run.
    pub fn sleep(_: std::time::Duration) {
        yield_now();
    }
}
/// Threads. Functions that loom lacks come from the standard library, and are not for models.
#[cfg(not(feature = "shuttle"))]
pub mod thread {
    pub use std::thread::{Builder, JoinHandle, ScopedJoinHandle, current, scope, sleep};

    pub use loom::thread::yield_now;
}

/// A mutex.
#[derive(Debug)]
pub struct Mutex<T>(sync::Mutex<T>);

/// A locked [`Mutex`].
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` only while a [`Condvar`] waits.
    locked: Option<sync::MutexGuard<'a, T>>,
}

impl<T> MutexGuard<'_, T> {
    /// Unlocks. Fairness needs no code here: the tool tries every thread that may be next.
    pub fn unlock_fair(guard: Self) {
        drop(guard);
    }
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, locked: Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)) }
    }

    /// Takes the lock, if no thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let locked = match self.0.try_lock() {
            Ok(locked) => locked,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { mutex: self, locked: Some(locked) })
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
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

/// A lock for many readers or one writer.
#[derive(Debug)]
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> Self {
        RwLock(sync::RwLock::new(value))
    }

    /// Waits for the read side.
    pub fn read(&self) -> sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the write side.
    pub fn write(&self) -> sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

/// Whether a wait ended by its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the wait timed out.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable without waiters.
    pub fn new() -> Self {
        Condvar(sync::Condvar::new())
    }

    /// Unlocks, waits for a notification, and locks again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let locked = guard.locked.take().expect("nobody looks while it waits");
        guard.locked = Some(self.0.wait(locked).unwrap_or_else(PoisonError::into_inner));
    }

    /// Unlocks, lets other threads run, and locks again: any timeout may pass at once.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitTimeoutResult {
        guard.locked = None;
        thread::yield_now();
        guard.locked = guard.mutex.lock().locked.take();
        WaitTimeoutResult(true)
    }

    /// As [`wait_for`](Self::wait_for).
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> WaitTimeoutResult {
        self.wait_for(guard, Duration::ZERO)
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
