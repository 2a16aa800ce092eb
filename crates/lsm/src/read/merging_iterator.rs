//! The merging iterator: several sorted sources as one. Of each key only the record of the youngest source is returned;
//! the others are hidden.

use std::cmp::Ordering;

use ecotone_engine::remaining_range::Direction;
use ecotone_substrate::{Result, model::digest};

/// Records in ascending or descending order of their keys.
pub(crate) trait RecordIterator {
    /// The key of the current record; `None` behind the last.
    fn key(&self) -> Option<&[u8]>;
    /// Moves to the next record.
    fn step(&mut self) -> Result<()>;
}

/// Sorted sources, each on its next record.
pub(crate) struct MergingIterator<S> {
    /// From young to old.
    sources: Vec<S>,
    /// The digest of each source's next key; a lower one comes sooner. They are searched linearly: there are few
    /// sources, and the digests decide mostly.
    ranks: Vec<u64>,
    direction: Direction,
    /// Length of the common prefix of all keys.
    skip: usize,
    /// The source whose record comes next.
    first: usize,
    /// Records that younger ones have hidden.
    hidden: u64,
}

impl<S: RecordIterator> MergingIterator<S> {
    /// Merges sources, from young to old, whose keys have the first `skip` bytes in common.
    pub(crate) fn new(sources: Vec<S>, direction: Direction, skip: usize) -> MergingIterator<S> {
        let mut merged =
            MergingIterator { ranks: vec![0; sources.len()], sources, direction, skip, first: 0, hidden: 0 };
        (0..merged.sources.len()).for_each(|number| merged.rank(number));
        merged.choose();
        merged
    }

    /// All sources, from young to old.
    pub(crate) fn sources(&self) -> &[S] {
        &self.sources
    }

    /// Records of older sources that were passed over with those of the same keys.
    pub(crate) fn hidden(&self) -> u64 {
        self.hidden
    }

    /// The source whose record comes next, if there is one.
    #[inline]
    pub(crate) fn first(&self) -> Option<&S> {
        self.sources.get(self.first).filter(|source| source.key().is_some())
    }

    /// Passes the next record, and all older ones of its key.
    pub(crate) fn pass(&mut self) -> Result<()> {
        self.pass_with(|_| ())
    }

    /// The same. Calls `hide` with the sources of the older records, from young to old.
    pub(crate) fn pass_with(&mut self, mut hide: impl FnMut(&S)) -> Result<()> {
        // No younger source has the key.
        for older in self.first + 1..self.sources.len() {
            if self.ranks[older] == self.ranks[self.first] && self.order(older, self.first).is_eq() {
                hide(&self.sources[older]);
                self.step(older)?;
                self.hidden += 1;
            }
        }
        if self.first < self.sources.len() {
            self.step(self.first)?;
        }
        self.choose();
        Ok(())
    }

    /// Passes the next record only: the next older one of its key comes then, if there is one.
    pub(crate) fn skip(&mut self) -> Result<()> {
        if self.first < self.sources.len() {
            self.step(self.first)?;
        }
        self.choose();
        Ok(())
    }

    fn step(&mut self, number: usize) -> Result<()> {
        self.sources[number].step()?;
        self.rank(number);
        Ok(())
    }

    fn rank(&mut self, number: usize) {
        let key = self.sources[number].key();
        self.ranks[number] = key.map_or(u64::MAX, |key| match self.direction {
            Direction::Up => digest(key, self.skip),
            Direction::Down => !digest(key, self.skip),
        });
    }

    fn choose(&mut self) {
        let mut first = 0;
        for other in 1..self.sources.len() {
            let order = self.ranks[other].cmp(&self.ranks[first]);
            if order.then_with(|| self.order(other, first)).is_lt() {
                first = other;
            }
        }
        self.first = first;
    }

    /// The order of the next keys of two sources. A source at its end comes last.
    fn order(&self, one: usize, other: usize) -> Ordering {
        match (self.sources[one].key(), self.sources[other].key()) {
            (Some(one), Some(other)) => self.direction.order(one, other),
            (one, other) => one.is_none().cmp(&other.is_none()),
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::collections::BTreeMap;

    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    use super::*;

    /// Keys of a source, the next one last.
    struct Keys(Vec<Vec<u8>>);

    impl RecordIterator for Keys {
        fn key(&self) -> Option<&[u8]> {
            self.0.last().map(Vec::as_slice)
        }

        fn step(&mut self) -> Result<()> {
            self.0.pop();
            Ok(())
        }
    }

    /// Random keys, some of which several sources have.
    #[test]
    fn of_each_key_the_youngest_counts_and_the_others_are_hidden() {
        let mut random = SmallRng::seed_from_u64(1);
        for direction in [Direction::Up, Direction::Down] {
            for sources in 0..6 {
                let mut youngest = BTreeMap::new();
                let mut of_source = |number: usize| {
                    let mut keys: Vec<_> =
                        (0..40_u8).filter(|_| random.random_bool(0.5)).map(|key| vec![b'k', key]).collect();
                    keys.iter().for_each(|key| _ = youngest.entry(key.clone()).or_insert(number));
                    if direction == Direction::Up {
                        keys.reverse();
                    }
                    Keys(keys)
                };
                let all: Vec<_> = (0..sources).map(&mut of_source).collect();
                let records: usize = all.iter().map(|keys| keys.0.len()).sum();
                let mut merged = MergingIterator::new(all, direction, 1);
                let mut given = Vec::new();
                while let Some(key) = merged.first().and_then(RecordIterator::key) {
                    given.push((key.to_vec(), merged.first));
                    merged.pass().unwrap();
                }
                let mut right: Vec<_> = youngest.into_iter().collect();
                if direction == Direction::Down {
                    right.reverse();
                }
                assert_eq!(merged.hidden() as usize, records - right.len());
                assert_eq!(given, right);
            }
        }
    }
}
