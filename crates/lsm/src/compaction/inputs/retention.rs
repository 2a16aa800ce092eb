//! Decides which records a merge drops: superseded records, and tombstones that hide nothing older (lsm-protocol.md,
//! invariant 14; adaptive-protocol.md, invariants 1 and 14).

use std::sync::Arc;

use ecotone_substrate::{bug, table::FileRef};

use crate::{
    manifest::{PagedRange, PagedRanges, RunId},
    pages::pending_frees::KeySpan,
    version::{TableMeta, Version},
};

/// The older tables and the paged ranges that records of a merge are checked against. Keys have to be asked for in
/// ascending order.
#[derive(Debug)]
pub(crate) struct Retention<T> {
    /// Tables that are older than some input and no inputs themselves, by run, each list with the number of its tables
    /// that end below the last key asked for.
    below: Vec<(RunId, Vec<Arc<T>>, usize)>,
    /// The paged ranges, and the number of those that end below the last key asked for.
    paged_ranges: Arc<PagedRanges>,
    passed: usize,
    /// The key range of which the merge also reads the page tier, the upper bound excluded.
    whole: Option<KeySpan>,
}

impl<T: TableMeta> Retention<T> {
    /// For a merge of these tables of `version`, the one that the merge began with.
    pub(crate) fn of(version: &Version<T>, inputs: &[FileRef]) -> Retention<T> {
        let (mut below, mut is_older) = (Vec::new(), false);
        for (run_id, run) in version.runs() {
            let others: Vec<_> = run.tables().iter().filter(|table| !inputs.contains(&table.file())).cloned().collect();
            is_older |= others.len() < run.tables().len();
            if is_older {
                below.push((run_id, others, 0));
            }
        }
        Retention { below, paged_ranges: version.paged_ranges().clone(), passed: 0, whole: None }
    }

    /// The same for a merge that also reads the page tier in a range.
    pub(crate) fn with_pages_of(self, range: KeySpan) -> Retention<T> {
        Retention { whole: Some(range), ..self }
    }

    /// Whether a record of this run is visible.
    pub(crate) fn is_visible(&mut self, run_id: RunId, key: &[u8]) -> bool {
        self.paged_range(key).is_none_or(|paged_range| paged_range.is_visible(run_id))
    }

    fn paged_range(&mut self, key: &[u8]) -> Option<&PagedRange> {
        while self.paged_ranges.get(self.passed).is_some_and(|paged_range| paged_range.bounds().1 <= key) {
            self.passed += 1;
        }
        self.paged_ranges.get(self.passed).filter(|paged_range| paged_range.bounds().0 <= key)
    }

    /// Whether no older record of a key can exist outside the merge. In a paged range the page tier may have one,
    /// whatever `superseded_from` is, unless the merge reads the pages.
    pub(crate) fn can_drop_tombstone(&mut self, run_id: RunId, key: &[u8]) -> bool {
        let has_pages =
            self.whole.as_ref().is_some_and(|(lower, upper)| (lower.as_slice()..upper.as_slice()).contains(&key));
        let is_last = has_pages || self.paged_range(key).is_none() || bug!(DropTombstone);
        is_last
            && self.below.iter_mut().filter(|(older, ..)| *older > run_id).all(|(_, tables, passed)| {
                while tables.get(*passed).is_some_and(|table| table.last() < key) {
                    *passed += 1;
                }
                tables.get(*passed).is_none_or(|table| key < table.first()) || bug!(DropTombstone)
            })
    }
}
