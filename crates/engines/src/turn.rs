//! A turn: who has it works for all who wait for it, across I/O (decision 16, invariants 10, 11 and 14; `docs/design/waiting.md`).

use ecotone_substrate::held::{self, Held, Kind};
use ecotone_sys::primitive::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};

/// A mutex that tells whether somebody waits for it.
#[derive(Debug)]
pub(crate) struct Turn {
    mutex: Mutex<()>,
    kind: Kind,
    /// Those who wait, or are about to. Advice, which no order of threads depends on.
    waiting: AtomicUsize,
}

/// A turn that was taken, until it is dropped.
#[must_use = "the turn is over when this is dropped"]
pub(crate) struct Taken<'a> {
    _turn: MutexGuard<'a, ()>,
    _held: Held,
}

impl Turn {
    /// One that is held as this.
    pub(crate) fn of(kind: Kind) -> Turn {
        Turn { mutex: Mutex::default(), kind, waiting: AtomicUsize::new(0) }
    }

    /// Waits for it.
    pub(crate) fn lock(&self) -> Taken<'_> {
        let held = held::hold(self.kind);
        // Before it is tried, so that who has it and sleeps sees it at his next look.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let turn = self.mutex.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Taken { _turn: turn, _held: held }
    }

    /// Takes it, if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<Taken<'_>> {
        self.mutex.try_lock().map(|turn| Taken { _turn: turn, _held: held::hold(self.kind) })
    }

    /// Whether somebody has it.
    pub(crate) fn is_taken(&self) -> bool {
        self.mutex.try_lock().is_none()
    }

    /// Whether somebody waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}
