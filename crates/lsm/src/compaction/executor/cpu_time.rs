//! The CPU time of background jobs: their cost for threads that wait for a processor (adaptive.md, "Cost model").

use std::sync::Arc;

use ecotone_substrate::{clock::Clock, metrics::Counter};

/// CPU time of ended parts of jobs, in nanoseconds, on all threads.
#[derive(Debug)]
pub(crate) struct CpuTime {
    clock: Arc<dyn Clock>,
    nanoseconds: Counter,
}

impl CpuTime {
    /// Zero, measured by this clock.
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Arc<CpuTime> {
        Arc::new(CpuTime { clock: clock.clone(), nanoseconds: Counter::default() })
    }

    /// Runs a part of a job, and counts its CPU time.
    pub(crate) fn make<M>(&self, part: impl FnOnce() -> M) -> M {
        let begun = self.clock.processor();
        let made = part();
        self.nanoseconds.add(self.clock.processor().saturating_sub(begun));
        made
    }

    pub(crate) fn get(&self) -> u64 {
        self.nanoseconds.get()
    }
}
