//! Time and randomness. They are injected, so that a simulated run replays exactly.

use std::{
    fmt,
    time::{Duration, Instant},
};

use ecotone_sys::{primitive::thread, processor};
use tracing::level_filters::LevelFilter;

/// The source of time and randomness.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Nanoseconds since some fixed moment. Never goes back.
    fn now(&self) -> u64;
    /// [`now`](Self::now), for a time that only debug logging uses. 0, without reading the clock, if debug logging is
    /// off.
    fn now_for_log(&self) -> u64 {
        if LevelFilter::current() >= LevelFilter::DEBUG { self.now() } else { 0 }
    }
    /// Time since a moment that [`now`](Self::now) gave.
    fn since(&self, began: u64) -> Duration {
        Duration::from_nanos(self.now().saturating_sub(began))
    }
    /// A random number, for identities and seeds; not for secrets.
    fn random(&self) -> u64;
    /// Returns when `duration` has passed.
    fn sleep(&self, duration: Duration);
    /// Processor time of the calling thread, in nanoseconds.
    fn processor(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> u64 {
        nanoseconds(self.start.elapsed())
    }

    fn random(&self) -> u64 {
        // The standard library seeds every `RandomState` from the operating system.
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(self.now())
    }

    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }

    fn processor(&self) -> u64 {
        nanoseconds(processor::used())
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
