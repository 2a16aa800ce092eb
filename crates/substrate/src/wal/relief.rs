//! Calling for relief when the log fills, and waiting for it.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use ecotone_sys::primitive::Mutex;

use super::Wal;
use crate::Error;

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
    /// How often relief failed, and the last cause.
    failures: Mutex<(u64, Option<Error>)>,
}

impl Relief {
    /// Calls for relief, whatever was called before.
    pub(super) fn call(&self) {
        if let Some(call) = self.call.get() {
            call();
        }
    }

    /// Calls again at once if the truncation did not make `enough`, rather than when the log is full and all writers wait.
    pub(super) fn truncated(&self, enough: bool) {
        self.truncations.fetch_add(1, Ordering::SeqCst);
        self.called.store(!enough, Ordering::SeqCst);
        if !enough {
            self.call();
        }
    }

    pub(super) fn truncations(&self) -> u64 {
        self.truncations.load(Ordering::SeqCst)
    }

    /// The number of failures so far.
    pub(super) fn failures(&self) -> u64 {
        self.failures.lock().0
    }

    /// Why relief failed since the number of failures was `before`, if it did.
    pub(super) fn failure_since(&self, before: u64) -> Option<Error> {
        let failures = self.failures.lock();
        failures.1.clone().filter(|_| failures.0 > before)
    }
}

impl Wal {
    /// Has `call` called, outside of all locks of the log, when the log becomes half full, and again whenever somebody begins to wait for room in it or a
    /// truncation did not make enough. It must be quick, such as scheduling a job unless one is scheduled. The first registration counts.
    pub fn on_half_full(&self, call: Call) {
        let _ = self.relief.call.set(call);
        // Recovery may have filled the log when there was nobody to call.
        self.relief.called.store(false, Ordering::SeqCst);
        self.call_if_half_full(0);
    }

    /// Says that the log could not be truncated (a full disk, in most cases): those who wait for room in it get `cause`.
    pub fn relief_failed(&self, cause: Error) {
        {
            let mut failures = self.relief.failures.lock();
            failures.0 += 1;
            failures.1 = Some(cause);
        }
        self.scheduler.notify();
    }

    /// Calls for relief if `more` bytes fill the log to more than a half, once a filling.
    pub(super) fn call_if_half_full(&self, more: u64) {
        let half_full = self.weight.of(self.used() + more) > self.options.limit_bytes / 2;
        if half_full && !self.relief.called.load(Ordering::Relaxed) && !self.relief.called.swap(true, Ordering::SeqCst) {
            self.relief.call();
        }
    }
}
