//! Where a compaction would move visible records to a run or level that is superseded, and what makes that safe. Both
//! are functions of a version and a plan; `reactivate` does the work (adaptive.md, "Reactivation and merge-on-read";
//! adaptive-protocol.md, invariants 11 and 13).

use std::sync::Arc;

use ecotone_substrate::{Result, table::FileRef};

use crate::{
    compaction::strategy::plan::CompactionPlan,
    manifest::{PagedRange, PagedRangeEdit, PagedRanges, RangeEditKind, RunId},
    pages::pending_frees::KeySpan,
    version::{TableMeta, Version},
};

/// A key range, the upper bound excluded.
pub(crate) type Span<'v> = (&'v [u8], &'v [u8]);

/// The part of a paged range that makes a compaction unsafe.
#[derive(Debug)]
pub(crate) struct UnsafeInput<'v> {
    /// The paged range.
    bounds: Span<'v>,
    /// From the first key of the tables that have such records to behind the last.
    pub(crate) from: &'v [u8],
    pub(crate) upper: Vec<u8>,
}

/// All parts of paged ranges that make a compaction unsafe, and the bytes of the inputs with visible records there.
#[derive(Debug)]
pub(crate) struct UnsafeInputs<'v> {
    pub(crate) parts: Vec<UnsafeInput<'v>>,
    pub(crate) bytes: u64,
}

/// The work that makes all tables visible in some ranges.
#[derive(Debug)]
pub(crate) struct Reactivation<T> {
    pub(crate) edits: Vec<PagedRangeEdit>,
    /// Tables with superseded records in the ranges, and with others. Each is rewritten in its run or level, without
    /// the superseded ones.
    pub(crate) boundary_tables: Vec<(RunId, Arc<T>)>,
}

/// The parts of paged ranges in which a compaction would move visible records to a run or level that is superseded
/// there.
pub(crate) fn unsafe_inputs<'v, T: TableMeta>(
    version: &'v Version<T>,
    plan: &'v CompactionPlan<T>,
) -> UnsafeInputs<'v> {
    let (mut parts, mut visible) = (Vec::new(), Vec::new());
    for paged_range in version.paged_ranges().iter().filter(|range| !range.visibility().is_visible(plan.target)) {
        let (lower, upper) = paged_range.bounds();
        let tables = visible_inputs(paged_range, plan);
        let first = tables.iter().map(|table| table.first()).min();
        let last = tables.iter().map(|table| table.last()).max();
        if let Some((first, last)) = first.zip(last) {
            let behind = [last, &[0]].concat();
            let end = if *behind < *upper { behind } else { upper.to_vec() };
            parts.push(UnsafeInput { bounds: (lower, upper), from: first.max(lower), upper: end });
        }
        visible.extend(tables);
    }
    visible.sort_by_key(|table| table.file());
    visible.dedup_by_key(|table| table.file());
    UnsafeInputs { parts, bytes: visible.iter().map(|table| table.bytes()).sum() }
}

/// Inputs of a compaction that are visible in a paged range and have keys there.
fn visible_inputs<'v, T: TableMeta>(paged_range: &PagedRange, plan: &'v CompactionPlan<T>) -> Vec<&'v Arc<T>> {
    let visible = plan.inputs.iter().filter(|(run_id, _)| paged_range.visibility().is_visible(*run_id));
    visible.flat_map(|(_, run)| run.within(paged_range.bounds())).collect()
}

impl UnsafeInput<'_> {
    /// The paged range, and the part of it.
    pub(crate) fn part(&self) -> (Span<'_>, Span<'_>) {
        (self.bounds, (self.from, &self.upper))
    }
}

impl<T: TableMeta> Reactivation<T> {
    /// No work.
    pub(crate) fn none() -> Reactivation<T> {
        Reactivation { edits: Vec::new(), boundary_tables: Vec::new() }
    }

    /// The work to reactivate parts of paged ranges, in a compaction that replaces these tables anyway. Each part comes
    /// with the paged range that has it; `round` rounds it outward to boundaries of the page tier.
    ///
    /// # Errors
    /// Those of `round`.
    pub(crate) fn of<'p>(
        version: &Version<T>,
        parts: impl Iterator<Item = (Span<'p>, Span<'p>)>,
        replaced: &[FileRef],
        round: impl Fn(Span<'_>, Span<'_>) -> Result<KeySpan>,
    ) -> Result<Reactivation<T>> {
        let round = |(bounds, part): (Span<'p>, _)| Ok((bounds, round(bounds, part)?));
        let parts = parts.map(round).collect::<Result<Vec<(Span<'_>, KeySpan)>>>()?;
        let edit = |(lower, upper): KeySpan| PagedRangeEdit { lower, upper, kind: RangeEditKind::Reactivate };
        let mut edits: Vec<_> = parts.iter().map(|(_, part)| edit(part.clone())).collect();
        if PagedRanges::clone(version.paged_ranges()).apply(&edits).is_err() {
            // There would be too many paged ranges.
            edits = parts.iter().map(|((lower, upper), _)| edit((lower.to_vec(), upper.to_vec()))).collect();
        }
        let tables = edits.iter().flat_map(|edit| version.boundary_tables((&edit.lower, &edit.upper), replaced));
        Ok(Reactivation { boundary_tables: without_duplicates(tables.collect()), edits })
    }

    /// Bytes of the tables that are rewritten.
    pub(crate) fn bytes(&self) -> u64 {
        self.boundary_tables.iter().map(|(_, table)| table.bytes()).sum()
    }
}

impl<T: TableMeta> Version<T> {
    /// Tables with superseded records in a range, but for those that are replaced anyway. They reach out of the paged
    /// ranges that hide these records: else they would have been dropped when these were superseded.
    pub(crate) fn boundary_tables(&self, range: Span<'_>, replaced: &[FileRef]) -> Vec<(RunId, Arc<T>)> {
        let mut boundary_tables = Vec::new();
        for (visibility, part) in self.fragments_within(range) {
            let hidden = self.runs().filter(|(run_id, _)| !visibility.is_visible(*run_id));
            boundary_tables.extend(
                hidden.flat_map(|(run_id, run)| run.within(part).iter().map(move |table| (run_id, table.clone()))),
            );
        }
        boundary_tables.retain(|(_, table)| !replaced.contains(&table.file()));
        without_duplicates(boundary_tables)
    }
}

/// One table may be a boundary table of two parts, or of two paged ranges.
fn without_duplicates<T: TableMeta>(mut boundary_tables: Vec<(RunId, Arc<T>)>) -> Vec<(RunId, Arc<T>)> {
    boundary_tables.sort_by_key(|(run_id, table)| (*run_id, table.file()));
    boundary_tables.dedup_by_key(|(_, table)| table.file());
    boundary_tables
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::{
        manifest::{LevelManifest, VersionEdit},
        version::{
            Run,
            tests::{Fake, fake},
        },
    };

    fn edit(lower: u8, upper: u8, kind: RangeEditKind) -> PagedRangeEdit {
        PagedRangeEdit { lower: vec![lower], upper: vec![upper], kind }
    }

    /// A run of L0 and the last level, with keys 0 to 99 and 0 to 199, and paged ranges of each kind above them.
    fn version() -> Version<Fake> {
        let tables = [fake(1, 0, 99), fake(2, 0, 199)];
        let places = [RunId::L0(0), RunId::LAST];
        let added = places.into_iter().zip(&tables).map(|(run_id, table)| (run_id, table.file())).collect();
        let paged_ranges = vec![
            edit(10, 20, RangeEditKind::Add(RunId::LAST)),
            edit(30, 40, RangeEditKind::Add(RunId::L0(0))),
            edit(50, 60, RangeEditKind::Add(RunId::LAST)),
            edit(50, 60, RangeEditKind::Reactivate),
            edit(90, 120, RangeEditKind::Add(RunId::LAST)),
            edit(130, 140, RangeEditKind::Add(RunId::LAST)),
        ];
        let mut manifest = LevelManifest::default();
        manifest.apply(&VersionEdit { added, paged_ranges, ..VersionEdit::default() }).unwrap();
        Version::empty().after(&manifest, &tables).unwrap()
    }

    fn plan(version: &Version<Fake>) -> CompactionPlan<Fake> {
        CompactionPlan::of_inputs(version.runs().map(|(run_id, run)| (run_id, run.clone())).collect(), RunId::LAST)
    }

    /// The parts are those where the run of L0 is visible and the last level is not.
    #[test]
    fn a_compaction_is_unsafe_where_it_would_hide_what_is_visible() {
        let version = version();
        let plan = plan(&version);
        let UnsafeInputs { parts, bytes } = unsafe_inputs(&version, &plan);
        let found: Vec<_> = parts.iter().map(|part| (part.bounds, part.from, &part.upper[..])).collect();
        let wanted: [(Span<'_>, &[u8], &[u8]); 2] =
            [((&[10], &[20]), &[10], &[20]), ((&[90], &[120]), &[90], &[99, 0])];
        assert_eq!(found, wanted);
        assert_eq!(bytes, 100, "the table is counted once");
        let other = CompactionPlan::of_inputs(vec![(RunId::LAST, Run::part(vec![fake(2, 0, 199)]))], RunId::LAST);
        assert!(unsafe_inputs(&version, &other).parts.is_empty(), "nothing visible moves");
    }

    /// A table of the last level has superseded records. It is rewritten unless the compaction replaces it.
    #[test]
    fn what_a_reactivation_rewrites_is_hidden_and_not_replaced() {
        let version = version();
        let plan = plan(&version);
        let unsafe_inputs = unsafe_inputs(&version, &plan);
        let reactivation = |replaced: &[FileRef]| {
            let parts = unsafe_inputs.parts.iter().map(UnsafeInput::part);
            let to_tens = |_: Span<'_>, (from, end): Span<'_>| Ok((vec![from[0]], vec![end[0].next_multiple_of(10)]));
            let Reactivation { edits, boundary_tables } = Reactivation::of(&version, parts, replaced, to_tens).unwrap();
            (edits, boundary_tables.iter().map(|(_, table)| table.file().number).collect::<Vec<_>>())
        };
        let edits = vec![edit(10, 20, RangeEditKind::Reactivate), edit(90, 100, RangeEditKind::Reactivate)];
        assert_eq!(reactivation(&plan.files()), (edits.clone(), vec![]));
        assert_eq!(reactivation(&[]), (edits, vec![2]));
    }
}
