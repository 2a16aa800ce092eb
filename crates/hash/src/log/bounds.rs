//! The positions of the hot log and how they rise (hash-protocol.md, invariants 11, 13 and 21).

use std::sync::Arc;

use ecotone_sys::{
    epoch::Domain,
    primitive::atomic::{AtomicU64, Ordering},
};

use super::address::Address;

/// A position that only rises.
#[derive(Debug)]
struct Position(AtomicU64);

impl Position {
    fn new(at: Address) -> Position {
        Position(AtomicU64::new(at.get()))
    }

    fn get(&self) -> Address {
        Address::new(self.0.load(Ordering::Acquire))
    }

    fn raise(&self, to: Address) {
        self.0.fetch_max(to.get(), Ordering::AcqRel);
    }
}

/// CLEARABLE ≤ BEGIN ≤ HEAD ≤ FLUSHED ≤ SAFE ≤ READ_ONLY ≤ TAIL, and BEGIN ≤ DURABLE ≤ FLUSHED. If BEGIN passes the
/// others, they follow at once.
#[derive(Debug)]
pub(crate) struct Bounds {
    clearable: Position,
    begin: Position,
    head: Position,
    durable: Position,
    flushed: Position,
    safe: Position,
    read_only: Position,
}

impl Bounds {
    /// The positions of a log that is durable from `begin` to `end` and in memory from `head` on.
    pub(super) fn new(begin: Address, head: Address, end: Address) -> Arc<Bounds> {
        let [clearable, begin] = std::array::from_fn(|_| Position::new(begin));
        let [durable, flushed, safe, read_only] = std::array::from_fn(|_| Position::new(end));
        Arc::new(Bounds { clearable, begin, head: Position::new(head), durable, flushed, safe, read_only })
    }

    /// Index entries with addresses below may be cleared: every pinned thread sees them below BEGIN.
    pub(crate) fn clearable(&self) -> Address {
        self.clearable.get()
    }

    /// Records below are not in the log any more.
    pub(crate) fn begin(&self) -> Address {
        self.begin.get()
    }

    /// Frames wholly below have left memory.
    pub(crate) fn head(&self) -> Address {
        self.head.get()
    }

    /// Pages below survive a crash, as soon as checkpoint or manifest record say so too.
    pub(crate) fn durable(&self) -> Address {
        self.durable.get()
    }

    /// Pages below are in segments.
    pub(crate) fn flushed(&self) -> Address {
        self.flushed.get()
    }

    /// Every record below is live, sealed, or invalid for ever. Only a seal may be added.
    pub(crate) fn safe(&self) -> Address {
        self.safe.get()
    }

    /// No in-place change begins below. A change reads the position under its own pin.
    pub(crate) fn read_only(&self) -> Address {
        self.read_only.get()
    }

    /// Raises READ_ONLY. SAFE follows when all threads have unpinned that may still use the old value.
    pub(super) fn raise_read_only(self: &Arc<Self>, to: Address, domain: &Domain) {
        self.read_only.raise(to);
        let bounds = self.clone();
        domain.bump(move || bounds.safe.raise(to));
    }

    /// Raises FLUSHED, not above SAFE.
    pub(super) fn raise_flushed(&self, to: Address) {
        assert!(to <= self.safe(), "what may still change is not written");
        self.flushed.raise(to);
    }

    /// Raises DURABLE, not above FLUSHED.
    pub(super) fn raise_durable(&self, to: Address) {
        assert!(to <= self.flushed(), "what is not written is not durable");
        self.durable.raise(to);
    }

    /// Raises HEAD, not above FLUSHED.
    pub(super) fn raise_head(&self, to: Address) {
        assert!(to <= self.flushed(), "what is in no file stays in memory");
        self.head.raise(to);
    }

    /// Raises BEGIN, not above SAFE. CLEARABLE follows when all threads have unpinned that may still use the old value.
    /// Records below BEGIN need not be in any file.
    pub(super) fn raise_begin(self: &Arc<Self>, to: Address, domain: &Domain) {
        assert!(to <= self.safe(), "what may still change stays in the log");
        // BEGIN first: a thread that misses a frame, or finds a page that was never written, sees that BEGIN has passed
        // it.
        self.begin.raise(to);
        self.flushed.raise(to);
        self.durable.raise(to);
        let bounds = self.clone();
        domain.bump(move || bounds.clearable.raise(to));
    }
}
