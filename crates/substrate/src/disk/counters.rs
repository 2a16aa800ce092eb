//! Counters of device requests.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::storage::{Counters, FileKind, Op};

/// [`Counters`] that many threads update, by kind of file. Each number is exact, but a reading may fall between the
/// updates of two of them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    kinds: [OfKind; FileKind::ALL.len()],
}

#[derive(Debug, Default)]
struct OfKind {
    reads: AtomicU64,
    writes: AtomicU64,
    read_bytes: AtomicU64,
    write_bytes: AtomicU64,
    syncs: AtomicU64,
}

impl Tally {
    /// Counts a request of `bytes`.
    pub(super) fn request(&self, kind: FileKind, op: Op, bytes: usize) {
        let of = &self.kinds[kind as usize];
        let (requests, total) = match op {
            Op::Read => (&of.reads, &of.read_bytes),
            Op::Write => (&of.writes, &of.write_bytes),
        };
        requests.fetch_add(1, Relaxed);
        total.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts a sync.
    pub(super) fn sync(&self, kind: FileKind) {
        self.kinds[kind as usize].syncs.fetch_add(1, Relaxed);
    }

    /// The numbers so far.
    pub(super) fn read(&self, kind: FileKind) -> Counters {
        let of = &self.kinds[kind as usize];
        Counters {
            reads: of.reads.load(Relaxed),
            writes: of.writes.load(Relaxed),
            read_bytes: of.read_bytes.load(Relaxed),
            write_bytes: of.write_bytes.load(Relaxed),
            syncs: of.syncs.load(Relaxed),
        }
    }
}
