//! A turn: who has it works for all who wait for it, across I/O (decision 16, invariants 10, 11 and 14).

use ecotone_sys::primitive::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};

/// A mutex that tells whether somebody waits for it.
#[derive(Debug, Default)]
pub(super) struct Turn {
    mutex: Mutex<()>,
    /// Those who wait, or are about to. Advice, which no order of threads depends on.
    waiting: AtomicUsize,
}

impl Turn {
    /// Waits for it.
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        // Before it is tried, so that who has it and sleeps sees it at his next look.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let turn = self.mutex.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        turn
    }

    /// Takes it, if nobody has it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, ()>> {
        self.mutex.try_lock()
    }

    /// Whether somebody waits for it.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}
