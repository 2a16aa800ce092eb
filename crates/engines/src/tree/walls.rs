//! Fences that reorganisation does not cross: bounds of what the adaptive engine covers (decision 15, invariant 16).

use std::collections::BTreeSet;

use ecotone_sys::primitive::RwLock;

/// They are in memory alone.
#[derive(Debug, Default)]
pub(crate) struct Walls {
    fences: RwLock<BTreeSet<Vec<u8>>>,
}

impl Walls {
    /// Makes a wall of a key that is a fence, or becomes one before anybody relies on it.
    pub(crate) fn add(&self, fence: &[u8]) {
        self.fences.write().insert(fence.to_vec());
    }

    /// Has these, and no others any more.
    pub(crate) fn set(&self, fences: BTreeSet<Vec<u8>>) {
        *self.fences.write() = fences;
    }

    /// Whether a fence is one.
    pub(crate) fn has(&self, fence: &[u8]) -> bool {
        self.fences.read().contains(fence)
    }
}
