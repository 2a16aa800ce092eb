//! What a table has in memory while it is of use, such as its index: absent, being loaded by one thread, or there (L6;
//! decision 12, invariant 19).

use std::{
    fmt,
    sync::{Arc, Weak, atomic::Ordering},
};

use ecotone_substrate::Result;
use ecotone_sys::{
    epoch::{Domain, Pin, Slot},
    primitive::{Mutex, MutexGuard, atomic::AtomicBool},
};

/// A value that never changes, and that comes and goes.
pub(super) struct Part<T: Send + Sync + 'static> {
    slot: Slot<T>,
    /// Whether somebody has looked since the hand of the clock passed by. Advice, which no order of threads depends on.
    is_used: AtomicBool,
    /// Held by the one that loads it, across the I/O.
    loading: Mutex<()>,
}

impl<T: Send + Sync + 'static> Part<T> {
    /// Not there yet.
    pub(super) fn absent(domain: &Arc<Domain>) -> Arc<Part<T>> {
        Arc::new(Part { slot: Slot::new(domain, None), is_used: AtomicBool::new(false), loading: Mutex::new(()) })
    }

    /// Whether it is there now.
    pub(super) fn is_there(&self, pin: &Pin<'_>) -> bool {
        self.slot.load(pin).is_some()
    }

    /// What `look` sees, if it is there.
    #[inline]
    pub(super) fn look<R>(&self, pin: &Pin<'_>, look: impl FnOnce(&T) -> R) -> Option<R> {
        let value = self.slot.load(pin)?;
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        Some(look(value))
    }

    /// What `look` sees, after the value was loaded if it was not there. `published` is called when others can see what
    /// was loaded.
    ///
    /// # Errors
    /// If loading fails. Then it is not there, and who comes next tries again.
    pub(super) fn look_or_load<R>(
        &self,
        domain: &Domain,
        look: impl Fn(&T) -> R,
        load: impl FnOnce() -> Result<T>,
        published: impl FnOnce(),
    ) -> Result<R> {
        if let Some(seen) = self.look(&domain.pin(), &look) {
            return Ok(seen);
        }
        let _turn = self.loading.lock();
        if let Some(seen) = self.look(&domain.pin(), &look) {
            return Ok(seen);
        }
        let seen = self.publish(load()?, look);
        published();
        Ok(seen)
    }

    /// The turn to load it, if it is absent and nobody else is at it.
    pub(super) fn begin_load(&self, domain: &Domain) -> Option<MutexGuard<'_, ()>> {
        let turn = self.loading.try_lock()?;
        (!self.is_there(&domain.pin())).then_some(turn)
    }

    /// Has everybody see a value that was loaded by who has the turn. What `look` sees of it.
    pub(super) fn publish<R>(&self, value: T, look: impl FnOnce(&T) -> R) -> R {
        let value = Box::new(value);
        // Before it can go again, so that whoever loads needs to do so once.
        let seen = look(&value);
        self.slot.swap(Some(value), drop);
        seen
    }

    /// As the clock knows it.
    pub(super) fn resident(self: &Arc<Self>) -> Weak<dyn Resident> {
        let part: Arc<dyn Resident> = self.clone();
        Arc::downgrade(&part)
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Part<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("is_used", &self.is_used).finish_non_exhaustive()
    }
}

/// A part of whatever sort, as the clock sees it. It is in the clock once from when it was loaded until it is taken
/// out.
pub(super) trait Resident: Send + Sync {
    /// Whether somebody has looked since this was asked last.
    fn take_use(&self) -> bool;
    /// Takes it out of memory; `then` comes when nobody looks at it any more and its memory is free.
    fn evict(&self, then: Box<dyn FnOnce() + Send>);
}

impl<T: Send + Sync + 'static> Resident for Part<T> {
    fn take_use(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    fn evict(&self, then: Box<dyn FnOnce() + Send>) {
        self.slot.swap(None, move |value| {
            drop(value);
            then();
        });
    }
}
