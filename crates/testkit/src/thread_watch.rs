//! Tells a test when another thread waits, where no condition shows it: the thread has come to a mutex or a timer.

use std::{
    fs,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

/// The longest time until a watched thread begins and sleeps.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// Watches one thread, whose state the kernel tells.
#[derive(Debug, Default)]
pub struct ThreadWatch {
    /// The status file of the thread.
    status: OnceLock<String>,
}

impl ThreadWatch {
    /// Makes the calling thread the watched one.
    ///
    /// # Panics
    /// If another thread is watched already.
    pub fn begin(&self) {
        let thread = fs::read_link("/proc/thread-self").expect("Linux tells the number of a thread");
        self.status.set(format!("/proc/{}/status", thread.display())).expect("it watches one thread");
    }

    /// Waits until the watched thread has begun and sleeps.
    ///
    /// # Panics
    /// If it does not in time, or has ended.
    pub fn wait_asleep(&self) {
        let deadline = Instant::now() + MAX_WAIT;
        while !self.is_asleep() {
            assert!(Instant::now() < deadline, "the thread waits for nothing");
            thread::yield_now();
        }
    }

    fn is_asleep(&self) -> bool {
        let status = self.status.get().map(|file| fs::read_to_string(file).expect("the thread has not ended"));
        status.is_some_and(|status| status.contains("\nState:\tS"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    };

    use super::*;

    #[test]
    fn a_thread_that_works_is_not_asleep_and_one_that_waits_for_a_mutex_is() {
        let (watch, mutex, works) = (ThreadWatch::default(), Mutex::new(()), AtomicBool::new(true));
        thread::scope(|scope| {
            let held = mutex.lock().unwrap();
            scope.spawn(|| {
                watch.begin();
                while works.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                drop(mutex.lock().unwrap());
            });
            while watch.status.get().is_none() {
                thread::yield_now();
            }
            assert!((0..100).all(|_| !watch.is_asleep()));
            works.store(false, Ordering::Relaxed);
            watch.wait_asleep();
            drop(held);
        });
    }
}
