//! A version: the open tables of a keyspace at one moment, by run and level, and its paged ranges. It is immutable.
//! Readers search one version, and each edit of the manifest makes a new one that shares the unchanged runs (lsm.md,
//! "Overview"; lsm-protocol.md, invariant 10).

mod conversion_inputs;
mod run;
mod sorted_runs;
pub(crate) mod super_version;
mod table_meta;
pub(crate) mod table_replacement;
mod targets;
#[cfg(test)]
pub(super) mod tests;
pub(crate) mod version_set;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ecotone_substrate::table::FileRef;

use crate::manifest::{InvalidEdit, LevelManifest, PagedRanges, RunId};
pub use crate::version::conversion_inputs::Split;
pub(crate) use crate::version::{run::Run, sorted_runs::SortedRun, table_meta::TableMeta};

type Open<'t, T> = BTreeMap<FileRef, &'t Arc<T>>;

/// Runs of level 0 and levels, from young to old, and the ranges in which the older ones may be superseded. The newest
/// record of a key is in the first of its sorted runs that has the key ([`Version::sorted_runs`]).
#[derive(Debug)]
pub(crate) struct Version<T> {
    runs: Box<[(RunId, Run<T>)]>,
    paged_ranges: Arc<PagedRanges>,
}

impl<T: TableMeta> Version<T> {
    /// The version of a keyspace without tables.
    pub(crate) fn empty() -> Version<T> {
        Version { runs: Box::default(), paged_ranges: Arc::default() }
    }

    /// The version that follows this one when the keyspace has the tables of `manifest`: tables of this version, and
    /// `fresh` ones.
    ///
    /// # Errors
    /// If ranges within a run or level overlap.
    ///
    /// # Panics
    /// If a table is neither here nor fresh.
    pub(crate) fn after(&self, manifest: &LevelManifest, fresh: &[Arc<T>]) -> Result<Version<T>, InvalidEdit> {
        let open: Open<'_, T> = self.tables().chain(fresh).map(|table| (table.file(), table)).collect();
        let run = |(run_id, files)| Ok((run_id, self.run_of(run_id, files, &open)?));
        Ok(Version {
            runs: manifest.runs().map(run).collect::<Result<_, _>>()?,
            paged_ranges: manifest.paged_ranges().clone(),
        })
    }

    /// A run of these tables. It is shared with this version if the tables are the same.
    fn run_of(&self, run_id: RunId, files: &BTreeSet<FileRef>, open: &Open<'_, T>) -> Result<Run<T>, InvalidEdit> {
        match self.run(run_id) {
            Some(same) if same.tables().len() == files.len() && same.files().all(|file| files.contains(&file)) => {
                Ok(same.clone())
            }
            _ => Run::of(files.iter().map(|file| open[file].clone()).collect()),
        }
    }

    /// The same version without runs that are younger than one.
    pub(crate) fn without_younger(&self, youngest: RunId) -> Version<T> {
        let older =
            self.runs.iter().filter(|(run_id, _)| *run_id >= youngest).map(|(run_id, run)| (*run_id, run.clone()));
        Version { runs: older.collect(), paged_ranges: self.paged_ranges.clone() }
    }

    /// All runs and levels, from young to old.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = (RunId, &Run<T>)> {
        self.runs.iter().map(|(run_id, run)| (*run_id, run))
    }

    /// Tables of which all records are superseded if these are the paged ranges.
    pub(crate) fn fully_superseded<'v>(&'v self, paged_ranges: &'v PagedRanges) -> impl Iterator<Item = &'v Arc<T>> {
        let spent_of = move |(run_id, run): (RunId, &'v Run<T>)| {
            let is_spent = move |table: &&Arc<T>| paged_ranges.supersedes_all(run_id, table.first(), table.last());
            run.tables().iter().filter(is_spent)
        };
        self.runs().flat_map(spent_of)
    }

    /// The ranges in which some runs are superseded.
    pub(crate) fn paged_ranges(&self) -> &Arc<PagedRanges> {
        &self.paged_ranges
    }

    /// A run or level, if it has tables.
    pub(crate) fn run(&self, run_id: RunId) -> Option<&Run<T>> {
        let at = self.runs.binary_search_by_key(&run_id, |(run_id, _)| *run_id).ok()?;
        Some(&self.runs[at].1)
    }

    /// All tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<T>> {
        self.runs.iter().flat_map(|(_, run)| run.tables())
    }
}
