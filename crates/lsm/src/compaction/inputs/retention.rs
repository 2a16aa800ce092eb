//! Decides which records a merge drops: superseded records, and tombstones that hide nothing older (lsm-protocol.md,
//! invariant 14; adaptive-protocol.md, invariants 1 and 14).

use std::sync::Arc;

use ecotone_substrate::{bug, table::FileRef};

use crate::{
    manifest::{PagedRange, PagedRanges, RunId, Visibility},
    pages::pending_frees::KeySpan,
    version::{TableMeta, Version},
};

/// The older sorted runs outside a merge, and the paged ranges, that its records are checked against. Keys have to be
/// asked for in ascending order.
#[derive(Debug)]
pub(crate) struct Retention<T> {
    /// Tables that are older than some input and no inputs themselves, by run, each list with the number of its tables
    /// that end below the last key asked for.
    older: Vec<(RunId, Vec<Arc<T>>, usize)>,
    /// The paged ranges, and the number of those that end below the last key asked for.
    paged_ranges: Arc<PagedRanges>,
    passed: usize,
    /// The key range of which the pages are an input too, the upper bound excluded.
    input_pages: Option<KeySpan>,
}

impl<T: TableMeta> Retention<T> {
    /// For a merge of these tables of `version`, the one that the merge began with, and of the pages of a range.
    pub(crate) fn of(version: &Version<T>, inputs: &[FileRef], input_pages: Option<KeySpan>) -> Retention<T> {
        let (mut older, mut is_older) = (Vec::new(), false);
        for (run_id, run) in version.runs() {
            let others: Vec<_> = run.tables().iter().filter(|table| !inputs.contains(&table.file())).cloned().collect();
            is_older |= others.len() < run.tables().len();
            if is_older {
                older.push((run_id, others, 0));
            }
        }
        Retention { older, paged_ranges: version.paged_ranges().clone(), passed: 0, input_pages }
    }

    /// Whether a record of this run is visible.
    pub(crate) fn is_visible(&mut self, run_id: RunId, key: &[u8]) -> bool {
        self.visibility(key).is_visible(run_id)
    }

    fn visibility(&mut self, key: &[u8]) -> Visibility {
        while self.paged_ranges.get(self.passed).is_some_and(|paged_range| paged_range.bounds().1 <= key) {
            self.passed += 1;
        }
        let paged_range = self.paged_ranges.get(self.passed).filter(|paged_range| paged_range.bounds().0 <= key);
        paged_range.map_or_else(Visibility::default, PagedRange::visibility)
    }

    /// Whether no older sorted run outside the merge may have the key of a tombstone in this run.
    pub(crate) fn can_drop_tombstone(&mut self, run_id: RunId, key: &[u8]) -> bool {
        bug!(DropTombstone) || !(self.may_be_in_older_pages(key) || self.may_be_in_older_tables(run_id, key))
    }

    /// Whether the pages may have a key, whatever `superseded_from` is, and are no input.
    fn may_be_in_older_pages(&mut self, key: &[u8]) -> bool {
        let is_input = |(lower, upper): &KeySpan| (lower.as_slice()..upper.as_slice()).contains(&key);
        self.visibility(key).has_pages && !self.input_pages.as_ref().is_some_and(is_input)
    }

    fn may_be_in_older_tables(&mut self, run_id: RunId, key: &[u8]) -> bool {
        self.older.iter_mut().filter(|(older, ..)| *older > run_id).any(|(_, tables, passed)| {
            while tables.get(*passed).is_some_and(|table| table.last() < key) {
                *passed += 1;
            }
            tables.get(*passed).is_some_and(|table| table.first() <= key)
        })
    }
}
