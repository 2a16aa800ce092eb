//! Flushing: an immutable memtable becomes a run of L0. Memtables are flushed from the oldest on. Some of their records
//! may go to the page tier instead (lsm.md, "Flush").

pub(crate) mod flushed_to_pages;
pub(crate) mod job;
pub(crate) mod raise_floors;
pub(crate) mod run_builder;
pub(crate) mod to_pages;

use ecotone_engine::job_lock::JobLock;
use ecotone_substrate::{coalesced_job::CoalescedJob, lock_rank::LockRank, metrics::Counter, retry::Retry};

/// The flushes of a keyspace: one at a time.
#[derive(Debug)]
pub(crate) struct Flusher {
    /// Held during a flush, across its I/O. A thread that has waited for the lock checks again whether its flush is
    /// still needed. The holder schedules the background job when it releases the lock, as that job only tries the lock
    /// (compaction-pace.md, invariants 14 and 17).
    pub(crate) lock: JobLock,
    /// The background job, which flushes immutable memtables.
    pub(crate) job: CoalescedJob,
    pub(crate) retry: Retry,
    /// Memtables that were flushed.
    pub(crate) flushes: Counter,
    /// Records that flushes wrote to the page tier, and how often such a flush was given up.
    pub(crate) records_to_pages: Counter,
    pub(crate) page_flushes_given_up: Counter,
}

impl Default for Flusher {
    fn default() -> Flusher {
        Flusher {
            lock: JobLock::of(LockRank::FlushLock),
            job: CoalescedJob::default(),
            retry: Retry::default(),
            flushes: Counter::default(),
            records_to_pages: Counter::default(),
            page_flushes_given_up: Counter::default(),
        }
    }
}
