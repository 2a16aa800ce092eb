//! Tracks which records exist while threads insert new ones.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Assigns the numbers of new records, and knows the bound below which all are acknowledged.
#[derive(Debug)]
pub(crate) struct Inserts {
    next: AtomicU64,
    /// For each thread the smallest number that it is inserting, or `IDLE`.
    pending: Box<[AtomicU64]>,
    limit: u64,
}

const IDLE: u64 = u64::MAX;

impl Inserts {
    /// Records below `first` exist; numbers below `limit` have keys.
    pub(crate) fn new(first: u64, limit: u64, threads: usize) -> Self {
        Inserts { next: AtomicU64::new(first), pending: (0..threads).map(|_| AtomicU64::new(IDLE)).collect(), limit }
    }

    /// The number of a new record for this thread; `None` when the keys are used up.
    pub(crate) fn claim(&self, thread: usize) -> Option<u64> {
        let pending = &self.pending[thread];
        if pending.load(SeqCst) == IDLE {
            // Announced before the claim, so that no reader takes the new number for acknowledged in between.
            pending.store(self.next.load(SeqCst), SeqCst);
        }
        let number = self.next.fetch_add(1, SeqCst);
        (number < self.limit).then_some(number)
    }

    /// Marks everything that this thread claimed as acknowledged.
    pub(crate) fn acknowledge(&self, thread: usize) {
        self.pending[thread].store(IDLE, SeqCst);
    }

    /// Every record below this exists.
    pub(crate) fn existing(&self) -> u64 {
        // First the next number, then the threads: a claim that is missed below was made after this load, hence at or
        // above it.
        let next = self.next.load(SeqCst).min(self.limit);
        self.pending.iter().fold(next, |least, pending| least.min(pending.load(SeqCst)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_holds_the_bound_down() {
        let inserts = Inserts::new(10, 13, 2);
        assert_eq!((inserts.claim(0), inserts.claim(1)), (Some(10), Some(11)));
        inserts.acknowledge(1);
        assert_eq!(inserts.existing(), 10);
        inserts.acknowledge(0);
        assert_eq!(inserts.existing(), 12);
        assert_eq!((inserts.claim(0), inserts.claim(0), inserts.claim(1)), (Some(12), None, None));
        inserts.acknowledge(0);
        inserts.acknowledge(1);
        assert_eq!(inserts.existing(), 13);
    }
}
