//! Log reclaim: requests a truncation when the log fills, and lets writers wait for it.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::Wal;
use crate::{Error, failures::Failures};

/// The callback that requests a truncation.
pub type Call = Box<dyn Fn() + Send + Sync>;

/// Connects the writers that fill the log with the job that truncates it.
#[derive(Default)]
pub(super) struct LogReclaim {
    call: OnceLock<Call>,
    /// Whether reclaim was requested since the last truncation.
    called: AtomicBool,
    /// Number of truncations.
    truncations: AtomicU64,
    pub(super) failures: Failures,
    /// Whether the last reclaim failed. Then no writer waits for the next.
    is_failing: AtomicBool,
}

impl LogReclaim {
    /// Requests reclaim, whatever was requested before.
    pub(super) fn call(&self) {
        if let Some(call) = self.call.get() {
            call();
        }
    }

    /// Requests reclaim again at once if the truncation did not free `enough`, instead of when the log is full and all
    /// writers wait.
    pub(super) fn truncated(&self, enough: bool) {
        self.is_failing.store(false, Ordering::Relaxed);
        self.truncations.fetch_add(1, Ordering::SeqCst);
        self.called.store(!enough, Ordering::SeqCst);
        if !enough {
            self.call();
        }
    }

    pub(super) fn truncations(&self) -> u64 {
        self.truncations.load(Ordering::SeqCst)
    }

    pub(super) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }
}

impl Wal {
    /// Registers `call`, which is called outside of all locks of the log: when the log becomes half full, and again
    /// when a writer begins to wait for log space or a truncation did not free enough. It must be quick, such as
    /// scheduling a job unless one is scheduled. The first registration stays.
    pub fn on_half_full(&self, call: Call) {
        let _ = self.reclaim.call.set(call);
        // Recovery may have filled the log before anything was registered.
        self.reclaim.called.store(false, Ordering::SeqCst);
        self.call_if_half_full(0);
    }

    /// Says that the log could not be truncated (mostly because the disk is full): writers that wait for log space get
    /// `cause`.
    pub fn reclaim_failed(&self, cause: Error) {
        self.reclaim.is_failing.store(true, Ordering::Relaxed);
        self.reclaim.failures.add(cause);
        self.scheduler.notify();
    }

    /// Requests reclaim if `more` bytes fill the log to more than a half, once per truncation.
    pub(super) fn call_if_half_full(&self, more: u64) {
        let half_full = self.weight.of(self.used() + more) > self.options.limit_bytes / 2;
        if half_full
            && !self.reclaim.called.load(Ordering::Relaxed)
            && !self.reclaim.called.swap(true, Ordering::SeqCst)
        {
            self.reclaim.call();
        }
    }
}
