//! How long a writer is held up before its write is admitted.

use std::time::Duration;

use ecotone_substrate::{clock::Clock, metrics::Histogram};

/// The delay of one admission. Looks at the clock only if there is one; recorded, in nanoseconds, when it is dropped.
#[derive(Debug)]
pub(crate) struct Delay<'a> {
    delays: &'a Histogram,
    clock: &'a dyn Clock,
    since: Option<u64>,
}

impl<'a> Delay<'a> {
    /// No delay so far.
    pub(crate) fn new(delays: &'a Histogram, clock: &'a dyn Clock) -> Self {
        Delay { delays, clock, since: None }
    }

    /// The writer waits from now on, if it did not before.
    pub(crate) fn begin(&mut self) {
        self.since.get_or_insert_with(|| self.clock.now());
    }

    /// The writer waits so long.
    pub(crate) fn sleep(&mut self, owed: Duration) {
        self.begin();
        self.clock.sleep(owed);
    }
}

impl Drop for Delay<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            self.delays.record(self.clock.now().saturating_sub(since));
        }
    }
}

/// The numbers of `delays` as statistics show them.
pub(crate) fn named(delays: &Histogram) -> [(&'static str, u64); 5] {
    let microseconds = |nanoseconds: u64| nanoseconds.div_ceil(1000);
    [
        ("writer_delays", delays.count()),
        ("writer_delay_total_us", microseconds(delays.sum())),
        ("writer_delay_p50_us", microseconds(delays.quantile(0.5))),
        ("writer_delay_p99_us", microseconds(delays.quantile(0.99))),
        ("writer_delay_max_us", microseconds(delays.largest())),
    ]
}
