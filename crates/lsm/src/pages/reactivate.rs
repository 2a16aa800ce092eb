//! Reactivating tables: all tables become visible again in a paged range. Two jobs need this. A compaction that would
//! move visible records to a superseded run or level, where they would be lost; and a conversion of pages to tables.
//! Tables with superseded records at the boundary of the range are rewritten without them (adaptive.md, "Converting to
//! pages"; adaptive-protocol.md, invariants 11 and 13).

use std::{iter, ops::Bound, sync::Arc};

use ecotone_engine::remaining_range::RemainingRange;
use ecotone_substrate::{Result, bug, table::FileRef};

use crate::{
    cache::table_reader::TableReader,
    compaction::{
        executor::{
            job::mean,
            merge::{CompactionMerge, merge},
        },
        inputs::{output_splitter::OutputSplitter, retention::Retention},
        strategy::plan::CompactionPlan,
    },
    flush::run_builder::{self, RunBuilder},
    manifest::{PagedRange, PagedRangeEdit, PagedRanges, RangeEditKind, RunId, VersionEdit},
    pages::{conversion::Conversion, pending_frees::KeySpan, tier::PageCursor},
    store::Lsm,
    table::Options,
    version::{Run, TableMeta, Version},
};

/// A table with its run or level.
pub(crate) type PlacedTable = (RunId, Arc<TableReader>);

/// The part of a paged range that makes a compaction unsafe: it would move visible records to where they are
/// superseded.
pub(crate) struct UnsafeInput<'v> {
    paged_range: &'v PagedRange,
    /// From the first key of the tables that have such records to behind the last.
    pub(crate) from: &'v [u8],
    pub(crate) upper: Vec<u8>,
}

/// New tables in place of others.
pub(crate) struct TableReplacement<'t> {
    /// Names the tables that the output replaces, and what changes in paged ranges.
    pub(crate) edit: VersionEdit,
    pub(crate) output: &'t [PlacedTable],
    /// Tables that are rewritten without their superseded records.
    pub(crate) boundary_tables: &'t [PlacedTable],
}

/// The work that makes all tables visible in some ranges.
#[derive(Debug, Default)]
pub(crate) struct Reactivation {
    pub(crate) edits: Vec<PagedRangeEdit>,
    /// Tables with superseded records in the ranges, and with others. Each is rewritten in its run or level, without
    /// the superseded ones.
    pub(crate) boundary_tables: Vec<PlacedTable>,
}

impl Conversion<'_> {
    /// Makes all tables visible in the paged ranges of a range of keys, rounded outward.
    pub(super) fn reactivate(self, lower: &[u8], upper: &[u8]) -> Result<()> {
        let version = self.lsm.version();
        let within = |paged_range: &PagedRange| {
            paged_range.superseded_from().is_some() && paged_range.bounds().0 < upper && paged_range.bounds().1 > lower
        };
        let parts = version
            .paged_ranges()
            .iter()
            .filter(|paged_range| within(paged_range))
            .map(|paged_range| (paged_range, lower.max(paged_range.bounds().0), upper));
        let reactivation = self.reactivation(&version, parts, &[])?;
        if reactivation.edits.is_empty() {
            return Ok(());
        }
        TableReplacement {
            edit: VersionEdit { paged_ranges: reactivation.edits, ..VersionEdit::default() },
            output: &[],
            boundary_tables: &reactivation.boundary_tables,
        }
        .install(self.lsm, &version)
    }

    /// Makes a compaction safe: it must not move visible records to where they are superseded. There are two ways, and
    /// the one that writes fewer bytes is taken. Either the compaction reactivates tables: that work is returned. Or a
    /// piece is converted to pages at once, and `None` is returned: the tables have changed then, and the compaction is
    /// to be picked again.
    pub(crate) fn prepare_compaction(
        self,
        version: &Version<TableReader>,
        plan: &CompactionPlan<TableReader>,
    ) -> Result<Option<Reactivation>> {
        if bug!(MoveBelowSuperseded) {
            return Ok(Some(Reactivation::default()));
        }
        let unsafe_inputs = unsafe_inputs(version.paged_ranges(), &plan.inputs, plan.target);
        let Some(first) = unsafe_inputs.first() else { return Ok(Some(Reactivation::default())) };
        let files = plan.files();
        let reactivate = || {
            self.reactivation(
                version,
                unsafe_inputs.iter().map(|part| (part.paged_range, part.from, part.upper.as_slice())),
                &files,
            )
        };
        let reactivation = reactivate()?;
        // A large paged range is converted one piece per job, so its pages are counted only as far as the comparison
        // needs.
        let bytes = reactivation.bytes() + visible_input_bytes(&unsafe_inputs, &plan.inputs);
        let pages: u64 =
            reactivation.edits.iter().map(|edit| self.page_tier.extent(&edit.lower, &edit.upper, bytes + 1).1).sum();
        if bytes < pages {
            return Ok(Some(reactivation));
        }
        match self.convert_unsafe_inputs(version, first) {
            // The conversion was given up. A reactivation writes less before it frees anything. The boundaries that the
            // first estimate pinned are unpinned by now, so it is made again.
            Err(error) if error.is_no_space() => reactivate().map(Some),
            converted => converted.map(|()| None),
        }
    }

    /// The work to reactivate parts of paged ranges, rounded outward to boundaries, in a compaction that replaces these
    /// tables anyway.
    fn reactivation<'v>(
        self,
        version: &'v Version<TableReader>,
        parts: impl Iterator<Item = (&'v PagedRange, &'v [u8], &'v [u8])>,
        replaced: &[FileRef],
    ) -> Result<Reactivation> {
        let paged_ranges = version.paged_ranges();
        let round_to_boundaries = |(paged_range, from, end)| {
            Ok((paged_range, self.round_to_boundaries(paged_ranges, paged_range, (from, end))?))
        };
        let mut parts = parts.map(round_to_boundaries).collect::<Result<Vec<(&PagedRange, KeySpan)>>>()?;
        let edits = |parts: &[(&PagedRange, KeySpan)]| -> Vec<PagedRangeEdit> {
            let edit = |(_, (lower, upper)): &(_, KeySpan)| PagedRangeEdit {
                lower: lower.clone(),
                upper: upper.clone(),
                kind: RangeEditKind::Reactivate,
            };
            parts.iter().map(edit).collect()
        };
        if PagedRanges::clone(paged_ranges).apply(&edits(&parts)).is_err() {
            // There would be too many paged ranges.
            parts.iter_mut().for_each(|(paged_range, part)| *part = whole(paged_range));
        }
        let boundary_tables =
            without_duplicates(parts.iter().flat_map(|(_, part)| version.boundary_tables(part, replaced)).collect());
        Ok(Reactivation { edits: edits(&parts), boundary_tables })
    }
}

impl TableReplacement<'_> {
    /// Rewrites the boundary tables, and installs the edit with all new tables. If that fails, they are deleted.
    pub(crate) fn install(self, lsm: &Lsm, version: &Version<TableReader>) -> Result<()> {
        let TableReplacement { mut edit, output, boundary_tables } = self;
        let rewritten = rewrite_without_hidden(lsm, version, boundary_tables).inspect_err(|_| remove(lsm, output))?;
        let fresh = [output, &rewritten].concat();
        edit.deleted.extend(boundary_tables.iter().map(|(_, reader)| reader.file()));
        edit.added.extend(fresh.iter().map(|(run_id, reader)| (*run_id, reader.file())));
        let readers: Vec<_> = fresh.iter().map(|(_, reader)| reader.clone()).collect();
        let installed = lsm.install(&edit, &readers, |version| lsm.current.install_version(version));
        installed.inspect_err(|_| remove(lsm, &fresh))?;
        let conversions = &lsm.conversions;
        conversions.bytes.add(rewritten.iter().map(|(_, reader)| reader.bytes()).sum());
        let reactivated = edit.paged_ranges.iter().filter(|edit| edit.kind == RangeEditKind::Reactivate).count();
        conversions.reactivated.add(reactivated as u64);
        boundary_tables.iter().for_each(|(_, reader)| lsm.files.release(reader));
        readers.iter().for_each(|reader| reader.table().warm());
        Ok(())
    }
}

/// Rewrites tables without their superseded records, each for its run or level. The result is not installed yet.
fn rewrite_without_hidden(
    lsm: &Lsm,
    version: &Version<TableReader>,
    boundary_tables: &[PlacedTable],
) -> Result<Vec<PlacedTable>> {
    let mut rewritten = Vec::new();
    for (run_id, table) in boundary_tables {
        let tables = rewrite_table(lsm, version, *run_id, table).inspect_err(|_| remove(lsm, &rewritten))?;
        rewritten.extend(tables.into_iter().map(|table| (*run_id, table)));
    }
    Ok(rewritten)
}

fn rewrite_table(
    lsm: &Lsm,
    version: &Version<TableReader>,
    run_id: RunId,
    table: &Arc<TableReader>,
) -> Result<Vec<Arc<TableReader>>> {
    let options = lsm.table_options(run_id, mean(iter::once(table)) as usize, iter::once(&**table), version);
    let splitter = lsm.output_splitter(run_id, version);
    let (inputs, retention) = ([(run_id, Run::part(vec![table.clone()]))], Retention::of(version, &[table.file()]));
    merge_all(lsm, &inputs, None, retention, (options, splitter))
}

/// Merges all records of some tables, and of the pages below them if they are given. The result is not installed yet.
pub(super) fn merge_all(
    lsm: &Lsm,
    inputs: &[(RunId, Run<TableReader>)],
    page_source: Option<PageCursor>,
    retention: Retention<TableReader>,
    (options, splitter): (Options, OutputSplitter<TableReader>),
) -> Result<Vec<Arc<TableReader>>> {
    let work = CompactionMerge {
        inputs,
        page_source,
        range: &RemainingRange::new((Bound::Unbounded, Bound::Unbounded)),
        hash_of: &|key| lsm.hash(key),
        on_progress: &mut |_| lsm.check_live(),
    };
    lsm.files.context().begin_session()?;
    let name = &mut || lsm.files.new_table_name();
    merge(work, retention, RunBuilder::new(lsm.files.loader(), options, splitter, name))
}

/// Deletes tables that the manifest does not name yet.
fn remove(lsm: &Lsm, tables: &[PlacedTable]) {
    let readers: Vec<_> = tables.iter().map(|(_, reader)| reader.clone()).collect();
    run_builder::remove(lsm.files.environment(), &readers);
}

impl Reactivation {
    /// Bytes of the tables that are rewritten.
    fn bytes(&self) -> u64 {
        self.boundary_tables.iter().map(|(_, reader)| reader.bytes()).sum()
    }
}

impl Version<TableReader> {
    /// Tables with superseded records in a range, but for those that are replaced anyway. They reach out of the paged
    /// ranges that hide these records: else they would have been dropped when these were superseded.
    pub(crate) fn boundary_tables(&self, (lower, upper): &KeySpan, replaced: &[FileRef]) -> Vec<PlacedTable> {
        let mut boundary_tables = Vec::new();
        for paged_range in self.paged_ranges().iter() {
            let part = (paged_range.bounds().0.max(lower), paged_range.bounds().1.min(upper));
            let hidden = self.runs().filter(|(run_id, _)| part.0 < part.1 && !paged_range.is_visible(*run_id));
            boundary_tables.extend(
                hidden.flat_map(|(run_id, run)| run.within(part).iter().map(move |reader| (run_id, reader.clone()))),
            );
        }
        boundary_tables.retain(|(_, reader)| !replaced.contains(&reader.file()));
        without_duplicates(boundary_tables)
    }
}

/// One table may be a boundary table of two parts, or of two paged ranges.
fn without_duplicates(mut boundary_tables: Vec<PlacedTable>) -> Vec<PlacedTable> {
    boundary_tables.sort_by_key(|(run_id, reader)| (*run_id, reader.file()));
    boundary_tables.dedup_by_key(|(_, reader)| reader.file());
    boundary_tables
}

fn whole(paged_range: &PagedRange) -> KeySpan {
    let (lower, upper) = paged_range.bounds();
    (lower.to_vec(), upper.to_vec())
}

/// The parts of paged ranges in which a compaction would move visible records to a run or level that is superseded
/// there.
fn unsafe_inputs<'v>(
    paged_ranges: &'v PagedRanges,
    inputs: &'v [(RunId, Run<TableReader>)],
    to: RunId,
) -> Vec<UnsafeInput<'v>> {
    let hidden = paged_ranges.iter().filter(|paged_range| !paged_range.is_visible(to));
    let part = |paged_range: &'v PagedRange| {
        let (lower, upper) = paged_range.bounds();
        let tables = visible_inputs(paged_range, inputs);
        let first = tables.clone().map(|table| table.first()).min()?;
        let behind = [tables.map(|table| table.last()).max()?, &[0]].concat();
        Some(UnsafeInput {
            paged_range,
            from: first.max(lower),
            upper: if *behind < *upper { behind } else { upper.to_vec() },
        })
    };
    hidden.filter_map(part).collect()
}

/// Inputs of a compaction that are visible in a paged range and have keys there.
fn visible_inputs<'v>(
    paged_range: &'v PagedRange,
    inputs: &'v [(RunId, Run<TableReader>)],
) -> impl Iterator<Item = &'v Arc<TableReader>> + Clone {
    inputs
        .iter()
        .filter(move |(run_id, _)| paged_range.is_visible(*run_id))
        .flat_map(move |(_, run)| run.within(paged_range.bounds()))
}

/// Bytes of all inputs of a compaction that have such records.
fn visible_input_bytes(unsafe_inputs: &[UnsafeInput<'_>], inputs: &[(RunId, Run<TableReader>)]) -> u64 {
    let mut tables: Vec<_> = unsafe_inputs.iter().flat_map(|part| visible_inputs(part.paged_range, inputs)).collect();
    tables.sort_by_key(|table| table.file());
    tables.dedup_by_key(|table| table.file());
    tables.iter().map(|table| table.bytes()).sum()
}
