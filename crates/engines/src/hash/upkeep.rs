//! What the background does for the index: more buckets when it is crowded, and entries free whose chains have left the log.

use ecotone_sys::{epoch, primitive::thread};

use super::{Hash, log::Address};

impl Hash {
    /// Gives the index more buckets while it is crowded and there is memory, unless another thread does.
    pub(crate) fn grow_index(&self) {
        epoch::assert_unpinned();
        while self.table.is_crowded() && self.table.grow(|| self.room.lease().ok()) {}
    }

    /// Frees the entries of what was truncated below `until`, and sweeps the links of copies, as soon as everybody knows of that (decision 10, invariant 21).
    pub(crate) fn clear_entries(&self, until: Address) {
        while self.log.bounds().clearable() < until {
            self.domain.drain();
            thread::yield_now();
        }
        self.table.sweep(until);
        self.sweep_copies();
    }
}
