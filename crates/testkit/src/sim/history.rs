//! The versions of a value since it was last made durable, and the version that a crash keeps.

use rand::{RngExt, rngs::SmallRng};

/// How a machine or a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process died and the kernel lives: everything handed to the kernel is there, and unsynced data is still
    /// unsynced.
    KeepAll,
    /// Power was lost, and nothing had left the caches since the last sync.
    DropAll,
    /// Power was lost; this seed decides whether each unsynced part is kept, dropped or torn.
    Random(u64),
}

/// The most versions remembered of one value. The middle versions are forgotten first: a crash then has fewer outcomes,
/// never a wrong one.
const LONGEST: usize = 16;

/// A durable value and the unsynced values after it. Never empty.
#[derive(Debug, Clone)]
pub(super) struct History<T> {
    versions: Vec<T>,
}

impl<T: Clone> History<T> {
    pub(super) fn new(durable: T) -> Self {
        History { versions: vec![durable] }
    }

    /// The value that the running system sees.
    pub(super) fn now(&self) -> &T {
        self.versions.last().expect("a history is never empty")
    }

    pub(super) fn push(&mut self, value: T) {
        self.versions.push(value);
        if self.versions.len() > LONGEST {
            self.versions.remove(LONGEST / 2);
        }
    }

    /// Makes the present value the durable one.
    pub(super) fn settle(&mut self) {
        self.versions.drain(..self.versions.len() - 1);
    }

    /// The value found after a loss of power.
    pub(super) fn survivor(&self, random: Option<&mut SmallRng>) -> &T {
        &self.versions[random.map_or(0, |random| random.random_range(0..self.versions.len()))]
    }

    /// Changes every version in place.
    pub(super) fn change(&mut self, change: impl FnMut(&mut T)) {
        self.versions.iter_mut().for_each(change);
    }

    /// The same history with every value mapped.
    pub(super) fn map<U>(&self, change: impl FnMut(&T) -> U) -> History<U> {
        History { versions: self.versions.iter().map(change).collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn any_value_since_the_last_sync_may_survive_and_none_before() {
        let mut history = History::new(0);
        history.push(1);
        history.settle();
        (2..5).for_each(|value| history.push(value));
        let mut random = SmallRng::seed_from_u64(1);
        let seen: BTreeSet<i32> = (0..200).map(|_| *history.survivor(Some(&mut random))).collect();
        assert_eq!(seen, BTreeSet::from([1, 2, 3, 4]));
        assert_eq!((*history.survivor(None), *history.now()), (1, 4));
    }

    #[test]
    fn a_long_history_keeps_both_ends() {
        let mut history = History::new(0);
        (1..1000).for_each(|value| history.push(value));
        assert_eq!(history.versions.len(), LONGEST);
        assert_eq!((*history.survivor(None), *history.now()), (0, 999));
    }
}
