//! A slot for a value that is replaced while other threads read it.

use std::{
    fmt,
    ptr::{self, NonNull},
    sync::{Arc, atomic::Ordering},
};

use super::{Domain, Pin};
use crate::primitive::atomic::AtomicPtr;

/// A value or none. It is read under a pin and can be replaced at any time. Dropping the slot drops the value.
pub struct Slot<T: Send + Sync + 'static> {
    /// Null, or from a box whose value lives until a grace has passed since the pointer left the slot.
    pointer: AtomicPtr<T>,
    domain: Arc<Domain>,
}

impl<T: Send + Sync + 'static> Slot<T> {
    /// A slot for threads with pins of `domain`.
    pub fn new(domain: &Arc<Domain>, value: Option<Box<T>>) -> Slot<T> {
        Slot { pointer: AtomicPtr::new(into_pointer(value)), domain: domain.clone() }
    }

    /// The present value. It stays as long as the pin.
    ///
    /// # Panics
    /// If the pin is of another domain.
    #[inline]
    pub fn load<'p>(&'p self, pin: &'p Pin<'_>) -> Option<&'p T> {
        assert!(ptr::eq(pin.domain, &*self.domain), "a pin of another domain");
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: the pointer is null or came from a box, and acquiring made its value visible. It becomes a box again
        // in two places. One is the drop of the slot, which cannot come while `'p` borrows it. The other is an action
        // bumped after the pointer had left the slot, in the domain of the pin; the pin was held when the pointer was
        // still there and lives as long as `'p`, so the action comes later (hash-protocol.md, invariant 1). Until then
        // nobody has the value but by shared references, which `T: Sync` allows.
        unsafe { pointer.as_ref() }
    }

    /// Replaces the value. The old value goes to `then` when every pin is gone that is held now, as the action of
    /// [`Domain::bump`].
    pub fn swap(&self, value: Option<Box<T>>, then: impl FnOnce(Box<T>) + Send + 'static) {
        let gone = self.pointer.swap(into_pointer(value), Ordering::AcqRel);
        if let Some(gone) = NonNull::new(gone).map(Retired) {
            self.domain.bump(move || then(gone.into_box()));
        }
    }
}

impl<T: Send + Sync + 'static> Drop for Slot<T> {
    fn drop(&mut self) {
        let last = self.pointer.swap(ptr::null_mut(), Ordering::AcqRel);
        drop(NonNull::new(last).map(|last| Retired(last).into_box()));
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.pointer).finish()
    }
}

fn into_pointer<T>(value: Option<Box<T>>) -> *mut T {
    value.map_or(ptr::null_mut(), Box::into_raw)
}

/// A value that has left its slot, and that some threads may still read.
struct Retired<T>(NonNull<T>);

// SAFETY: this is the value's only owner, so it moves with the value; `Slot` has only values that are `Send`.
unsafe impl<T: Send> Send for Retired<T> {}

impl<T> Retired<T> {
    /// The value, when no thread reads it any more: in the action of a later bump, or when the slot is dropped.
    fn into_box(self) -> Box<T> {
        // SAFETY: the pointer came from `Box::into_raw`. It left the slot by a swap, so it left it once, into this
        // value, which is consumed. Both callers come when no reference is left: the action of a bump after the swap
        // runs when every pin is gone that could have loaded it (hash-protocol.md, invariant 1), and the drop of a slot
        // has it to itself. What was done under these pins happens before (invariant 2).
        unsafe { Box::from_raw(self.0.as_ptr()) }
    }
}
