//! Detects a memtable whose writes mostly overwrite keys that it has. If it were flushed, the next one would fill with
//! the same keys, so it may grow instead (lsm.md, "Memtable").

use ecotone_substrate::metrics::Counter;
use ecotone_sys::primitive::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

/// Overwrites prevail if there are more than this many writes for each new key.
const WRITES_PER_INSERT: u64 = 5;

/// Counts writes, and those of them that insert a new key.
#[derive(Debug, Default)]
pub(super) struct Overwrites {
    writes: Counter,
    inserts: Counter,
    /// Both counts when the current slab began.
    before: Mutex<(u64, u64)>,
    prevail: AtomicBool,
}

impl Overwrites {
    /// Counts a written record. `is_new` tells whether its key is new.
    pub(super) fn count(&self, is_new: bool) {
        if is_new {
            self.inserts.increment();
        }
        self.writes.increment();
    }

    /// Number of written records.
    pub(super) fn writes(&self) -> u64 {
        self.writes.get()
    }

    /// Called when a slab is full: judges the writes since the previous slab.
    pub(super) fn end_slab(&self) {
        let now = (self.writes.get(), self.inserts.get());
        let before = std::mem::replace(&mut *self.before.lock(), now);
        let [writes, inserts] = [now.0.wrapping_sub(before.0), now.1.wrapping_sub(before.1)];
        self.prevail.store(writes > WRITES_PER_INSERT * inserts, Ordering::Relaxed);
    }

    /// Whether nearly all writes that filled the last slab found their keys in the memtable.
    pub(super) fn prevail(&self) -> bool {
        self.prevail.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn they_prevail_where_of_a_slab_of_records_few_have_new_keys() {
        let overwrites = Overwrites::default();
        let slab = |writes, inserts| {
            (0..writes).for_each(|number| overwrites.count(number < inserts));
            overwrites.end_slab();
            overwrites.prevail()
        };
        assert_eq!(
            [(0, 0), (100, 100), (1000, 100), (500, 100), (501, 100), (100, 60)].map(|(w, i)| slab(w, i)),
            [false, false, true, false, true, false]
        );
        assert_eq!(overwrites.writes(), 2201);
    }
}
