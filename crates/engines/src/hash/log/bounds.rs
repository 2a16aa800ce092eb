//! The positions of the hot log and how they rise (decision 10, invariants 11, 13 and 21).

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

/// CLEARABLE ≤ BEGIN ≤ HEAD ≤ SAFE ≤ READ_ONLY ≤ TAIL.
#[derive(Debug)]
pub(crate) struct Bounds {
    clearable: Position,
    begin: Position,
    head: Position,
    safe: Position,
    read_only: Position,
}

impl Bounds {
    /// The positions of a log that begins and ends here.
    pub(super) fn new(at: Address) -> Arc<Bounds> {
        let [clearable, begin, head, safe, read_only] = std::array::from_fn(|_| Position::new(at));
        Arc::new(Bounds { clearable, begin, head, safe, read_only })
    }

    /// Entries of addresses below may be cleared: all who are pinned see them below BEGIN.
    pub(crate) fn clearable(&self) -> Address {
        self.clearable.get()
    }

    /// What lies below is not in the log any more.
    pub(crate) fn begin(&self) -> Address {
        self.begin.get()
    }

    /// Frames wholly below have left memory.
    pub(crate) fn head(&self) -> Address {
        self.head.get()
    }

    /// Below, every record is live, sealed, or invalid for ever, and only a seal may be added.
    pub(crate) fn safe(&self) -> Address {
        self.safe.get()
    }

    /// Below, no change in place begins. To be read under the pin of the change.
    pub(crate) fn read_only(&self) -> Address {
        self.read_only.get()
    }

    /// Raises READ_ONLY, and SAFE when all are unpinned who may still go by the old one.
    pub(super) fn raise_read_only(self: &Arc<Self>, to: Address, domain: &Domain) {
        self.read_only.raise(to);
        let bounds = self.clone();
        domain.bump(move || bounds.safe.raise(to));
    }

    /// Raises HEAD, not above SAFE.
    pub(super) fn raise_head(&self, to: Address) {
        assert!(to <= self.safe(), "what may still change stays in memory");
        self.head.raise(to);
    }

    /// Raises BEGIN, not above HEAD, and CLEARABLE when all are unpinned who may still go by the old one.
    pub(super) fn raise_begin(self: &Arc<Self>, to: Address, domain: &Domain) {
        assert!(to <= self.head(), "frames go before");
        self.begin.raise(to);
        let bounds = self.clone();
        domain.bump(move || bounds.clearable.raise(to));
    }
}
