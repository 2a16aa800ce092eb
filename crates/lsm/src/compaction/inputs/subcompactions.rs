//! Splits a compaction by key range into subcompactions of similar size (compaction-pace.md, "Subcompactions").

use std::{collections::BTreeSet, iter, ops::Bound, sync::Arc};

use ecotone_engine::contract::Range;

use crate::{
    compaction::strategy::plan::CompactionPlan,
    manifest::RunId,
    version::{Run, TableMeta},
};

/// Subcompactions for each thread: a thread that ends first takes another.
const PARTS_A_THREAD: u64 = 2;

impl<T: TableMeta> CompactionPlan<T> {
    /// The key ranges of the subcompactions, ascending. Together they hold all keys. `threads` threads may run them,
    /// and each has at least `least` bytes.
    pub(crate) fn ranges(&self, threads: usize, least: u64) -> Vec<Range> {
        let cuts = self.cuts(parts(threads, self.bytes(), least));
        let lows = iter::once(Bound::Unbounded).chain(cuts.iter().map(|cut| Bound::Included(cut.to_vec())));
        let highs = cuts.iter().map(|cut| Bound::Excluded(cut.to_vec())).chain([Bound::Unbounded]);
        lows.zip(highs).collect()
    }

    /// The keys between `parts` subcompactions, ascending. From the left, each ends at the first candidate at which it
    /// has its share of the remaining bytes.
    pub(crate) fn cuts(&self, parts: u64) -> Vec<&[u8]> {
        cuts(self.inputs.iter().flat_map(|(_, run)| run.tables()), self.candidates(), parts)
    }

    /// The keys where the compaction may be split, ascending: the first keys of the target level's tables, so that no
    /// two subcompactions read one of them. If that level has fewer than two, the first keys of all tables.
    fn candidates(&self) -> Vec<&[u8]> {
        let is_level =
            |(run_id, run): &&(RunId, Run<T>)| *run_id == self.target && !run_id.is_l0() && run.tables().len() > 1;
        let level = self.inputs.iter().find(is_level);
        let runs = level.map_or(&self.inputs[..], std::slice::from_ref);
        let firsts: BTreeSet<&[u8]> =
            runs.iter().flat_map(|(_, run)| run.tables()).map(|table| table.first()).collect();
        firsts.into_iter().collect()
    }
}

/// The most subcompactions of `bytes` bytes for `threads` threads, if each has at least `least` bytes.
pub(crate) fn parts(threads: usize, bytes: u64, least: u64) -> u64 {
    let most = if threads > 1 { PARTS_A_THREAD * threads as u64 } else { 1 };
    most.min(bytes / least)
}

/// Chooses the candidates, which ascend, that split tables into at most `parts` subcompactions.
pub(crate) fn cuts<'t, 'c, T: TableMeta + 't>(
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

/// Bytes before each candidate, and behind the last. The bytes of a table are divided evenly among the intervals that
/// it overlaps.
fn weights<'t, T: TableMeta + 't>(tables: impl Iterator<Item = &'t Arc<T>>, candidates: &[&[u8]]) -> Vec<u64> {
    let mut weights = vec![0; candidates.len() + 1];
    for table in tables {
        let gap_of = |key: &[u8]| candidates.partition_point(|candidate| *candidate <= key);
        let reached = &mut weights[gap_of(table.first())..=gap_of(table.last())];
        let each = table.bytes() / reached.len() as u64;
        reached.iter_mut().for_each(|weight| *weight += each);
    }
    weights
}
