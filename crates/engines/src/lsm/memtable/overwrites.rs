//! Whether a memtable takes few new keys any more. One that is flushed then is filled with the same keys again, so it
//! may grow (decision 11, "Size").

use ecotone_substrate::metrics::Counter;
use ecotone_sys::primitive::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

/// Writes for each that comes with a new key, from which on few do.
const FEW: u64 = 5;

/// How many writes find their keys there.
#[derive(Debug, Default)]
pub(super) struct Overwrites {
    writes: Counter,
    inserts: Counter,
    /// Both when the present slab began.
    before: Mutex<(u64, u64)>,
    prevail: AtomicBool,
}

impl Overwrites {
    /// A record was written, perhaps with a new key.
    pub(super) fn count(&self, is_new: bool) {
        if is_new {
            self.inserts.increment();
        }
        self.writes.increment();
    }

    /// Records that were written.
    pub(super) fn writes(&self) -> u64 {
        self.writes.get()
    }

    /// A slab is full, with which what was written since the last one is judged.
    pub(super) fn end_slab(&self) {
        let now = (self.writes.get(), self.inserts.get());
        let before = std::mem::replace(&mut *self.before.lock(), now);
        let [writes, inserts] = [now.0.wrapping_sub(before.0), now.1.wrapping_sub(before.1)];
        self.prevail.store(writes > FEW * inserts, Ordering::Relaxed);
    }

    /// Whether all but few of those that the last slab is full of found their keys there.
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
