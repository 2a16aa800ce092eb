//! Locks, atomics and threads for all concurrent code.
//!
//! In the product they are those of parking_lot and of the standard library. With the feature `shuttle` or `loom` they
//! are those of a tool that decides at each of them which thread runs next, and so tries the orders that a machine
//! hardly ever takes (`docs/reliability.md`, "Interleavings"). Such a build is for tests alone: its locks work only
//! inside that tool.

#[cfg(any(feature = "shuttle", feature = "loom"))]
mod checked;

mod once;
#[cfg(feature = "loom")]
pub mod orders;
#[cfg(not(any(feature = "shuttle", feature = "loom")))]
mod plain {
    pub use std::{sync::atomic, thread, thread_local};

    pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
}

/// Locks for threads that rest while there is nothing to do.
#[cfg(any(feature = "shuttle", feature = "loom"))]
pub mod resting {
    pub use super::checked::{Condvar, Mutex};
}
#[cfg(not(any(feature = "shuttle", feature = "loom")))]
pub mod resting;
mod sizes;

#[cfg(feature = "loom")]
pub use loom;
#[cfg(not(any(feature = "shuttle", feature = "loom")))]
pub use plain::{Condvar, Mutex, MutexGuard, RwLock, atomic, thread, thread_local};
#[cfg(feature = "shuttle")]
pub use shuttle;

pub use self::{
    once::Once,
    sizes::{unless_checked, unless_loom, unless_shuttle},
};
#[cfg(any(feature = "shuttle", feature = "loom"))]
pub use checked::{Condvar, Mutex, MutexGuard, RwLock, WaitTimeoutResult, atomic, thread, thread_local};
