//! Where a job is cut into parts, and for how many threads (decision 16, "Parts of a job").

use std::{collections::BTreeSet, iter, ops::Bound, sync::Arc};

use super::pick::Piece;
use crate::{
    engine::Range,
    lsm::{
        structure::Place,
        version::{Ranged, Run},
    },
};

/// Parts for each thread, so that who ends first takes another.
const PARTS_A_THREAD: u64 = 2;

impl<T: Ranged> Piece<T> {
    /// The ranges of its parts, ascending, which together are all keys, where so many threads may make them and each
    /// has so many bytes at least.
    pub(super) fn ranges(&self, threads: usize, least: u64) -> Vec<Range> {
        let cuts = self.cuts(parts(threads, self.bytes(), least));
        let lows = iter::once(Bound::Unbounded).chain(cuts.iter().map(|cut| Bound::Included(cut.to_vec())));
        let highs = cuts.iter().map(|cut| Bound::Excluded(cut.to_vec())).chain([Bound::Unbounded]);
        lows.zip(highs).collect()
    }

    /// The keys between so many parts, ascending. From the left, a part ends at the first candidate with which it has
    /// its share of what is left.
    pub(super) fn cuts(&self, parts: u64) -> Vec<&[u8]> {
        cuts(self.inputs.iter().flat_map(|(_, run)| run.tables()), self.candidates(), parts)
    }

    /// Where it may be cut, ascending: where the tables begin of the level, if one is written into, so that none of
    /// them is read by two parts; if there are not two, where any do.
    fn candidates(&self) -> Vec<&[u8]> {
        let is_level =
            |(place, run): &&(Place, Run<T>)| *place == self.target && !place.is_run() && run.tables().len() > 1;
        let level = self.inputs.iter().find(is_level);
        let runs = level.map_or(&self.inputs[..], std::slice::from_ref);
        let firsts: BTreeSet<&[u8]> =
            runs.iter().flat_map(|(_, run)| run.tables()).map(|table| table.first()).collect();
        firsts.into_iter().collect()
    }
}

/// Parts at most of so many bytes, where so many threads may make them and each has so many bytes at least.
pub(in crate::lsm) fn parts(threads: usize, bytes: u64, least: u64) -> u64 {
    let most = if threads > 1 { PARTS_A_THREAD * threads as u64 } else { 1 };
    most.min(bytes / least)
}

/// Those of ascending candidates at which tables are cut into so many parts at most.
pub(in crate::lsm) fn cuts<'t, 'c, T: Ranged + 't>(
    tables: impl Iterator<Item = &'t Arc<T>>,
    candidates: Vec<&'c [u8]>,
    parts: u64,
) -> Vec<&'c [u8]> {
    let weights = weights(tables, &candidates);
    let (mut left, mut has, mut cuts) = (weights.iter().sum::<u64>(), 0, Vec::new());
    for (cut, weight) in candidates.into_iter().zip(weights) {
        has += weight;
        let parts_left = parts.saturating_sub(cuts.len() as u64);
        if parts_left > 1 && has > 0 && has < left && has * parts_left >= left {
            cuts.push(cut);
            left -= has;
            has = 0;
        }
    }
    cuts
}

/// Bytes before each candidate, and behind the last. A table counts alike for each of the stretches over which it
/// reaches.
fn weights<'t, T: Ranged + 't>(tables: impl Iterator<Item = &'t Arc<T>>, candidates: &[&[u8]]) -> Vec<u64> {
    let mut weights = vec![0; candidates.len() + 1];
    for table in tables {
        let stretch_of = |key: &[u8]| candidates.partition_point(|candidate| *candidate <= key);
        let reached = &mut weights[stretch_of(table.first())..=stretch_of(table.last())];
        let each = table.bytes() / reached.len() as u64;
        reached.iter_mut().for_each(|weight| *weight += each);
    }
    weights
}
