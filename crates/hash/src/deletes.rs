//! Estimates the number of tombstones in the hot log: the deletes written since its beginning was its end.

use std::collections::VecDeque;

use ecotone_sys::primitive::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use super::log::FRAME;

/// Counts deletes, with marks at ends of the log.
#[derive(Debug, Default)]
pub(super) struct TombstoneCounter {
    all: AtomicU64,
    /// Ends of the log, in order, each with the number of deletes written before.
    marks: Mutex<VecDeque<(u64, u64)>>,
}

impl TombstoneCounter {
    /// Records a write.
    #[inline]
    pub(super) fn count(&self, is_delete: bool) {
        if is_delete {
            self.all.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records the current bounds of the log.
    pub(super) fn mark(&self, begin: u64, end: u64) {
        let mut marks = self.marks.lock();
        while marks.get(1).is_some_and(|(at, _)| *at <= begin) {
            marks.pop_front();
        }
        if marks.back().is_none_or(|(at, _)| at + FRAME <= end) {
            marks.push_back((end, self.all.load(Ordering::Relaxed)));
        }
    }

    /// The deletes in a log that begins at `begin`. A delete counts even if its key was written again.
    pub(super) fn since(&self, begin: u64) -> u64 {
        let marks = self.marks.lock();
        let before = marks.iter().take_while(|(at, _)| *at <= begin).last().map_or(0, |(_, before)| *before);
        self.all.load(Ordering::Relaxed) - before
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn deletes_leave_with_what_was_the_log_when_they_were_written() {
        let deletes = TombstoneCounter::default();
        let write = |count| (0..count).for_each(|_| deletes.count(true));
        write(10);
        deletes.count(false);
        deletes.mark(0, 4 * FRAME);
        write(5);
        deletes.mark(0, 4 * FRAME + 1);
        deletes.mark(0, 8 * FRAME);
        write(1);
        assert_eq!([0, 4, 5, 8].map(|frames| deletes.since(frames * FRAME)), [16, 6, 6, 1]);
        deletes.mark(8 * FRAME, 9 * FRAME);
        assert_eq!(deletes.since(8 * FRAME), 1);
        assert_eq!((deletes.since(9 * FRAME), deletes.marks.lock().len()), (0, 2));
    }
}
