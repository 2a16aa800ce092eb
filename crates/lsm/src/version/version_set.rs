//! The version set: the files of a keyspace on disk, and the protocol by which they change. A change has four steps:
//! tables are synced, with their names; one log record describes the edit; the new version is published; obsolete
//! tables are deleted once that record is synced and no version has them (lsm.md, "Recovery"; lsm-protocol.md,
//! invariants 16 to 18).

use std::{collections::BTreeSet, ops::Deref, sync::Arc};

use ecotone_engine::{
    contract::{Context, EngineCheckpoint},
    files::{FileCatalog, FileIdAllocator, RECORD, remove_orphans},
};
use ecotone_substrate::{
    Error, Result, Seq, bug,
    limits::MAX_RUNS,
    metrics::Counter,
    storage::FileId,
    table::{FileIdentity, FileRef},
};
use ecotone_sys::primitive::MutexGuard;

use crate::{
    blob,
    cache::{
        table_cache::TableCache,
        table_reader::{TableLoader, TableReader},
    },
    manifest::{LevelManifest, PagedRangeEdit, RangeEditKind, VersionEdit},
    options::LsmOptions,
    pages::pending_frees::{KeySpan, PendingFrees},
    table::Table,
    version::{TableMeta, Version},
};

/// Creates, names and deletes the files of one keyspace.
#[derive(Debug)]
pub(crate) struct VersionSet {
    catalog: FileCatalog<VersionState>,
    loader: Arc<TableLoader>,
    options: LsmOptions,
    bytes_written: Counter,
}

impl Deref for VersionSet {
    type Target = FileCatalog<VersionState>;

    fn deref(&self) -> &FileCatalog<VersionState> {
        &self.catalog
    }
}

/// The state under the structure mutex. The mutex is held while the record of an edit is appended and the new super
/// version is published, so that a checkpoint has both or neither. It is never held across I/O.
#[derive(Debug)]
pub(crate) struct VersionState {
    manifest: LevelManifest,
    /// Tables that no version has any more, each with the sequence of the record that dropped it.
    obsolete: Vec<(Seq, Arc<TableReader>)>,
    /// Ranges that were converted to tables and whose pages are not freed yet.
    pending_frees: PendingFrees<Version<TableReader>>,
    numbers: FileIdAllocator,
}

impl VersionState {
    /// The manifest: tables and paged ranges of the keyspace.
    pub(crate) fn manifest(&self) -> &LevelManifest {
        &self.manifest
    }
}

impl VersionSet {
    /// Creates the version set of a keyspace with this manifest. `cache` keeps the indexes and filters of its tables.
    pub(crate) fn new(
        context: Context,
        options: LsmOptions,
        manifest: LevelManifest,
        cache: &Arc<TableCache>,
    ) -> VersionSet {
        let environment = context.shared.environment();
        let state = VersionState {
            manifest,
            obsolete: Vec::new(),
            pending_frees: PendingFrees::default(),
            numbers: FileIdAllocator::default(),
        };
        let loader = TableLoader::new(&environment, cache);
        let catalog = FileCatalog::new(context, environment, state);
        VersionSet { catalog, loader, options, bytes_written: Counter::default() }
    }

    /// Loads the indexes and filters of the tables.
    pub(crate) fn loader(&self) -> &Arc<TableLoader> {
        &self.loader
    }

    /// The options of the keyspace.
    pub(crate) fn options(&self) -> &LsmOptions {
        &self.options
    }

    /// Locks the structure mutex.
    pub(crate) fn lock_structure(&self) -> MutexGuard<'_, VersionState> {
        self.state()
    }

    /// Allocates the name of a new table.
    pub(crate) fn new_table_name(&self) -> FileIdentity {
        let mut state = self.state();
        let VersionState { manifest, obsolete, numbers, .. } = &mut *state;
        let is_obsolete = |number| obsolete.iter().any(|(_, reader)| reader.file().number == number);
        let file = numbers.next(self.context(), |number| manifest.has_number(number) || is_obsolete(number));
        drop(state);
        self.file_name(file)
    }

    /// The ordinal of the next run of L0.
    ///
    /// # Errors
    /// If L0 is full.
    pub(crate) fn next_ordinal(&self) -> Result<u64> {
        let state = self.state();
        let runs = state.manifest.runs().filter(|(run_id, _)| run_id.is_l0()).count();
        if runs < MAX_RUNS {
            return Ok(state.manifest.next_ordinal());
        }
        Err(Error::Limit {
            what: "the runs in level 0 of an lsm keyspace",
            limit: MAX_RUNS as u64,
            actual: runs as u64 + 1,
        })
    }

    /// Applies an edit, whose fresh tables are durable, to the log and to memory. `before` gives the current version;
    /// `publish` gets the version that follows it.
    ///
    /// # Errors
    /// If the log has no room, writing has stopped, or the keyspace was dropped. Then nothing has changed, and neither
    /// function was called.
    ///
    /// # Panics
    /// If the edit does not fit the manifest.
    pub(crate) fn change(
        &self,
        change: &VersionEdit,
        fresh: &[Arc<TableReader>],
        before: impl FnOnce() -> Arc<Version<TableReader>>,
        publish: impl FnOnce(Arc<Version<TableReader>>),
    ) -> Result<()> {
        let (mut state, append) = self.begin(&change.encode())?;
        let (mut manifest, before) = (state.manifest.clone(), before());
        let applied = manifest.apply(change).and_then(|()| before.after(&manifest, fresh));
        let version = applied.unwrap_or_else(|what| panic!("{change:?}: {what}"));
        let record = append();
        let drops: BTreeSet<FileRef> = change.dropped().collect();
        let gone = before.tables().filter(|reader| drops.contains(&reader.file()));
        state.obsolete.extend(gone.map(|reader| (record, reader.clone())));
        state.manifest = manifest;
        if before.paged_ranges().iter().next().is_some() {
            state.pending_frees.version_replaced(&before, record, change.paged_ranges.iter().filter_map(removed_range));
        }
        publish(Arc::new(version));
        self.bytes_written.add(fresh.iter().map(|reader| reader.table().bytes()).sum());
        Ok(())
    }

    /// Bytes of the tables that were added.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.get()
    }

    /// Ranges that were converted to tables and whose pages are not freed yet.
    pub(crate) fn unfreed(&self) -> Vec<KeySpan> {
        self.state().pending_frees.ranges().cloned().collect()
    }

    /// Unfreed ranges that no reader uses any more (adaptive-protocol.md, invariant 10).
    pub(crate) fn freeable(&self) -> Vec<KeySpan> {
        let synced = self.context().shared.wal.synced();
        self.state().pending_frees.freeable(synced).cloned().collect()
    }

    /// The pages of an unfreed range were freed.
    pub(crate) fn freed(&self, span: &KeySpan) {
        self.state().pending_frees.freed(span);
    }

    /// The checkpoint of the keyspace.
    pub(crate) fn checkpoint(&self) -> EngineCheckpoint {
        let state = self.state();
        EngineCheckpoint {
            structure_position: self.context().shared.wal.tail(),
            blob: blob::encode(self.options, &state.manifest),
        }
    }

    /// Gives the blocks of an obsolete table back to the block cache, for the tables that replace it.
    pub(crate) fn release(&self, reader: &TableReader) {
        self.loader.read_frequency.forget(reader);
        reader.table().forget_blocks();
    }

    /// Makes earlier edits durable, and deletes the files that they made obsolete.
    pub(crate) fn finish(&self) -> Result<()> {
        if !bug!(FreeSpaceEarly) {
            let wal = &self.context().shared.wal;
            wal.sync_through(wal.tail().saturating_sub(1))?;
        }
        self.delete_obsolete()
    }

    /// Deletes obsolete tables: the record that dropped them is durable, and no version has them.
    pub(crate) fn delete_obsolete(&self) -> Result<()> {
        let synced = self.context().shared.wal.synced();
        let is_freeable = |(seq, reader): &mut (Seq, Arc<TableReader>)| {
            (*seq < synced || bug!(FreeSpaceEarly)) && Arc::strong_count(reader) == 1
        };
        let obsolete: Vec<_> = self.state().obsolete.extract_if(.., is_freeable).collect();
        self.remove(obsolete.iter().map(|(_, reader)| reader.table().name().file()))
    }

    /// Applies an edit from the log during recovery. Files that it drops are deleted with the orphans.
    pub(crate) fn replay(&self, body: &[u8]) -> Result<()> {
        let change = VersionEdit::decode(body).map_err(|malformed| malformed.at(RECORD, 0))?;
        if !change.paged_ranges.is_empty() && self.context().sub_engine.is_none() {
            return Err(self.invalid_edit("an lsm keyspace has no paged ranges"));
        }
        self.state().manifest.apply(&change).map_err(|what| self.invalid_edit(what))
    }

    /// Deletes orphans, which an interrupted or a replayed edit left behind, and opens the tables. The files in
    /// `beside` stay.
    pub(crate) fn recover(&self, beside: &[FileId]) -> Result<Version<TableReader>> {
        let manifest = self.state().manifest.clone();
        let keyspace = self.context().keyspace;
        let named: Vec<FileId> =
            manifest.tables().map(|file| self.file_name(file).file()).chain(beside.iter().copied()).collect();
        remove_orphans(&*self.environment().storage, keyspace, &named)?;
        self.state().numbers = FileIdAllocator::behind(manifest.tables().map(|file| file.number).max());
        let open =
            |file| Ok(Arc::new(TableReader::of(Table::open(self.environment(), self.file_name(file))?, &self.loader)));
        let tables: Vec<_> = manifest.tables().map(open).collect::<Result<_>>()?;
        let overlap = |what| Error::corruption(format!("the tables of keyspace {keyspace}"), 0, what);
        Version::empty().after(&manifest, &tables).map_err(overlap)
    }
}

fn removed_range(edit: &PagedRangeEdit) -> Option<KeySpan> {
    (edit.kind == RangeEditKind::Remove).then(|| (edit.lower.clone(), edit.upper.clone()))
}
