//! The work of a phase: its threads claim blocks of operations until the limit is reached or a thread fails.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use super::completions::Completions;
use crate::measure::{
    context::RunContext,
    limit::{Limit, Manner},
    workload::generator::{BLOCK, Position},
};

/// The work, shared by the threads.
pub(super) struct Work<'a> {
    pub(super) bench: &'a RunContext,
    pub(super) manner: Manner,
    pub(super) limit: Limit,
    pub(super) completions: Completions,
    block: u64,
    claimed: AtomicU64,
    stop: AtomicBool,
}

impl<'a> Work<'a> {
    pub(super) fn new(bench: &'a RunContext, manner: Manner, limit: Limit) -> Self {
        let (block, completions) = (block_size(manner, limit), Completions::new(manner.threads));
        let (claimed, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        Work { bench, manner, limit, completions, block, claimed, stop }
    }

    /// Tells all threads to end.
    pub(super) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// The next block of operations for a thread; `None` when the limit is reached.
    pub(super) fn claim(&self, begin: Instant) -> Option<Position> {
        if self.is_stopped() || self.manner.cap.is_some_and(|cap| begin.elapsed() >= cap) {
            return None;
        }
        let first = self.claimed.fetch_add(self.block, Relaxed);
        let (count, progress) = match self.limit {
            Limit::Operations(limit) => (self.block.min(limit.saturating_sub(first)), first as f64 / limit as f64),
            Limit::Time(limit) => (self.block, begin.elapsed().as_secs_f64() / limit.as_secs_f64()),
            Limit::Adapted => (self.block, 0.0),
        };
        (count > 0).then(|| Position { first, count, progress, existing: self.bench.inserts.existing() })
    }

    /// Whether all threads should end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

/// The size of a block: whole batches, and small for short phases, so that the threads end together.
fn block_size(manner: Manner, limit: Limit) -> u64 {
    let batch = manner.batch as u64;
    let fair = match limit {
        Limit::Operations(limit) => limit / (16 * manner.threads as u64),
        Limit::Time(_) | Limit::Adapted => BLOCK,
    };
    (fair.min(BLOCK) / batch).max(1) * batch
}
