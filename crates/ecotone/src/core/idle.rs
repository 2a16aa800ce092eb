//! Detects that nothing is written, and starts the background work for that time once.

use ecotone_engine::idle::IdleDetector;
use ecotone_substrate::{Seq, coalesced_job::CoalescedJob};
use ecotone_sys::primitive::atomic::{AtomicBool, Ordering};

/// The state of idle work since the last write.
#[derive(Debug, Default)]
pub(crate) struct IdleWork {
    /// The log's end at the last tick, and the tombstones that were due then.
    detector: IdleDetector<(Seq, u64)>,
    pub(super) job: CoalescedJob,
    is_done: AtomicBool,
}

impl IdleWork {
    /// Notes the log's end and the due tombstones. True if the database has become idle since the last tick.
    pub(super) fn tick(&self, tail: Seq, garbage: u64) -> bool {
        self.detector.tick((tail, garbage));
        let is_idle = self.is_idle();
        !self.is_done.swap(is_idle, Ordering::Relaxed) && is_idle
    }

    /// Whether nothing is written.
    pub(super) fn is_idle(&self) -> bool {
        self.detector.is_idle()
    }

    /// Begins to wait anew, so that a later tick tries again.
    pub(super) fn reset(&self) {
        self.detector.reset();
    }
}
