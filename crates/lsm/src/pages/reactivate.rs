//! Reactivating tables: all tables become visible again in a paged range. Two jobs need this. A compaction that would
//! move visible records to a superseded run or level, where they would be lost; and a conversion of pages to tables.
//! Tables with superseded records at the boundary of the range are rewritten without them (adaptive.md,
//! "Reactivation and merge-on-read"; adaptive-protocol.md, invariants 11 and 13).

use std::{iter, ops::Bound, sync::Arc};

use ecotone_engine::{remaining_range::RemainingRange, superseded::LeftOut};
use ecotone_substrate::{Result, bug, table::FileRef};

use crate::{
    cache::table_reader::TableReader,
    compaction::{
        executor::{
            job::mean,
            merge::{CompactionMerge, MergeInput, MergedTables, merge},
        },
        inputs::output_splitter::OutputSplitter,
        strategy::plan::CompactionPlan,
    },
    flush::run_builder::{self, RunBuilder},
    manifest::{PagedRange, RangeEditKind, RunId, VersionEdit},
    pages::{
        conversion::Conversion,
        unsafe_inputs::{Reactivation, Span, UnsafeInput, unsafe_inputs},
    },
    store::Lsm,
    table::Options,
    version::{Run, TableMeta, Version},
};

/// A table with its run or level.
pub(crate) type PlacedTable = (RunId, Arc<TableReader>);

/// New tables in place of others.
pub(crate) struct TableReplacement<'t> {
    /// Names the tables that the output replaces, and what changes in paged ranges.
    pub(crate) edit: VersionEdit,
    pub(crate) output: &'t [PlacedTable],
    /// Versions that the output leaves out. They are reported just before the edit is published.
    pub(crate) left_out: LeftOut,
    /// Tables that are rewritten without their superseded records.
    pub(crate) boundary_tables: &'t [PlacedTable],
    /// Tables whose cached blocks go before the edit, as the new tables need their memory. A scan of the old tables has
    /// to read some blocks again until the edit.
    pub(crate) uncached: &'t [Arc<TableReader>],
}

impl Conversion<'_> {
    /// Makes all tables visible in the paged ranges of a range of keys, rounded outward.
    pub(super) fn reactivate(self, lower: &[u8], upper: &[u8]) -> Result<()> {
        let version = self.lsm.version();
        let with_floor = version.paged_ranges().iter().filter(|range| range.superseded_from().is_some());
        let overlapping = with_floor.map(PagedRange::bounds).filter(|(from, end)| *from < upper && *end > lower);
        let parts = overlapping.map(|bounds| (bounds, (lower.max(bounds.0), upper)));
        let reactivation = self.reactivation(&version, parts, &[])?;
        if reactivation.edits.is_empty() {
            return Ok(());
        }
        TableReplacement {
            edit: VersionEdit { paged_ranges: reactivation.edits, ..VersionEdit::default() },
            output: &[],
            left_out: LeftOut::default(),
            boundary_tables: &reactivation.boundary_tables,
            uncached: &[],
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
    ) -> Result<Option<Reactivation<TableReader>>> {
        if bug!(MoveBelowSuperseded) {
            return Ok(Some(Reactivation::none()));
        }
        let unsafe_inputs = unsafe_inputs(version, plan);
        let Some(first) = unsafe_inputs.parts.first() else { return Ok(Some(Reactivation::none())) };
        let files = plan.files();
        let reactivate = || self.reactivation(version, unsafe_inputs.parts.iter().map(UnsafeInput::part), &files);
        let reactivation = reactivate()?;
        // A large paged range is converted one piece per job, so its pages are counted only as far as the comparison
        // needs.
        let bytes = reactivation.bytes() + unsafe_inputs.bytes;
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

    /// The work to reactivate parts of paged ranges, in a compaction that replaces these tables anyway.
    fn reactivation<'p>(
        self,
        version: &Version<TableReader>,
        parts: impl Iterator<Item = (Span<'p>, Span<'p>)>,
        replaced: &[FileRef],
    ) -> Result<Reactivation<TableReader>> {
        let paged_ranges = version.paged_ranges();
        let round = |bounds: Span<'_>, part: Span<'_>| self.round_to_boundaries(paged_ranges, bounds, part);
        Reactivation::of(version, parts, replaced, round)
    }
}

impl TableReplacement<'_> {
    /// Rewrites the boundary tables, and installs the edit with all new tables. If that fails, they are deleted.
    pub(crate) fn install(self, lsm: &Lsm, version: &Version<TableReader>) -> Result<()> {
        let TableReplacement { mut edit, output, left_out, boundary_tables, uncached } = self;
        let rewritten = rewrite_without_hidden(lsm, version, boundary_tables).inspect_err(|_| remove(lsm, output))?;
        let fresh = [output, &rewritten].concat();
        edit.deleted.extend(boundary_tables.iter().map(|(_, reader)| reader.file()));
        edit.added.extend(fresh.iter().map(|(run_id, reader)| (*run_id, reader.file())));
        let readers: Vec<_> = fresh.iter().map(|(_, reader)| reader.clone()).collect();
        uncached.iter().for_each(|reader| reader.table().forget_blocks());
        let installed = lsm.install(&edit, &readers, |version| {
            lsm.reports().report_all(&left_out);
            lsm.current.install_version(version);
        });
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
    let run = Run::part(vec![table.clone()]);
    // One table hides nothing visible.
    merge_all(lsm, version, vec![MergeInput::Tables(run_id, &run)], (options, splitter)).map(|merged| merged.tables)
}

/// Merges all records of some sorted runs. The result is not installed yet.
pub(super) fn merge_all(
    lsm: &Lsm,
    version: &Version<TableReader>,
    inputs: Vec<MergeInput<'_>>,
    (options, splitter): (Options, OutputSplitter<TableReader>),
) -> Result<MergedTables> {
    let work = CompactionMerge {
        version,
        inputs,
        range: &RemainingRange::new((Bound::Unbounded, Bound::Unbounded)),
        hash_of: &|key| lsm.hash(key),
        left_out: lsm.reports().left_out(),
        on_progress: &mut |_| lsm.check_live(),
    };
    lsm.files.context().begin_session()?;
    let name = &mut || lsm.files.new_table_name();
    merge(work, RunBuilder::new(lsm.files.loader(), options, splitter, name))
}

/// Deletes tables that no version has yet.
fn remove(lsm: &Lsm, tables: &[PlacedTable]) {
    let readers: Vec<_> = tables.iter().map(|(_, reader)| reader.clone()).collect();
    run_builder::remove(lsm.files.environment(), &readers);
}
