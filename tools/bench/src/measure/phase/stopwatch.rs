//! Measures the latencies of one thread.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::completions::Completions;

/// Operations per sample while they are fast: reading the clock twice costs as much as a fast operation.
const SAMPLE: u64 = 16;
/// Faster operations than this on average are sampled.
const FAST: Duration = Duration::from_micros(1);
/// If the unmeasured operations of a sample take longer than this together, they contain a stall, which is counted
/// separately.
const STALL: Duration = Duration::from_micros(50);
/// The largest latency that the histogram resolves, in nanoseconds.
const LONGEST: u64 = 1000 * 1_000_000_000;

/// An empty histogram of nanoseconds with three significant digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are valid")
}

/// Times the calls of one thread, one after the other.
#[derive(Debug)]
pub(crate) struct Stopwatch<'a> {
    pub(crate) histogram: Histogram<u64>,
    completions: &'a Completions,
    thread: usize,
    /// Calls per sample, 1 or [`SAMPLE`].
    stride: u64,
    /// Calls since the sample began, and operations in the calls after its first.
    calls: u64,
    rest: u64,
    /// The start of the current interval.
    since: Instant,
    first: Duration,
}

impl<'a> Stopwatch<'a> {
    /// The stopwatch of this thread.
    pub(crate) fn new(completions: &'a Completions, thread: usize) -> Self {
        let (since, first) = (Instant::now(), Duration::ZERO);
        Stopwatch { histogram: histogram(), completions, thread, stride: 1, calls: 0, rest: 0, since, first }
    }

    /// Starts a block of calls; `pace` is the mean time of an operation in the previous block.
    pub(crate) fn resume(&mut self, pace: Duration, now: Instant) {
        self.stride = if pace < FAST { SAMPLE } else { 1 };
        self.since = now;
    }

    /// Records the end of a call of `operations` operations; it began when the previous one ended.
    pub(crate) fn lap(&mut self, operations: u64) {
        self.calls += 1;
        if self.calls == 1 {
            self.first = self.tick(operations);
            record(&mut self.histogram, self.first, operations);
        } else {
            self.rest += operations;
        }
        if self.calls == self.stride {
            self.pause();
        }
    }

    /// Ends the sample. Its unmeasured operations count as fast as the first one, except for a stall among them.
    pub(crate) fn pause(&mut self) {
        if self.rest > 0 {
            let together = self.tick(self.rest);
            let stalled = u64::from(together > STALL);
            // A stall counts once, not for each operation beside it.
            let usual =
                if self.first > STALL { together / u32::try_from(self.rest).unwrap_or(u32::MAX) } else { self.first };
            record(&mut self.histogram, together, stalled);
            record(&mut self.histogram, usual, self.rest - stalled);
        }
        (self.calls, self.rest) = (0, 0);
    }

    /// Counts `operations` operations that end now and were due at `intended`.
    pub(crate) fn since_intended(&mut self, intended: Instant, operations: u64) {
        let now = Instant::now();
        self.completions.add(self.thread, operations, intended.max(self.since), now);
        self.since = now;
        record(&mut self.histogram, now.saturating_duration_since(intended), operations);
    }

    /// Counts `operations` operations that were due at `intended` and had not begun by `end`.
    pub(crate) fn never_begun(&mut self, intended: Instant, end: Instant, operations: u64) {
        record(&mut self.histogram, end.saturating_duration_since(intended), operations);
    }

    /// Records that this many operations ended now; returns the time since they began.
    fn tick(&mut self, operations: u64) -> Duration {
        let (now, since) = (Instant::now(), self.since);
        self.completions.add(self.thread, operations, since, now);
        self.since = now;
        now - since
    }
}

fn record(histogram: &mut Histogram<u64>, latency: Duration, operations: u64) {
    let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    histogram.saturating_record_n(nanoseconds.max(1), operations);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {}
    }

    #[test]
    fn every_operation_counts_once() {
        for pace in [Duration::ZERO, Duration::from_secs(1)] {
            let completions = Completions::new(1);
            let mut stopwatch = Stopwatch::new(&completions, 0);
            for _ in 0..3 {
                stopwatch.resume(pace, Instant::now());
                (0..37).for_each(|_| stopwatch.lap(2));
                stopwatch.pause();
            }
            assert_eq!((stopwatch.histogram.len(), completions.operations()), (3 * 37 * 2, 3 * 37 * 2));
        }
    }

    #[test]
    fn a_stall_shows_wherever_it_falls() {
        for at in 0..40 {
            let completions = Completions::new(1);
            let mut stopwatch = Stopwatch::new(&completions, 0);
            stopwatch.resume(Duration::ZERO, Instant::now());
            for call in 0..40 {
                if call == at {
                    wait(Duration::from_millis(2));
                }
                stopwatch.lap(1);
            }
            stopwatch.pause();
            assert!(stopwatch.histogram.max() >= 1_990_000, "call {at}");
            assert!(stopwatch.histogram.value_at_quantile(0.9) < 1_000_000, "call {at}");
            assert!(completions.longest_stall() >= Duration::from_micros(1990), "call {at}");
        }
    }

    #[test]
    fn lateness_counts_from_the_intended_time() {
        let completions = Completions::new(1);
        let mut stopwatch = Stopwatch::new(&completions, 0);
        let intended = Instant::now() - Duration::from_millis(30);
        stopwatch.since_intended(intended, 1);
        assert!(stopwatch.histogram.max() >= 29_900_000);
        stopwatch.never_begun(intended, intended + Duration::from_secs(1), 2);
        assert!(stopwatch.histogram.max() >= 999_000_000 && stopwatch.histogram.len() == 3);
    }
}
