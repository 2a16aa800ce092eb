//! Counting what goes to the device.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::storage::{Counters, Op};

/// [`Counters`] that many threads count in. They are for people: each number is exact, but a reading may fall between two of them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    reads: AtomicU64,
    writes: AtomicU64,
    read_bytes: AtomicU64,
    write_bytes: AtomicU64,
    syncs: AtomicU64,
}

impl Tally {
    /// Counts a request of `bytes`.
    pub(super) fn request(&self, op: Op, bytes: usize) {
        let (requests, total) = match op {
            Op::Read => (&self.reads, &self.read_bytes),
            Op::Write => (&self.writes, &self.write_bytes),
        };
        requests.fetch_add(1, Relaxed);
        total.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts a sync.
    pub(super) fn sync(&self) {
        self.syncs.fetch_add(1, Relaxed);
    }

    /// The numbers so far.
    pub(super) fn read(&self) -> Counters {
        Counters {
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            write_bytes: self.write_bytes.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
        }
    }
}
