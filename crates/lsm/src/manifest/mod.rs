//! The manifest of an lsm keyspace: which tables it has, the run or level of each, and the paged ranges.
//! [`VersionEdit`]s change it. It holds file names alone, so that replay needs no I/O. The key ranges of tables are
//! known only when a version opens them (`docs/format/lsm.md`, "Structural records" and "Root").

mod paged_range_edit;
mod paged_ranges;
mod run_id;
#[cfg(test)]
mod tests;
mod version_edit;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ecotone_substrate::{
    codec::{Malformed, Reader, Writer},
    limits::{MAX_LEVELS, MAX_RUNS, MAX_TABLES},
    table::FileRef,
};

pub use crate::manifest::{
    paged_range_edit::{PagedRangeEdit, RangeEditKind},
    paged_ranges::{PagedRange, PagedRanges, RangeFragment, Visibility},
    run_id::{LevelId, RunId},
    version_edit::VersionEdit,
};

/// Why an edit or a root is invalid.
pub type InvalidEdit = &'static str;

/// The tables and paged ranges of a keyspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LevelManifest {
    /// From young to old. No run is empty.
    runs: BTreeMap<RunId, BTreeSet<FileRef>>,
    /// The ranges in which some runs are superseded. Manifests and versions with the same ranges share them.
    paged_ranges: Arc<PagedRanges>,
}

impl LevelManifest {
    /// All runs and levels that have tables, from young to old, with their tables by number.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = (RunId, &BTreeSet<FileRef>)> {
        self.runs.iter().map(|(run_id, tables)| (*run_id, tables))
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = FileRef> {
        self.runs.values().flatten().copied()
    }

    /// The run or level of a table.
    pub fn run_of(&self, file: FileRef) -> Option<RunId> {
        self.runs().find(|(_, tables)| tables.contains(&file)).map(|(run_id, _)| run_id)
    }

    /// The ranges in which some runs are superseded.
    pub fn paged_ranges(&self) -> &Arc<PagedRanges> {
        &self.paged_ranges
    }

    /// The same tables, with paged ranges from a root.
    #[must_use]
    pub fn with_paged_ranges(self, paged_ranges: PagedRanges) -> LevelManifest {
        LevelManifest { paged_ranges: Arc::new(paged_ranges), ..self }
    }

    /// The ordinal of the next run. It is above those of all runs and of every `superseded_from`. Otherwise the new run
    /// would be superseded where a `superseded_from` names a run that is gone (adaptive-protocol.md, invariant 7).
    pub fn next_ordinal(&self) -> u64 {
        let youngest = match self.runs.keys().next() {
            Some(RunId::L0(youngest)) => youngest + 1,
            _ => 0,
        };
        youngest.max(self.paged_ranges.next_ordinal())
    }

    /// Applies an edit. After an error the manifest must not be used any more.
    ///
    /// # Errors
    /// If the edit is invalid.
    pub fn apply(&mut self, change: &VersionEdit) -> Result<(), InvalidEdit> {
        let fresh = self.next_ordinal();
        change.added.iter().try_for_each(|(run_id, file)| self.check_added(*run_id, *file, fresh))?;
        change.deleted.iter().try_for_each(|file| self.remove(*file))?;
        change.added.iter().try_for_each(|(run_id, file)| self.insert(*run_id, *file))?;
        self.check()?;
        self.change_paged_ranges(&change.paged_ranges, fresh)
    }

    /// `superseded_from` may name a run that the same edit adds or deletes. Before the edit, the ordinal `before` was
    /// above all runs.
    fn change_paged_ranges(&mut self, edits: &[PagedRangeEdit], before: u64) -> Result<(), InvalidEdit> {
        if edits.is_empty() {
            return Ok(());
        }
        let fresh = RunId::L0(self.next_ordinal().max(before));
        let is_valid = |superseded_from: RunId| superseded_from.is_valid() && superseded_from > fresh;
        if !edits.iter().filter_map(|edit| edit.kind.superseded_from()).all(is_valid) {
            return Err("a floor is above all that is there");
        }
        Arc::make_mut(&mut self.paged_ranges).apply(edits)
    }

    /// Checks that a table may be added to a run or level. The manifest before the edit decides.
    fn check_added(&self, run_id: RunId, file: FileRef, fresh: u64) -> Result<(), InvalidEdit> {
        if let RunId::L0(ordinal) = run_id
            && ordinal < fresh
            && !self.runs.contains_key(&run_id)
        {
            return Err("a run comes that is not the youngest");
        }
        match self.run_of(file) {
            Some(before) if run_id <= before => Err("a table moves to where it is, or where what is younger is"),
            None if self.has_number(file.number) => Err("a table comes under a number that another has"),
            _ => Ok(()),
        }
    }

    fn remove(&mut self, file: FileRef) -> Result<(), InvalidEdit> {
        let run_id = self.run_of(file).ok_or("a table goes that is not there")?;
        let tables = self.runs.get_mut(&run_id).ok_or("a table goes that is nowhere")?;
        tables.remove(&file);
        if tables.is_empty() {
            self.runs.remove(&run_id);
        }
        Ok(())
    }

    fn insert(&mut self, run_id: RunId, file: FileRef) -> Result<(), InvalidEdit> {
        if self.has_number(file.number) {
            return Err("two tables have one number");
        }
        self.runs.entry(run_id).or_default().insert(file);
        Ok(())
    }

    /// Whether a table has this number.
    pub(super) fn has_number(&self, number: u32) -> bool {
        let (first, last) = (FileRef { number, birth: 0 }, FileRef { number, birth: u64::MAX });
        self.runs.values().any(|tables| tables.range(first..=last).next().is_some())
    }

    /// Checks the limits on runs and levels.
    fn check(&self) -> Result<(), InvalidEdit> {
        if !self.runs.keys().all(|run_id| run_id.is_valid()) {
            return Err("there is no such run or level");
        }
        let runs = self.runs.keys().filter(|run_id| run_id.is_l0()).count();
        if runs > MAX_RUNS { Err("level 0 has too many runs") } else { Ok(()) }
    }

    /// Appends the tables to a root, without the paged ranges.
    pub fn encode(&self, w: &mut Writer) {
        w.varint(self.runs.len() as u64);
        for (run_id, tables) in &self.runs {
            run_id.encode(w);
            w.varint(tables.len() as u64);
            tables.iter().for_each(|file| FileRef::encode(Some(*file), w));
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If it is something else, or does not fit together.
    pub fn decode(r: &mut Reader<'_>) -> Result<LevelManifest, Malformed> {
        let start = r.position();
        let runs = r.list(MAX_RUNS + usize::from(MAX_LEVELS), |r| {
            Ok((RunId::decode(r)?, r.list(MAX_TABLES as usize, FileRef::decode_some)?))
        })?;
        let misfit = |what| Malformed::new(start, what);
        let mut manifest = LevelManifest::default();
        for (run_id, tables) in runs {
            manifest.push(run_id, &tables).map_err(misfit)?;
        }
        manifest.check().map_err(misfit)?;
        Ok(manifest)
    }

    /// Adds a run or level that is older than all. It has tables, which ascend.
    fn push(&mut self, run_id: RunId, tables: &[FileRef]) -> Result<(), InvalidEdit> {
        if self.runs.last_key_value().is_some_and(|(last, _)| *last >= run_id) {
            return Err("runs and levels are not from young to old");
        }
        if tables.is_empty() || !tables.is_sorted_by(|a, b| a.number < b.number) {
            return Err("the tables of a run or level are none, or do not ascend");
        }
        tables.iter().try_for_each(|file| self.insert(run_id, *file))
    }
}
