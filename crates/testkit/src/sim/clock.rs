//! A clock that is a function of its seed and of how often it was read.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use ecotone_substrate::clock::Clock;
use ecotone_sys::primitive::thread;
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// Nanoseconds that pass between two reads of the clock.
const STEP: u64 = 1_000;

/// A seeded clock. Used by one thread, it gives the same answers in every run.
#[derive(Debug)]
pub struct SimClock {
    seed: u64,
    now: AtomicU64,
    drawn: AtomicU64,
}

impl SimClock {
    /// A clock that starts at zero and advances by a microsecond a call.
    pub fn new(seed: u64) -> Self {
        SimClock { seed, now: AtomicU64::new(0), drawn: AtomicU64::new(0) }
    }

    /// Advances the clock by `nanoseconds` at once.
    pub fn advance(&self, nanoseconds: u64) {
        self.now.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> u64 {
        self.now.fetch_add(STEP, Ordering::Relaxed)
    }

    fn random(&self) -> u64 {
        let draw = self.drawn.fetch_add(1, Ordering::Relaxed);
        SmallRng::seed_from_u64(self.seed ^ draw.rotate_left(32)).next_u64()
    }

    /// CPU time, which equals the time of the clock.
    fn processor(&self) -> u64 {
        self.now()
    }

    /// A sleep only lets other threads run.
    fn sleep(&self, duration: Duration) {
        self.advance(u64::try_from(duration.as_nanos()).expect("nobody sleeps for centuries"));
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_answers_and_time_moves_on() {
        let (a, b, other) = (SimClock::new(7), SimClock::new(7), SimClock::new(8));
        let draws = |clock: &SimClock| (0..100).map(|_| (clock.now(), clock.random())).collect::<Vec<_>>();
        let first = draws(&a);
        assert_eq!(first, draws(&b));
        assert_ne!(first, draws(&other));
        assert!(first.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1));
        let before = a.now();
        a.advance(1 << 40);
        a.sleep(Duration::from_nanos(1 << 41));
        assert!(a.now() > before + (3 << 40));
    }
}
