//! Reserves blocks for leaf splits, so that an admitted write always finds one (dirty-index.md, "Reserved blocks").

use std::sync::Arc;

use ecotone_substrate::memory::{Component, Memory};
use ecotone_sys::{
    chunk::{Block, Size},
    primitive::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::leaf::{MAX_ENTRIES, UNRESERVED_ENTRIES};

/// Entries, admitted or crowded in their leaves, for each ready block.
const EACH: usize = MAX_ENTRIES - UNRESERVED_ENTRIES;
/// Blocks that stay ready beyond the need: a margin for threads that are admitted while one block is given back.
const SPARE: usize = 8;

/// The ready blocks, and the counts from which their number follows.
#[derive(Debug)]
pub(super) struct LeafReservation {
    memory: Arc<Memory>,
    /// Writes that are admitted: each may insert one entry.
    admitted: AtomicUsize,
    /// Entries above [`UNRESERVED_ENTRIES`], over all leaves.
    crowded: AtomicUsize,
    count: AtomicUsize,
    ready: Mutex<Vec<Block>>,
}

impl LeafReservation {
    pub(super) fn new(memory: &Arc<Memory>) -> LeafReservation {
        let [admitted, crowded, count] = std::array::from_fn(|_| AtomicUsize::new(0));
        LeafReservation { memory: memory.clone(), admitted, crowded, count, ready: Mutex::default() }
    }

    /// The number of blocks that must be ready.
    fn wanted(&self) -> usize {
        // In this order a concurrent insert is counted twice rather than not at all.
        let admitted = self.admitted.load(Ordering::SeqCst);
        1 + (admitted + self.crowded.load(Ordering::SeqCst)).div_ceil(EACH)
    }

    /// Admits a write. `spare` makes another holder return a block to the budget when the budget is empty; false if it
    /// cannot.
    pub(super) fn admit(&self, spare: &dyn Fn() -> bool) -> bool {
        self.admitted.fetch_add(1, Ordering::SeqCst);
        while self.count.load(Ordering::SeqCst) < self.wanted() {
            let lease = || self.memory.lease(Component::DirtyIndex, Size::Frame);
            let Some(block) = lease().or_else(|| spare().then(lease)?) else {
                self.leave();
                return false;
            };
            self.put(block);
        }
        true
    }

    /// Ends an admission.
    pub(super) fn leave(&self) {
        self.admitted.fetch_sub(1, Ordering::SeqCst);
    }

    /// A leaf's crowded entries changed from `before` to `now`.
    pub(super) fn recount(&self, before: usize, now: usize) {
        if now > before {
            self.crowded.fetch_add(now - before, Ordering::SeqCst);
        } else if now < before {
            self.crowded.fetch_sub(before - now, Ordering::SeqCst);
        }
    }

    /// Takes a block for a leaf. The caller reports the drop in crowded entries afterwards.
    pub(super) fn take(&self) -> Block {
        let mut ready = self.ready.lock();
        let block = ready.pop().expect("who is admitted finds a block");
        self.count.store(ready.len(), Ordering::SeqCst);
        block
    }

    /// Returns a block that no leaf needs any more.
    pub(super) fn put(&self, block: Block) {
        let mut ready = self.ready.lock();
        ready.push(block);
        self.count.store(ready.len(), Ordering::SeqCst);
    }

    /// Gives surplus blocks back to the budget.
    pub(super) fn trim(&self) {
        while self.count.load(Ordering::SeqCst) > self.wanted() + SPARE {
            let mut ready = self.ready.lock();
            let block = ready.pop();
            self.count.store(ready.len(), Ordering::SeqCst);
            drop(ready);
            drop(block);
        }
    }

    /// Bytes of the blocks that are ready.
    pub(super) fn bytes(&self) -> usize {
        self.count.load(Ordering::SeqCst) * Size::Frame.bytes()
    }
}
