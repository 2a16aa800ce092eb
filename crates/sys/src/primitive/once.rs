//! A value that the first thread that needs it makes.

use std::sync::OnceLock;

use super::Mutex;

/// As [`OnceLock`], but a thread that comes while another makes the value waits at a lock of this module, so that a
/// tool that schedules the threads sees it wait.
#[derive(Debug)]
pub struct Once<T> {
    value: OnceLock<T>,
    making: Mutex<()>,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Once::new()
    }
}

impl<T> Once<T> {
    /// Without a value.
    pub fn new() -> Self {
        Once { value: OnceLock::new(), making: Mutex::new(()) }
    }

    /// The value, if it has been made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value; `make` makes it if it is not there.
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        match self.value.get() {
            Some(value) => value,
            None => self.init(make),
        }
    }

    #[cold]
    fn init(&self, make: impl FnOnce() -> T) -> &T {
        let _making = self.making.lock();
        self.value.get_or_init(make)
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_value_is_made_once() {
        let (once, made) = (Once::new(), AtomicU32::new(0));
        assert_eq!(once.get(), None);
        let make = || made.fetch_add(1, Ordering::Relaxed);
        std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(|| assert_eq!(once.get_or_init(make), &0)))));
        assert_eq!((once.get(), made.into_inner()), (Some(&0), 1));
    }
}
