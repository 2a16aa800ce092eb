//! New tables in place of others: every compaction and every reactivation of tables installs its result here, as one
//! edit of the manifest. Tables with superseded records at the boundary of a paged range are rewritten without them in
//! the same edit (adaptive-protocol.md, invariants 11 and 13).

use std::{iter, ops::Bound, sync::Arc};

use ecotone_engine::{remaining_range::RemainingRange, superseded::LeftOut};
use ecotone_substrate::Result;

use crate::{
    cache::table_reader::TableReader,
    compaction::{
        executor::{
            job::mean,
            merge::{CompactionMerge, MergeInput, MergedTables, merge},
        },
        inputs::output_splitter::OutputSplitter,
    },
    flush::run_builder::{self, RunBuilder},
    manifest::{RangeEditKind, RunId, VersionEdit},
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
pub(crate) fn merge_all(
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
