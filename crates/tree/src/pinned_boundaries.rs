//! Pinned boundaries: fences that reorganisation keeps and does not merge across. They are the bounds of the adaptive
//! engine's paged ranges (adaptive-protocol.md, invariant 16).

use std::collections::BTreeSet;

use ecotone_sys::primitive::RwLock;

/// The pinned fences. They are in memory only.
#[derive(Debug, Default)]
pub(crate) struct PinnedBoundaries {
    fences: RwLock<BTreeSet<Vec<u8>>>,
}

impl PinnedBoundaries {
    /// Pins a key that is a fence, or becomes one before any thread relies on it.
    pub(crate) fn add(&self, fence: &[u8]) {
        self.fences.write().insert(fence.to_vec());
    }

    /// Replaces all pinned fences by these.
    pub(crate) fn set(&self, fences: BTreeSet<Vec<u8>>) {
        *self.fences.write() = fences;
    }

    /// Whether a fence is pinned.
    pub(crate) fn has(&self, fence: &[u8]) -> bool {
        self.fences.read().contains(fence)
    }
}
