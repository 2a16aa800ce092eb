//! The clock algorithm over cache entries: the hand clears the use bit of entries that it passes, and evicts the first
//! that was not used since it passed last.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Weak},
};

use crate::cache::lazy_slot::Evictable;

/// Least entries at which those of dropped tables are searched and removed.
const MIN_ENTRIES_TO_CLEAN: usize = 64;

/// Entries in memory; the next one under the hand is in front.
#[derive(Debug, Default)]
pub(crate) struct EvictionClock {
    entries: VecDeque<Entry>,
    /// With so many entries, those of dropped tables are removed.
    full: usize,
}

/// A cached part of a table, as long as the table is there, and its bytes.
struct Entry {
    part: Weak<dyn Evictable>,
    bytes: usize,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// The entry to evict.
pub(crate) struct Victim {
    pub(crate) part: Arc<dyn Evictable>,
    pub(crate) bytes: usize,
    /// Bytes of the entries that the hand has spared, as they were used.
    pub(crate) spared: usize,
}

impl EvictionClock {
    /// Adds a loaded part.
    pub(crate) fn enter(&mut self, part: Weak<dyn Evictable>, bytes: usize) {
        if self.entries.len() >= self.full.max(MIN_ENTRIES_TO_CLEAN) {
            self.entries.retain(|entry| entry.part.strong_count() > 0);
            self.full = 2 * self.entries.len();
        }
        self.entries.push_back(Entry { part, bytes });
    }

    /// Takes out the entry to evict: the first that is not in use. If all are used again and again, the next one after
    /// two rounds.
    pub(crate) fn take(&mut self) -> Option<Victim> {
        let (mut looks, mut spared) = (2 * self.entries.len(), 0);
        while let Some(entry) = self.entries.pop_front() {
            let Some(part) = entry.part.upgrade() else { continue };
            looks = looks.saturating_sub(1);
            if looks > 0 && part.take_use() {
                spared += entry.bytes;
                self.entries.push_back(entry);
            } else {
                return Some(Victim { part, bytes: entry.bytes, spared });
            }
        }
        None
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Default)]
    struct Fake(AtomicBool);

    impl Fake {
        fn used(&self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    impl Evictable for Fake {
        fn take_use(&self) -> bool {
            self.0.swap(false, Ordering::Relaxed)
        }

        fn evict(&self, then: Box<dyn FnOnce() + Send>) {
            then();
        }
    }

    /// Adds parts whose bytes are their numbers, from 1 on.
    fn clock(parts: &[Arc<Fake>]) -> EvictionClock {
        let mut clock = EvictionClock::default();
        let weak = |part: &Arc<Fake>| -> Weak<dyn Evictable> { Arc::<Fake>::downgrade(part) };
        parts.iter().zip(1..).for_each(|(part, bytes)| clock.enter(weak(part), bytes));
        clock
    }

    fn next(clock: &mut EvictionClock) -> Option<(usize, usize)> {
        clock.take().map(|Victim { bytes, spared, .. }| (bytes, spared))
    }

    #[test]
    fn what_was_used_is_spared_for_a_round() {
        let parts: Vec<Arc<Fake>> = (0..4).map(|_| Arc::default()).collect();
        let mut clock = clock(&parts);
        [&parts[0], &parts[2]].iter().for_each(|part| part.used());
        assert_eq!(next(&mut clock), Some((2, 1)));
        assert_eq!(next(&mut clock), Some((4, 3)));
        assert_eq!((next(&mut clock), next(&mut clock), next(&mut clock)), (Some((1, 0)), Some((3, 0)), None));
    }

    #[test]
    fn one_goes_even_if_all_are_used_and_those_of_no_table_are_forgotten() {
        let mut parts: Vec<Arc<Fake>> = (0..4).map(|_| Arc::default()).collect();
        let mut clock = clock(&parts);
        parts.iter().for_each(|part| part.used());
        assert_eq!(next(&mut clock), Some((1, 10)));
        parts.truncate(1);
        assert_eq!(next(&mut clock), None);
        for _ in 0..10_000 {
            clock.enter(Weak::<Fake>::new(), 1);
        }
        assert!(clock.entries.len() <= MIN_ENTRIES_TO_CLEAN, "{}", clock.entries.len());
    }
}
