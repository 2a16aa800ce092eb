//! Calling for relief when the log fills, and waiting for it.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::Wal;
use crate::{Error, failures::Failures};

/// What is called when the log needs to be truncated.
pub type Call = Box<dyn Fn() + Send + Sync>;

/// Between those who fill the log and the one who can truncate it.
#[derive(Default)]
pub(super) struct Relief {
    call: OnceLock<Call>,
    /// The call for the present filling was made.
    called: AtomicBool,
    /// How often the log was truncated.
    truncations: AtomicU64,
    pub(super) failures: Failures,
    /// Whether the last relief failed: then nobody is to wait for the next.
    is_failing: AtomicBool,
}

impl Relief {
    /// Calls for relief, whatever was called before.
    pub(super) fn call(&self) {
        if let Some(call) = self.call.get() {
            call();
        }
    }

    /// Calls again at once if the truncation did not make `enough`, rather than when the log is full and all writers
    /// wait.
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
    /// Has `call` called, outside of all locks of the log, when the log becomes half full, and again whenever somebody
    /// begins to wait for room in it or a truncation did not make enough. It must be quick, such as scheduling a job
    /// unless one is scheduled. The first registration counts.
    pub fn on_half_full(&self, call: Call) {
        let _ = self.relief.call.set(call);
        // Recovery may have filled the log when there was nobody to call.
        self.relief.called.store(false, Ordering::SeqCst);
        self.call_if_half_full(0);
    }

    /// Says that the log could not be truncated (a full disk, in most cases): those who wait for room in it get
    /// `cause`.
    pub fn relief_failed(&self, cause: Error) {
        self.relief.is_failing.store(true, Ordering::Relaxed);
        self.relief.failures.add(cause);
        self.scheduler.notify();
    }

    /// Calls for relief if `more` bytes fill the log to more than a half, once a filling.
    pub(super) fn call_if_half_full(&self, more: u64) {
        let half_full = self.weight.of(self.used() + more) > self.options.limit_bytes / 2;
        if half_full && !self.relief.called.load(Ordering::Relaxed) && !self.relief.called.swap(true, Ordering::SeqCst)
        {
            self.relief.call();
        }
    }
}
