//! A lazy slot: a part of a table, such as its index, that is absent, being loaded by one thread, or in memory (L6;
//! lsm-protocol.md, invariant 19).

use std::{
    fmt,
    sync::{Arc, Weak, atomic::Ordering},
};

use ecotone_substrate::Result;
use ecotone_sys::{
    epoch::{Domain, Pin, Slot},
    primitive::{Mutex, MutexGuard, atomic::AtomicBool},
};

/// An immutable value that is loaded lazily and may be evicted.
pub(crate) struct LazySlot<T: Send + Sync + 'static> {
    slot: Slot<T>,
    /// Whether the value was read since the hand of the clock passed. Advice, which no order of threads depends on.
    is_used: AtomicBool,
    /// Held by the thread that loads the value, across its I/O.
    loading: Mutex<()>,
}

impl<T: Send + Sync + 'static> LazySlot<T> {
    /// An empty slot.
    pub(crate) fn absent(domain: &Arc<Domain>) -> Arc<LazySlot<T>> {
        Arc::new(LazySlot { slot: Slot::new(domain, None), is_used: AtomicBool::new(false), loading: Mutex::new(()) })
    }

    /// Whether the value is in memory.
    pub(crate) fn is_there(&self, pin: &Pin<'_>) -> bool {
        self.slot.load(pin).is_some()
    }

    /// The result of `look`, if the value is in memory.
    #[inline]
    pub(crate) fn look<R>(&self, pin: &Pin<'_>, look: impl FnOnce(&T) -> R) -> Option<R> {
        let value = self.slot.load(pin)?;
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        Some(look(value))
    }

    /// The result of `look`, after the value was loaded if it was absent. `published` is called when other threads can
    /// see the loaded value.
    ///
    /// # Errors
    /// If loading fails. Then the slot stays empty, and the next caller tries again.
    pub(crate) fn look_or_load<R>(
        &self,
        domain: &Domain,
        look: impl Fn(&T) -> R,
        load: impl FnOnce() -> Result<T>,
        published: impl FnOnce(),
    ) -> Result<R> {
        if let Some(seen) = self.look(&domain.pin(), &look) {
            return Ok(seen);
        }
        let _guard = self.loading.lock();
        if let Some(seen) = self.look(&domain.pin(), &look) {
            return Ok(seen);
        }
        let seen = self.publish(load()?, look);
        published();
        Ok(seen)
    }

    /// The load lock, if the value is absent and no other thread loads it.
    pub(crate) fn begin_load(&self, domain: &Domain) -> Option<MutexGuard<'_, ()>> {
        let guard = self.loading.try_lock()?;
        (!self.is_there(&domain.pin())).then_some(guard)
    }

    /// Publishes a value; the caller holds the load lock. Returns the result of `look`.
    pub(crate) fn publish<R>(&self, value: T, look: impl FnOnce(&T) -> R) -> R {
        let value = Box::new(value);
        // Before the value can be evicted, so that a caller needs to load it only once.
        let seen = look(&value);
        self.slot.swap(Some(value), drop);
        seen
    }

    /// The slot, as an entry of the clock.
    pub(crate) fn resident(self: &Arc<Self>) -> Weak<dyn Evictable> {
        let part: Arc<dyn Evictable> = self.clone();
        Arc::downgrade(&part)
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for LazySlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazySlot").field("is_used", &self.is_used).finish_non_exhaustive()
    }
}

/// A slot of any kind, as the clock sees it. It is in the clock once, from its load until it is taken out.
pub(crate) trait Evictable: Send + Sync {
    /// Whether the value was read since the last call.
    fn take_use(&self) -> bool;
    /// Evicts the value; `then` runs when no thread reads it any more and its memory is free.
    fn evict(&self, then: Box<dyn FnOnce() + Send>);
}

impl<T: Send + Sync + 'static> Evictable for LazySlot<T> {
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
