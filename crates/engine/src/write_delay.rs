//! Measures how long a writer is delayed before its write is admitted.

use std::time::Duration;

use ecotone_substrate::{clock::Clock, metrics::Histogram};

/// The delay of one admission. Reads the clock only if there is a delay; recorded, in nanoseconds, when it is dropped.
#[derive(Debug)]
pub struct WriteDelay<'a> {
    delays: &'a Histogram,
    clock: &'a dyn Clock,
    since: Option<u64>,
}

impl<'a> WriteDelay<'a> {
    /// Begins without a delay.
    pub fn new(delays: &'a Histogram, clock: &'a dyn Clock) -> Self {
        WriteDelay { delays, clock, since: None }
    }

    /// Starts the delay, unless it has started.
    pub fn begin(&mut self) {
        self.since.get_or_insert_with(|| self.clock.now());
    }

    /// Adds a delay of this length.
    pub fn sleep(&mut self, owed: Duration) {
        self.begin();
        self.clock.sleep(owed);
    }
}

impl Drop for WriteDelay<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            self.delays.record(self.clock.now().saturating_sub(since));
        }
    }
}

/// The numbers of `delays` as statistics show them.
pub fn stats(delays: &Histogram) -> [(&'static str, u64); 5] {
    let microseconds = |nanoseconds: u64| nanoseconds.div_ceil(1000);
    [
        ("writer_delays", delays.count()),
        ("writer_delay_total_us", microseconds(delays.sum())),
        ("writer_delay_p50_us", microseconds(delays.quantile(0.5))),
        ("writer_delay_p99_us", microseconds(delays.quantile(0.99))),
        ("writer_delay_max_us", microseconds(delays.largest())),
    ]
}
