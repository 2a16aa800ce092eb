//! What a keyspace has on disk, and how that changes: files are synced, with their names, then one log record says so,
//! then everybody sees it, and what goes is removed when that record is synced (decision 4, "The life of a table";
//! decision 9, "Recovery and the order of deletion").

use std::{ops::Deref, sync::Arc};

use ecotone_substrate::{Result, Seq, bug, limits::PAGE, storage::FileId, table::Name};

use super::{
    HashOptions, blob,
    budget::Budget,
    compact::{Disk, Install},
    log::{Address, HotLog, SEGMENT_BYTES, Segment},
    room::Outlet,
    structure::{Change, File, Gone, LogFile, Structure},
};
use crate::{
    engine::{Context, Root},
    files::{Catalog, Numbers, RECORD, remove_strays},
};

/// Segments that have as much log as there is memory.
const SEGMENTS_OF_MEMORY: u64 = 64;
/// A segment has this part of the budget of disk at most.
const SEGMENTS_OF_DISK: u64 = 128;
/// A segment of a long log has so many bytes at least.
const LARGE: u64 = 1 << 20;

/// What the files of one keyspace are made, named and removed by.
#[derive(Debug)]
pub(super) struct Files {
    /// With an environment that counts its files, if they have a budget.
    catalog: Catalog<State>,
    options: HashOptions,
    budget: Option<Arc<Budget>>,
}

impl Deref for Files {
    type Target = Catalog<State>;

    fn deref(&self) -> &Catalog<State> {
        &self.catalog
    }
}

/// What the keyspace consists of, and files on their way.
#[derive(Debug)]
pub(super) struct State {
    structure: Structure,
    /// Files that nothing names any more, each with the sequence of the record that says so: they go when it is synced.
    dead: Vec<(Seq, FileId)>,
    /// FLOOR: where the hot log ended at the last flush, if the keyspace is not logged.
    floor: Address,
    numbers: Numbers,
}

impl Files {
    /// Of a keyspace that consists of this.
    pub(super) fn new(context: Context, options: HashOptions, structure: Structure) -> Files {
        let mut environment = context.shared.environment();
        let budget = options.disk.map(Budget::new);
        if let Some(budget) = &budget {
            environment.storage = budget.over(environment.storage);
        }
        // What an earlier life has on disk it may have promised.
        let floor = if context.logged { Address::FIRST } else { structure.durable };
        let state = State { structure, dead: Vec::new(), floor, numbers: Numbers::default() };
        Files { catalog: Catalog::new(context, environment, state), options, budget }
    }

    /// What was chosen for it.
    pub(super) fn options(&self) -> HashOptions {
        self.options
    }

    /// Its budget of disk, if it has one.
    pub(super) fn budget(&self) -> Option<&Arc<Budget>> {
        self.budget.as_ref()
    }

    /// What the keyspace consists of now.
    pub(super) fn structure(&self) -> Structure {
        self.state().structure.clone()
    }

    /// Says that chains of the hot log go by other bits of a hash than before. Nothing of it is on disk, or they are
    /// more.
    pub(super) fn set_index_bits(&self, bits: u8) {
        self.state().structure.index_bits = bits;
    }

    /// A number for a file that is made next, and a birth.
    ///
    /// # Errors
    /// If the session cannot begin.
    fn fresh(&self) -> Result<File> {
        self.context().begin_session()?;
        let mut state = self.state();
        let State { structure, dead, numbers, .. } = &mut *state;
        let is_of = |file: &FileId, of| {
            let (FileId::Segment { number, .. } | FileId::Table { number, .. }) = file else { return false };
            *number == of
        };
        let is_dying = |number| dead.iter().any(|(_, file)| is_of(file, number));
        Ok(numbers.next(self.context(), |number| structure.numbers().any(|named| named == number) || is_dying(number)))
    }

    /// Says that a flush promises what the hot log has below its end. No compaction has its turn.
    pub(super) fn promise(&self, end: Address) {
        self.state().floor = end;
    }

    /// Changes the structure in the log and in memory, and calls `publish` meanwhile.
    ///
    /// # Errors
    /// If the log has no room, writing has stopped, or the keyspace was dropped. Then nothing has changed, and nothing
    /// was called.
    ///
    /// # Panics
    /// If the change does not fit.
    fn change(&self, change: &Change, publish: &mut dyn FnMut()) -> Result<Seq> {
        let (mut state, append) = self.begin(&change.encode())?;
        let (next, gone) = state.structure.after(change).unwrap_or_else(|what| panic!("{change:?}: {what}"));
        let record = append();
        state.structure = next;
        let dead = self.names(gone).map(|file| (record, file));
        state.dead.extend(dead);
        publish();
        Ok(record)
    }

    /// Makes the segment in which the log goes on.
    fn next_segment(&self, from: Address) -> Result<Arc<Segment>> {
        let file = self.fresh()?;
        let bytes = self.next_bytes();
        let segment = Segment::create(self.environment(), self.name_of(file), from, bytes)?;
        self.change(&Change::Segment(LogFile { file, from, bytes }), &mut || ()).inspect_err(|_| {
            // What went wrong first is what the caller needs to know. A file that stays is removed by the next opening.
            let _ = self.environment().storage.remove(segment.id());
        })?;
        Ok(Arc::new(segment))
    }

    /// Bytes of log in a segment that is made now: as many as all others have, so that a keyspace of few records takes
    /// little space.
    fn next_bytes(&self) -> u64 {
        let present: u64 = self.state().structure.segments.iter().map(|segment| segment.bytes).sum();
        present.next_power_of_two().clamp(*SEGMENT_BYTES.start(), self.segment_bytes())
    }

    /// Bytes of log in a segment of a long log.
    fn segment_bytes(&self) -> u64 {
        let of_memory = self.environment().memory.budget() as u64 / SEGMENTS_OF_MEMORY;
        let of_disk = self.budget.as_ref().map_or(u64::MAX, |budget| budget.limit() / SEGMENTS_OF_DISK);
        of_memory.min(of_disk).clamp(LARGE, *SEGMENT_BYTES.end()).next_power_of_two()
    }

    /// Brings what lies below page boundary `until`, and does not change any more, to segments.
    fn write_pages(&self, log: &HotLog, until: Address) -> Result<()> {
        self.context().sync_log()?;
        log.write_out(self.environment(), until, &mut |from| self.next_segment(from))
    }

    /// The same, and synced.
    pub(super) fn write_durably(&self, log: &HotLog, until: Address) -> Result<()> {
        self.write_pages(log, until)?;
        log.sync(self.environment())
    }

    /// What a checkpoint leaves of the keyspace, of whose hot log `durable` tells what is on disk.
    pub(super) fn root(&self, durable: impl FnOnce() -> Address) -> Root {
        let state = self.state();
        let durable = durable().max(state.structure.durable);
        let structure = Structure { durable, ..state.structure.clone() };
        Root { structure: self.context().shared.wal.tail(), blob: blob::encode(self.options, &structure) }
    }

    /// Removes the files whose end is durable. Who still reads one has it open.
    pub(super) fn bury(&self) -> Result<()> {
        let synced = self.context().shared.wal.synced();
        let ripe = |(seq, _): &mut (Seq, FileId)| *seq < synced || bug!(FreeSpaceEarly);
        let files: Vec<_> = self.state().dead.extract_if(.., ripe).collect();
        self.remove(files.into_iter().map(|(_, file)| file))
    }

    /// Reapplies a change from the log. What goes by it is removed with the strays.
    pub(super) fn replay(&self, body: &[u8]) -> Result<()> {
        let change = Change::decode(body).map_err(|malformed| malformed.at(RECORD, 0))?;
        let mut state = self.state();
        (state.structure, _) = state.structure.after(&change).map_err(|what| self.misfit(what))?;
        Ok(())
    }

    /// Removes the files of the keyspace that nothing names: of an interrupted change, or dropped by one that was
    /// replayed. Numbers go on behind those named.
    pub(super) fn remove_strays(&self) -> Result<()> {
        let named: Vec<FileId> = {
            let mut state = self.state();
            state.numbers = Numbers::behind(state.structure.numbers().max());
            let Structure { segments, .. } = &state.structure;
            let segments = segments.iter().map(|segment| segment.file).collect();
            self.names(Gone { segments, tables: state.structure.tables().collect() }).collect()
        };
        remove_strays(&*self.environment().storage, self.context().keyspace, &named)
    }

    fn names(&self, gone: Gone) -> impl Iterator<Item = FileId> {
        let keyspace = self.context().keyspace;
        let segment = move |File { number, .. }| FileId::Segment { keyspace, number };
        let table = move |File { number, .. }| FileId::Table { keyspace, number };
        gone.segments.into_iter().map(segment).chain(gone.tables.into_iter().map(table))
    }
}

impl Outlet for Files {
    fn write_out(&self, log: &HotLog, until: Address) -> Result<()> {
        // What the log of the database must keep is told by frames in memory, so only what is durable leaves it.
        if self.context().logged { self.write_durably(log, until) } else { self.write_pages(log, until) }
    }
}

impl Install for Files {
    fn name(&self) -> Result<Name> {
        self.fresh().map(|file| self.name_of(file))
    }

    fn is_logged(&self) -> bool {
        self.context().logged
    }

    fn floor(&self) -> Address {
        self.state().floor
    }

    fn index_bits(&self) -> u8 {
        self.state().structure.index_bits
    }

    fn disk(&self) -> Option<Disk> {
        let budget = self.budget.as_ref()?;
        Some(Disk { limit: budget.limit(), used: budget.used(), segment: PAGE as u64 + self.segment_bytes() })
    }

    fn settle(&self) -> Result<()> {
        self.context().sync_log()
    }

    fn install(&self, change: &Change, publish: &mut dyn FnMut()) -> Result<Seq> {
        self.change(change, publish)
    }

    fn conclude(&self, record: Seq) -> Result<()> {
        if !bug!(FreeSpaceEarly) {
            self.context().shared.wal.sync_through(record)?;
        }
        self.bury()
    }

    fn is_synced(&self, record: Seq) -> bool {
        self.context().shared.wal.synced() > record || bug!(FreeSpaceEarly)
    }
}
