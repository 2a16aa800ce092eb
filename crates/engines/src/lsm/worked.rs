//! How long jobs had a processor: what they cost those who wait for one (decision 14, "Price").

use std::sync::Arc;

use ecotone_substrate::{clock::Clock, metrics::Counter};

/// Nanoseconds of processor that parts of jobs took which have ended, whoever made them.
#[derive(Debug)]
pub(super) struct Worked {
    clock: Arc<dyn Clock>,
    nanoseconds: Counter,
}

impl Worked {
    /// None, by this clock.
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Arc<Worked> {
        Arc::new(Worked { clock: clock.clone(), nanoseconds: Counter::default() })
    }

    /// Makes a part of a job.
    pub(super) fn make<M>(&self, part: impl FnOnce() -> M) -> M {
        let begun = self.clock.processor();
        let made = part();
        self.nanoseconds.add(self.clock.processor().saturating_sub(begun));
        made
    }

    pub(super) fn get(&self) -> u64 {
        self.nanoseconds.get()
    }
}
