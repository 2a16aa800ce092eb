//! Measures how many of the records being written out are hot; the dirty limit depends on it.

use std::sync::atomic::Ordering;

use ecotone_sys::primitive::atomic::AtomicUsize;

/// The denominator of the hot part.
pub(super) const WHOLE: usize = 256;

/// Bytes of records written out lately, and of those that had been accessed again since they came.
#[derive(Debug, Default)]
pub(super) struct ReaccessStats {
    written: AtomicUsize,
    hot: AtomicUsize,
}

impl ReaccessStats {
    pub(super) fn note(&self, bytes: usize, hot: bool) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
        if hot {
            self.hot.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// The hot part, in units of 1/[`WHOLE`], of the last `window` bytes or half as many; bytes not written out yet
    /// count as cold.
    pub(super) fn part(&self, window: usize) -> usize {
        let (written, hot) = (self.written.load(Ordering::Relaxed), self.hot.load(Ordering::Relaxed));
        if written > window {
            self.written.fetch_sub(written / 2, Ordering::Relaxed);
            self.hot.fetch_sub(hot / 2, Ordering::Relaxed);
        }
        (hot * WHOLE).checked_div(written.max(window / 2)).unwrap_or(0).min(WHOLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_follows_what_was_written_lately() {
        let heat = ReaccessStats::default();
        assert_eq!((heat.part(0), heat.part(1000)), (0, 0));
        (0..5).for_each(|_| heat.note(50, true));
        assert_eq!(heat.part(1000), WHOLE / 2, "as much again may be cold");
        (0..5).for_each(|_| heat.note(50, true));
        assert_eq!(heat.part(1000), WHOLE);
        let after = |bytes: usize| {
            (0..bytes / 10).for_each(|_| {
                heat.note(10, false);
                heat.part(1000);
            });
            heat.part(1000)
        };
        assert!((WHOLE / 3..WHOLE / 2 + 2).contains(&after(500)), "a half was cold");
        assert!(after(4000) < WHOLE / 16, "what was hot is forgotten");
    }
}
