//! The longest time in which no operation of any thread ended.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// When the last operation of one thread ended, in nanoseconds; on a cache line of its own, because every operation writes it.
#[derive(Debug)]
#[repr(align(64))]
struct Last(AtomicU64);

/// Watches all threads of a phase. Times are counted from its making.
#[derive(Debug)]
pub(crate) struct Stalls {
    epoch: Instant,
    threads: Vec<Last>,
    longest: AtomicU64,
}

impl Stalls {
    pub(crate) fn new(threads: usize) -> Self {
        let threads = (0..threads).map(|_| Last(AtomicU64::new(0))).collect();
        Stalls { epoch: Instant::now(), threads, longest: AtomicU64::new(0) }
    }

    /// An operation of `thread` that began at `begin` ended at `end`. The others are asked only where this may be the longest stall so far.
    pub(crate) fn ended(&self, thread: usize, begin: Instant, end: Instant) {
        let (begin, end) = (self.nanoseconds(begin), self.nanoseconds(end));
        if end.saturating_sub(begin) > self.longest.load(Relaxed) {
            let last = self.threads.iter().map(|last| last.0.load(Relaxed)).max().unwrap_or(0);
            self.longest.fetch_max(end.saturating_sub(begin.max(last)), Relaxed);
        }
        self.threads[thread].0.store(end, Relaxed);
    }

    /// The longest stall.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest.load(Relaxed))
    }

    fn nanoseconds(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stops_all_threads_is_a_stall() {
        let stalls = Stalls::new(2);
        let at = |milliseconds| stalls.epoch + Duration::from_millis(milliseconds);
        stalls.ended(0, at(0), at(5));
        assert_eq!(stalls.longest(), Duration::from_millis(5));
        // The second thread is slow, but the first one ended an operation meanwhile.
        stalls.ended(0, at(5), at(8));
        stalls.ended(1, at(0), at(9));
        assert_eq!(stalls.longest(), Duration::from_millis(5));
        stalls.ended(0, at(8), at(30));
        assert_eq!(stalls.longest(), Duration::from_millis(21));
        // Nothing was asked of the store from 30 to 90.
        stalls.ended(1, at(90), at(95));
        assert_eq!(stalls.longest(), Duration::from_millis(21));
    }
}
