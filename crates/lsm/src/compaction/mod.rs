//! Levelled compaction. Flushed runs move from L0 down, level by level, to the last one. On the way a compaction drops
//! the records that newer ones replace and the tombstones that hide nothing. One compaction at a time runs in a
//! keyspace: it holds the compaction lock, picks a [`CompactionPlan`](strategy::plan::CompactionPlan) from the current
//! version, merges its inputs, and installs the output with one [`VersionEdit`](crate::manifest::VersionEdit) (lsm.md,
//! "Compaction"; lsm-protocol.md, invariants 12 to 18).

pub(crate) mod executor;
pub(super) mod full;
pub(crate) mod inputs;
pub(super) mod strategy;
#[cfg(test)]
mod tests;
pub(super) mod throttle;

use std::sync::Arc;

use ecotone_engine::job_lock::JobLock;
use ecotone_substrate::{
    clock::Clock, coalesced_job::CoalescedJob, lock_rank::LockRank, metrics::Counter, retry::Retry,
};
use ecotone_sys::primitive::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use self::{
    executor::cpu_time::CpuTime,
    strategy::{cursors::CompactionCursors, read_budget::ReadCompactionBudget},
};

/// The compactions of a keyspace: one at a time.
#[derive(Debug)]
pub(crate) struct Compactor {
    /// Held during a compaction, a conversion or a bulk load, across its I/O; otherwise as the lock of the flusher.
    /// Taken before that one.
    pub(crate) lock: JobLock,
    /// The background job, which runs the compactions that are due.
    pub(crate) job: CoalescedJob,
    pub(crate) retry: Retry,
    /// Full compactions. Intra-L0 merges stop while one runs.
    pub(crate) full: FullCompactions,
    pub(crate) read_budget: ReadCompactionBudget,
    /// Changed by the thread that holds `lock`.
    pub(crate) cursors: Mutex<CompactionCursors>,
    /// Finished compactions.
    pub(crate) compactions: Counter,
    /// Slices of compactions that were cut up because space was short.
    pub(crate) slices: Counter,
    /// Subcompactions.
    pub(crate) parts: Counter,
    /// CPU time of subcompactions and conversions.
    pub(crate) cpu_time: Arc<CpuTime>,
}

impl Compactor {
    /// No compactions yet; CPU time is measured by `clock`.
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Compactor {
        Compactor {
            lock: JobLock::of(LockRank::CompactionLock),
            job: CoalescedJob::default(),
            retry: Retry::default(),
            full: FullCompactions::default(),
            read_budget: ReadCompactionBudget::default(),
            cursors: Mutex::default(),
            compactions: Counter::default(),
            slices: Counter::default(),
            parts: Counter::default(),
            cpu_time: CpuTime::new(clock),
        }
    }
}

/// The number of full compactions that are in L0 now.
#[derive(Debug, Default)]
pub(crate) struct FullCompactions(AtomicUsize);

impl FullCompactions {
    pub(super) fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}
