//! Which records end in a job: tombstones that hide nothing, and what does not count (decision 12, invariant 14;
//! decision 15, invariants 1 and 14).

use std::sync::Arc;

use ecotone_substrate::{bug, table::File};

use crate::lsm::{
    clearing::Span,
    structure::{Cover, Covers, Place},
    version::{Ranged, Version},
};

/// What a job's tombstones may have to hide, which it does not read itself, and where its records do not count. Asked
/// for ascending keys.
#[derive(Debug)]
pub(in crate::lsm) struct Drops<T> {
    /// Tables that are older than some of the job's, by runs and levels, each with the number of those that lie below
    /// the last key.
    below: Vec<(Place, Vec<Arc<T>>, usize)>,
    /// The covers, and the number of those that lie below the last key.
    covers: Arc<Covers>,
    passed: usize,
    /// The keys of which the job has what is below the tables as well, the upper bound excluded.
    whole: Option<Span>,
}

impl<T: Ranged> Drops<T> {
    /// Of a job that has these tables of a version, which is the one that it began with.
    pub(in crate::lsm) fn of(version: &Version<T>, inputs: &[File]) -> Drops<T> {
        let (mut below, mut is_older) = (Vec::new(), false);
        for (place, run) in version.runs() {
            let others: Vec<_> = run.tables().iter().filter(|table| !inputs.contains(&table.file())).cloned().collect();
            is_older |= others.len() < run.tables().len();
            if is_older {
                below.push((place, others, 0));
            }
        }
        Drops { below, covers: version.covers().clone(), passed: 0, whole: None }
    }

    /// The same of one that has what is below the tables of a range.
    pub(in crate::lsm) fn with_base_of(self, range: Span) -> Drops<T> {
        Drops { whole: Some(range), ..self }
    }

    /// Whether a record counts that the job has from a place.
    pub(in crate::lsm) fn counts(&mut self, place: Place, key: &[u8]) -> bool {
        self.cover(key).is_none_or(|cover| cover.counts(place))
    }

    fn cover(&mut self, key: &[u8]) -> Option<&Cover> {
        while self.covers.get(self.passed).is_some_and(|cover| cover.bounds().1 <= key) {
            self.passed += 1;
        }
        self.covers.get(self.passed).filter(|cover| cover.bounds().0 <= key)
    }

    /// Whether nothing older can have a key than the job has it from a place. What is covered has something older
    /// elsewhere, whatever its floor is, unless the job has that.
    pub(in crate::lsm) fn may_drop(&mut self, place: Place, key: &[u8]) -> bool {
        let has_base =
            self.whole.as_ref().is_some_and(|(lower, upper)| (lower.as_slice()..upper.as_slice()).contains(&key));
        let is_last = has_base || self.cover(key).is_none() || bug!(DropTombstone);
        is_last
            && self.below.iter_mut().filter(|(older, ..)| *older > place).all(|(_, tables, passed)| {
                while tables.get(*passed).is_some_and(|table| table.last() < key) {
                    *passed += 1;
                }
                tables.get(*passed).is_none_or(|table| key < table.first()) || bug!(DropTombstone)
            })
    }
}
