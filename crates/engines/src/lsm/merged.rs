//! The records of several sources as one: of each key that of the youngest counts.

use std::cmp::Ordering;

use ecotone_substrate::{Result, model::digest};

use crate::rest::Direction;

/// Records in the order of their keys, or the other way round.
pub(super) trait Source {
    /// The key of the present record; none behind the last.
    fn key(&self) -> Option<&[u8]>;
    /// Goes to the next record.
    fn step(&mut self) -> Result<()>;
}

/// Sources, each on its next record.
pub(super) struct Merged<S> {
    /// From young to old.
    sources: Vec<S>,
    /// Of each the digest of its next key, the lower the sooner it comes. They are looked at one after the other: there are few, and mostly they decide.
    ranks: Vec<u64>,
    direction: Direction,
    /// Bytes that all keys have in common.
    skip: usize,
    /// The one whose record comes next.
    first: usize,
    /// Records that younger ones hid.
    hidden: u64,
}

impl<S: Source> Merged<S> {
    /// Of these, from young to old, whose keys have the first `skip` bytes in common.
    pub(super) fn new(sources: Vec<S>, direction: Direction, skip: usize) -> Merged<S> {
        let mut merged = Merged { ranks: vec![0; sources.len()], sources, direction, skip, first: 0, hidden: 0 };
        (0..merged.sources.len()).for_each(|number| merged.rank(number));
        merged.choose();
        merged
    }

    /// All of them, from young to old.
    pub(super) fn sources(&self) -> &[S] {
        &self.sources
    }

    /// Records of older sources that it passed along with those of their keys.
    pub(super) fn hidden(&self) -> u64 {
        self.hidden
    }

    /// The source whose record comes next, if there is one.
    #[inline]
    pub(super) fn first(&self) -> Option<&S> {
        self.sources.get(self.first).filter(|source| source.key().is_some())
    }

    /// Leaves the next record, and all others of its key.
    pub(super) fn pass(&mut self) -> Result<()> {
        // No younger source has the key.
        for older in self.first + 1..self.sources.len() {
            if self.ranks[older] == self.ranks[self.first] && self.order(older, self.first).is_eq() {
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

    /// Leaves the next record alone: the next older one of its key comes then, if there is one.
    pub(super) fn skip(&mut self) -> Result<()> {
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

    /// How the next keys of two sources follow each other. A source without one comes last.
    fn order(&self, one: usize, other: usize) -> Ordering {
        match (self.sources[one].key(), self.sources[other].key()) {
            (Some(one), Some(other)) => self.direction.order(one, other),
            (one, other) => one.is_none().cmp(&other.is_none()),
        }
    }
}
