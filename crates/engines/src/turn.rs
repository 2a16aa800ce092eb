//! A turn: who has it works for all who wait for it, across I/O (decision 16, invariants 10, 11 and 14;
//! `docs/design/waiting.md`).

use ecotone_substrate::held::{self, Held, Kind};
use ecotone_sys::primitive::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// A mutex that tells whether somebody waits for it.
#[derive(Debug)]
pub(crate) struct Turn {
    mutex: Mutex<()>,
    kind: Kind,
    /// Whether somebody has it.
    taken: AtomicBool,
    /// Those who wait, or are about to. Advice, which no order of threads depends on.
    waiting: AtomicUsize,
}

/// A turn that was taken, until it is dropped.
#[must_use = "the turn is over when this is dropped"]
pub(crate) struct Taken<'a> {
    turn: &'a Turn,
    _guard: MutexGuard<'a, ()>,
    _held: Held,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.turn.taken.store(false, Ordering::SeqCst);
    }
}

impl Turn {
    /// One that is held as this.
    pub(crate) fn of(kind: Kind) -> Turn {
        Turn { mutex: Mutex::default(), kind, taken: AtomicBool::new(false), waiting: AtomicUsize::new(0) }
    }

    /// Waits for it.
    pub(crate) fn lock(&self) -> Taken<'_> {
        let held = held::hold(self.kind);
        // Before it is tried, so that who has it and sleeps sees it at his next look.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.mutex.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.take(guard, held)
    }

    /// Takes it, if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<Taken<'_>> {
        self.mutex.try_lock().map(|guard| self.take(guard, held::hold(self.kind)))
    }

    fn take<'a>(&'a self, guard: MutexGuard<'a, ()>, held: Held) -> Taken<'a> {
        self.taken.store(true, Ordering::SeqCst);
        Taken { turn: self, _guard: guard, _held: held }
    }

    /// Whether somebody has it, or is just about to give it back.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }

    /// Whether somebody waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}
