//! The files of a keyspace and the changes of its structure. A change follows this order: new files and their names are
//! synced; one log record installs the edit; the edit becomes visible; obsolete files are removed once that record is
//! synced (commit-and-recovery.md, "Structural records"; hash.md, "Recovery").

use std::{ops::Deref, sync::Arc};

use ecotone_engine::{
    contract::{Context, EngineCheckpoint},
    files::{FileCatalog, FileIdAllocator, RECORD, remove_orphans},
};
use ecotone_substrate::{Result, Seq, bug, limits::PAGE, storage::FileId, table::FileIdentity};

use super::{
    HashOptions, blob,
    budget::Budget,
    compact::{Disk, Install},
    log::{Address, HotLog, SEGMENT_BYTES, Segment},
    reservations::EvictionTarget,
    structure::{FileRef, HashManifest, LogFile, ManifestEdit, ObsoleteFiles},
};

/// Number of segments that hold as much log as the memory budget.
const SEGMENTS_OF_MEMORY: u64 = 64;
/// A segment has at most one part in this many of the disk budget.
const SEGMENTS_OF_DISK: u64 = 128;
/// Minimum bytes of a segment of a long log.
const LARGE: u64 = 1 << 20;

/// Makes, names and removes the files of one keyspace.
#[derive(Debug)]
pub(super) struct Files {
    /// Its environment charges files to the disk budget, if there is one.
    catalog: FileCatalog<State>,
    options: HashOptions,
    budget: Option<Arc<Budget>>,
}

impl Deref for Files {
    type Target = FileCatalog<State>;

    fn deref(&self) -> &FileCatalog<State> {
        &self.catalog
    }
}

/// The structure of the keyspace, and its obsolete files.
#[derive(Debug)]
pub(super) struct State {
    manifest: HashManifest,
    /// Obsolete files, each with the sequence of the record that dropped it. A file is removed when that record is
    /// synced.
    obsolete: Vec<(Seq, FileId)>,
    /// FLOOR: where the hot log ended at the last flush, if the keyspace is not logged.
    floor: Address,
    numbers: FileIdAllocator,
}

impl Files {
    /// The files of a keyspace with this manifest.
    pub(super) fn new(context: Context, options: HashOptions, manifest: HashManifest) -> Files {
        let mut environment = context.shared.environment();
        let budget = options.disk.map(Budget::new);
        if let Some(budget) = &budget {
            environment.storage = budget.over(environment.storage);
        }
        // An earlier session may have promised all that it has on disk.
        let floor = if context.logged { Address::FIRST } else { manifest.durable };
        let state = State { manifest, obsolete: Vec::new(), floor, numbers: FileIdAllocator::default() };
        Files { catalog: FileCatalog::new(context, environment, state), options, budget }
    }

    /// The options of the keyspace.
    pub(super) fn options(&self) -> HashOptions {
        self.options
    }

    /// The disk budget, if there is one.
    pub(super) fn budget(&self) -> Option<&Arc<Budget>> {
        self.budget.as_ref()
    }

    /// The current manifest.
    pub(super) fn manifest(&self) -> HashManifest {
        self.state().manifest.clone()
    }

    /// Sets the number of hash bits by which chains of the hot log are found. Either nothing of the log is on disk, or
    /// the number is not smaller than before.
    pub(super) fn set_index_bits(&self, bits: u8) {
        self.state().manifest.index_bits = bits;
    }

    /// Allocates the number and the birth of a new file.
    ///
    /// # Errors
    /// If the session cannot begin.
    fn allocate_id(&self) -> Result<FileRef> {
        self.context().begin_session()?;
        let mut state = self.state();
        let State { manifest, obsolete, numbers, .. } = &mut *state;
        let is_of = |file: &FileId, of| {
            let (FileId::Segment { number, .. } | FileId::Table { number, .. }) = file else { return false };
            *number == of
        };
        let is_obsolete = |number| obsolete.iter().any(|(_, file)| is_of(file, number));
        Ok(numbers
            .next(self.context(), |number| manifest.numbers().any(|named| named == number) || is_obsolete(number)))
    }

    /// Records that a flush promises all of the hot log below its end. The caller holds the compaction lock.
    pub(super) fn promise(&self, end: Address) {
        self.state().floor = end;
    }

    /// Changes the structure in the log and in memory, and calls `publish` under the same lock.
    ///
    /// # Errors
    /// If the log has no room, writing has stopped, or the keyspace was dropped. Then nothing has changed, and nothing
    /// was called.
    ///
    /// # Panics
    /// If the change does not fit.
    fn change(&self, change: &ManifestEdit, publish: &mut dyn FnMut()) -> Result<Seq> {
        let (mut state, append) = self.begin(&change.encode())?;
        let (next, gone) = state.manifest.after(change).unwrap_or_else(|what| panic!("{change:?}: {what}"));
        let record = append();
        state.manifest = next;
        let obsolete = self.names(gone).map(|file| (record, file));
        state.obsolete.extend(obsolete);
        publish();
        Ok(record)
    }

    /// Makes the segment in which the log continues.
    fn next_segment(&self, from: Address) -> Result<Arc<Segment>> {
        let file = self.allocate_id()?;
        let bytes = self.next_bytes();
        let segment = Segment::create(self.environment(), self.file_name(file), from, bytes)?;
        self.change(&ManifestEdit::Segment(LogFile { file, from, bytes }), &mut || ()).inspect_err(|_| {
            // The caller needs the first error. A file that stays is removed by the next opening.
            let _ = self.environment().storage.remove(segment.id());
        })?;
        Ok(Arc::new(segment))
    }

    /// Bytes of the next segment: as many as all others together have, so that a keyspace of few records takes little
    /// space.
    fn next_bytes(&self) -> u64 {
        let present: u64 = self.state().manifest.segments.iter().map(|segment| segment.bytes).sum();
        present.next_power_of_two().clamp(*SEGMENT_BYTES.start(), self.segment_bytes())
    }

    /// Bytes of a segment of a long log.
    fn segment_bytes(&self) -> u64 {
        let of_memory = self.environment().memory.budget() as u64 / SEGMENTS_OF_MEMORY;
        let of_disk = self.budget.as_ref().map_or(u64::MAX, |budget| budget.limit() / SEGMENTS_OF_DISK);
        of_memory.min(of_disk).clamp(LARGE, *SEGMENT_BYTES.end()).next_power_of_two()
    }

    /// Writes the read-only pages below page boundary `until` to segments.
    fn write_pages(&self, log: &HotLog, until: Address) -> Result<()> {
        self.context().sync_log()?;
        log.write_out(self.environment(), until, &mut |from| self.next_segment(from))
    }

    /// Writes the pages and syncs them.
    pub(super) fn write_durably(&self, log: &HotLog, until: Address) -> Result<()> {
        self.write_pages(log, until)?;
        log.sync(self.environment())
    }

    /// The checkpoint of the keyspace. `durable` returns the address below which the hot log is durable.
    pub(super) fn checkpoint(&self, durable: impl FnOnce() -> Address) -> EngineCheckpoint {
        let state = self.state();
        let durable = durable().max(state.manifest.durable);
        let manifest = HashManifest { durable, ..state.manifest.clone() };
        EngineCheckpoint {
            structure_position: self.context().shared.wal.tail(),
            blob: blob::encode(self.options, &manifest),
        }
    }

    /// Removes obsolete files whose dropping record is durable. A reader still has its file open.
    pub(super) fn delete_obsolete(&self) -> Result<()> {
        let synced = self.context().shared.wal.synced();
        let is_due = |(seq, _): &mut (Seq, FileId)| *seq < synced || bug!(FreeSpaceEarly);
        let files: Vec<_> = self.state().obsolete.extract_if(.., is_due).collect();
        self.remove(files.into_iter().map(|(_, file)| file))
    }

    /// Reapplies a change from the log. Files that it drops are removed with the orphans.
    pub(super) fn replay(&self, body: &[u8]) -> Result<()> {
        let change = ManifestEdit::decode(body).map_err(|malformed| malformed.at(RECORD, 0))?;
        let mut state = self.state();
        (state.manifest, _) = state.manifest.after(&change).map_err(|what| self.invalid_edit(what))?;
        Ok(())
    }

    /// Removes orphans: files that the structure does not name, of an interrupted change or dropped by a replayed one.
    /// New file numbers start above all named ones.
    pub(super) fn remove_orphans(&self) -> Result<()> {
        let named: Vec<FileId> = {
            let mut state = self.state();
            state.numbers = FileIdAllocator::behind(state.manifest.numbers().max());
            let HashManifest { segments, .. } = &state.manifest;
            let segments = segments.iter().map(|segment| segment.file).collect();
            self.names(ObsoleteFiles { segments, tables: state.manifest.tables().collect() }).collect()
        };
        remove_orphans(&*self.environment().storage, self.context().keyspace, &named)
    }

    fn names(&self, gone: ObsoleteFiles) -> impl Iterator<Item = FileId> {
        let keyspace = self.context().keyspace;
        let segment = move |FileRef { number, .. }| FileId::Segment { keyspace, number };
        let table = move |FileRef { number, .. }| FileId::Table { keyspace, number };
        gone.segments.into_iter().map(segment).chain(gone.tables.into_iter().map(table))
    }
}

impl EvictionTarget for Files {
    fn write_out(&self, log: &HotLog, until: Address) -> Result<()> {
        // The frames in memory tell which part of the database's log is still needed, so a logged frame leaves memory
        // only when it is durable.
        if self.context().logged { self.write_durably(log, until) } else { self.write_pages(log, until) }
    }
}

impl Install for Files {
    fn name(&self) -> Result<FileIdentity> {
        self.allocate_id().map(|file| self.file_name(file))
    }

    fn is_logged(&self) -> bool {
        self.context().logged
    }

    fn durable_floor(&self) -> Address {
        self.state().floor
    }

    fn index_bits(&self) -> u8 {
        self.state().manifest.index_bits
    }

    fn disk(&self) -> Option<Disk> {
        let budget = self.budget.as_ref()?;
        Some(Disk { limit: budget.limit(), used: budget.used(), segment: PAGE as u64 + self.segment_bytes() })
    }

    fn sync_log(&self) -> Result<()> {
        self.context().sync_log()
    }

    fn install(&self, change: &ManifestEdit, publish: &mut dyn FnMut()) -> Result<Seq> {
        self.change(change, publish)
    }

    fn finish(&self, record: Seq) -> Result<()> {
        if !bug!(FreeSpaceEarly) {
            self.context().shared.wal.sync_through(record)?;
        }
        self.delete_obsolete()
    }

    fn is_synced(&self, record: Seq) -> bool {
        self.context().shared.wal.synced() > record || bug!(FreeSpaceEarly)
    }
}
