//! The layout of a keyspace's tables for repair: the checkpoint in the manifest plus the structural records of the log,
//! as far as they can be read (repair.md, invariants 10 to 12).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ecotone_engine::files::RECORD;
use ecotone_substrate::{Error, Result, table::FileRef};

use crate::{
    blob,
    manifest::{LevelManifest, PagedRanges, RunId, VersionEdit},
};

/// The tables of a keyspace while structural records are replayed.
#[derive(Debug)]
pub struct Layout {
    /// The manifest after all records so far. `None` once a record did not apply, or if the beginning is unknown.
    manifest: Option<LevelManifest>,
    placed: TablePlacement,
}

/// The runs of tables, as far as they are known.
#[derive(Debug, Clone, Default)]
pub struct TablePlacement {
    /// Whether these are exactly the live tables.
    pub(super) is_settled: bool,
    /// Whether a record of the log is malformed, or does not apply to the state before it.
    pub(super) is_contradicted: bool,
    pub(super) places: BTreeMap<FileRef, RunId>,
    /// Tables that are known to be obsolete.
    pub(super) gone: BTreeSet<FileRef>,
    /// The paged ranges of the last known manifest. There tables may be superseded.
    pub(super) paged_ranges: Arc<PagedRanges>,
}

impl Layout {
    /// The layout of the engine checkpoint in the database's manifest.
    ///
    /// # Errors
    /// `Corruption` if it cannot be decoded, `NewerFormat`.
    pub fn open(keyspace: u32, blob: &[u8]) -> Result<Layout> {
        let run_id = format!("the root of keyspace {keyspace} in the manifest");
        let (_, manifest) = blob::decode(blob).map_err(|malformed| malformed.at(run_id, 0))?;
        Ok(Layout::of(manifest))
    }

    /// The layout of a keyspace that begins as `manifest`.
    pub fn of(manifest: LevelManifest) -> Layout {
        let places =
            manifest.runs().flat_map(|(run_id, tables)| tables.iter().map(move |file| (*file, run_id))).collect();
        let placed =
            TablePlacement { places, paged_ranges: manifest.paged_ranges().clone(), ..TablePlacement::default() };
        Layout { manifest: Some(manifest), placed }
    }

    /// The layout of a keyspace that is new: the log has all of its records.
    pub fn empty() -> Layout {
        Layout::of(LevelManifest::default())
    }

    /// The layout of a keyspace whose beginning is unknown.
    pub fn unknown() -> Layout {
        Layout { manifest: None, placed: TablePlacement::default() }
    }

    /// Replays a structural record. After a record that does not apply, the manifest is unknown.
    ///
    /// # Errors
    /// `Corruption` if it is malformed or does not apply; `NewerFormat`.
    pub fn replay(&mut self, body: &[u8]) -> Result<()> {
        let before = self.manifest.take();
        let replayed = self.after(before, body);
        self.placed.is_contradicted |= replayed.is_err();
        self.manifest = replayed?;
        Ok(())
    }

    fn after(&mut self, before: Option<LevelManifest>, body: &[u8]) -> Result<Option<LevelManifest>> {
        let change = VersionEdit::decode(body).map_err(|malformed| malformed.at(RECORD, 0))?;
        self.placed.replay(&change);
        let Some(mut manifest) = before else { return Ok(None) };
        manifest.apply(&change).map_err(|what| Error::corruption(RECORD, 0, what))?;
        self.placed.paged_ranges = manifest.paged_ranges().clone();
        Ok(Some(manifest))
    }

    /// The placement of the tables. `is_whole` says that no record of the log is missing.
    pub fn placed(self, is_whole: bool) -> TablePlacement {
        TablePlacement { is_settled: is_whole && self.manifest.is_some(), ..self.placed }
    }
}

impl TablePlacement {
    /// Whether these are exactly the live tables.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    fn replay(&mut self, change: &VersionEdit) {
        for file in change.dropped() {
            self.places.remove(&file);
            self.gone.insert(file);
        }
        self.places.extend(change.added.iter().map(|(run_id, file)| (*file, *run_id)));
    }
}
