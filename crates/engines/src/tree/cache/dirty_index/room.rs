//! Blocks for leaves that will be split: whoever was admitted finds one (`docs/design/dirty-index.md`, "Room").

use std::sync::Arc;

use ecotone_substrate::memory::{Component, Memory};
use ecotone_sys::{
    chunk::{Block, Size},
    primitive::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::leaf::{FEW, MOST};

/// Entries that are admitted, or crowd their leaves, for each block that is ready.
const EACH: usize = MOST - FEW;
/// Blocks that stay ready beyond what is needed. More threads than there are may be admitted while one is given back.
const SPARE: usize = 8;

/// Blocks that are ready, and what they are for.
#[derive(Debug)]
pub(super) struct Room {
    memory: Arc<Memory>,
    /// Writes that are admitted: each may make one entry.
    admitted: AtomicUsize,
    /// Entries above [`FEW`] of all leaves.
    crowded: AtomicUsize,
    count: AtomicUsize,
    ready: Mutex<Vec<Block>>,
}

impl Room {
    pub(super) fn new(memory: &Arc<Memory>) -> Room {
        let [admitted, crowded, count] = std::array::from_fn(|_| AtomicUsize::new(0));
        Room { memory: memory.clone(), admitted, crowded, count, ready: Mutex::default() }
    }

    /// Blocks that are to be ready.
    fn wanted(&self) -> usize {
        // In this order an entry that is being made counts twice rather than not at all.
        let admitted = self.admitted.load(Ordering::SeqCst);
        1 + (admitted + self.crowded.load(Ordering::SeqCst)).div_ceil(EACH)
    }

    /// Admits a write. `spare` has a block given back to the budget when that has none; false if it cannot.
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

    /// The end of what was admitted.
    pub(super) fn leave(&self) {
        self.admitted.fetch_sub(1, Ordering::SeqCst);
    }

    /// A leaf with this many crowded entries has that many now.
    pub(super) fn recount(&self, before: usize, now: usize) {
        if now > before {
            self.crowded.fetch_add(now - before, Ordering::SeqCst);
        } else if now < before {
            self.crowded.fetch_sub(before - now, Ordering::SeqCst);
        }
    }

    /// A block for a leaf. Entries that are not crowded any more by that are told afterwards.
    pub(super) fn take(&self) -> Block {
        let mut ready = self.ready.lock();
        let block = ready.pop().expect("who is admitted finds a block");
        self.count.store(ready.len(), Ordering::SeqCst);
        block
    }

    /// A block that no leaf needs any more.
    pub(super) fn put(&self, block: Block) {
        let mut ready = self.ready.lock();
        ready.push(block);
        self.count.store(ready.len(), Ordering::SeqCst);
    }

    /// Gives back what is too much.
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
