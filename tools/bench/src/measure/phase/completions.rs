//! Counts the operations that the threads of a phase completed, and measures the longest stall: the longest time in
//! which no operation completed.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// One thread's count. It has its own cache line, because its thread writes it after every operation; no other does.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Done {
    operations: AtomicU64,
    /// When the last one ended, in nanoseconds.
    last: AtomicU64,
}

/// Watches all threads of a phase. Times count from the creation of this value.
#[derive(Debug)]
pub(crate) struct Completions {
    epoch: Instant,
    threads: Vec<Done>,
    longest_stall: AtomicU64,
}

impl Completions {
    pub(crate) fn new(threads: usize) -> Self {
        let threads = (0..threads).map(|_| Done::default()).collect();
        Completions { epoch: Instant::now(), threads, longest_stall: AtomicU64::new(0) }
    }

    /// Records that `operations` operations of `thread` ran from `begin` to `end`. The other threads are read only if
    /// this may be the longest stall so far.
    pub(crate) fn add(&self, thread: usize, operations: u64, begin: Instant, end: Instant) {
        let (begin, end) = (self.nanoseconds(begin), self.nanoseconds(end));
        if end.saturating_sub(begin) > self.longest_stall.load(Relaxed) {
            let last = self.threads.iter().map(|done| done.last.load(Relaxed)).max().unwrap_or(0);
            self.longest_stall.fetch_max(end.saturating_sub(begin.max(last)), Relaxed);
        }
        let done = &self.threads[thread];
        done.operations.store(done.operations.load(Relaxed) + operations, Relaxed);
        done.last.store(end, Relaxed);
    }

    /// Operations of all threads.
    pub(crate) fn operations(&self) -> u64 {
        self.threads.iter().map(|done| done.operations.load(Relaxed)).sum()
    }

    /// The longest time in which operations were in flight and none completed.
    pub(crate) fn longest_stall(&self) -> Duration {
        Duration::from_nanos(self.longest_stall.load(Relaxed))
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
        let completions = Completions::new(2);
        let at = |milliseconds| completions.epoch + Duration::from_millis(milliseconds);
        completions.add(0, 1, at(0), at(5));
        assert_eq!(completions.longest_stall(), Duration::from_millis(5));
        // The second thread is slow, but the first one completes an operation meanwhile.
        completions.add(0, 1, at(5), at(8));
        completions.add(1, 1, at(0), at(9));
        assert_eq!(completions.longest_stall(), Duration::from_millis(5));
        completions.add(0, 1, at(8), at(30));
        assert_eq!(completions.longest_stall(), Duration::from_millis(21));
        // The store was idle from 30 to 90.
        completions.add(1, 3, at(90), at(95));
        assert_eq!(completions.longest_stall(), Duration::from_millis(21));
        assert_eq!(completions.operations(), 7);
    }
}
