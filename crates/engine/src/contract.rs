//! The contract between the database and an engine. `docs/decisions/0001-contracts.md` says what each term means for
//! each engine.

use std::{fmt, mem, ops::Bound, sync::Arc};

use ecotone_substrate::{
    Error, Result, Seq,
    clock::Clock,
    double_write::DoubleWrite,
    environment::Environment,
    health::Health,
    memory::{Component, Memory},
    scheduler::Scheduler,
    storage::{FileId, Storage},
    wal::Wal,
};
use ecotone_sys::epoch::Domain;

use crate::{merge::Merge, superseded::Superseded};
pub use crate::{
    range_shape::{ConversionReason, RangeShape, Shape},
    remaining_range::Direction,
};

/// The parts that all keyspaces of a database share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The database's identity, which its files carry.
    pub database: u64,
    /// The directory.
    pub storage: Arc<dyn Storage>,
    /// The one memory budget.
    pub memory: Arc<Memory>,
    /// The one log.
    pub wal: Arc<Wal>,
    /// In-place page writes.
    pub double_write: Arc<DoubleWrite>,
    /// Background work.
    pub scheduler: Arc<Scheduler>,
    /// Whether writing is still allowed.
    pub health: Arc<Health>,
    /// Epoch domain: defers frees until no reader can still hold a reference.
    pub domain: Arc<Domain>,
    /// Time and randomness.
    pub clock: Arc<dyn Clock>,
    /// Hears of superseded versions, if there is such a listener.
    pub superseded: Option<Arc<dyn Superseded>>,
}

impl Shared {
    /// Combines the parts and creates an epoch domain.
    pub fn new(environment: Environment, wal: Arc<Wal>, double_write: Arc<DoubleWrite>, clock: Arc<dyn Clock>) -> Self {
        let Environment { database, storage, memory, scheduler, health } = environment;
        let (domain, superseded) = (Domain::new(), None);
        Shared { database, storage, memory, wal, double_write, scheduler, health, domain, clock, superseded }
    }

    /// The environment with which files are created and opened.
    pub fn environment(&self) -> Environment {
        let Shared { database, storage, memory, scheduler, health, .. } = self.clone();
        Environment { database, storage, memory, scheduler, health }
    }
}

/// The context that a keyspace gets when it is created or opened.
#[derive(Debug, Clone)]
pub struct Context {
    /// Its number, never reused within a database; part of its file names.
    pub keyspace: u32,
    /// Whether its operations are in the log. An unlogged keyspace never holds the log back.
    pub logged: bool,
    /// The sub-engine that this context is for, if the keyspace has several with structural records of their own
    /// (`docs/format/adaptive.md`).
    pub sub_engine: Option<u8>,
    /// Options by name, as given when the keyspace is created; empty when it is opened (the engine keeps the ones it
    /// needs in its checkpoint).
    pub settings: Vec<(String, String)>,
    /// The parts shared with the rest of the database.
    pub shared: Shared,
}

/// One operation on one key: a value to store, or `None` to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The key, 1..=[`MAX_KEY`](ecotone_substrate::limits::MAX_KEY) bytes.
    pub key: &'a [u8],
    /// The new value, or `None` for a delete.
    pub value: Option<&'a [u8]>,
}

/// The resources that [`Engine::admit`] reserved for one operation. [`Engine::apply`] consumes it; dropping it gives
/// them back.
#[derive(Debug)]
#[must_use = "an admission holds memory until it is applied or dropped"]
pub struct Admission<'e> {
    reserved: u64,
    engine: &'e dyn Release,
}

/// Takes back what an engine has reserved for an operation that is not applied.
pub trait Release: Sync + fmt::Debug {
    /// Gives back what `reserved` stands for. Only the engine knows its meaning.
    fn release(&self, reserved: u64);
}

impl<'e> Admission<'e> {
    /// An admission by this engine.
    pub fn new(engine: &'e dyn Release, reserved: u64) -> Admission<'e> {
        Admission { reserved, engine }
    }

    /// What was reserved, for the engine that applies the operation.
    pub fn into_reserved(self) -> u64 {
        let reserved = self.reserved;
        mem::forget(self);
        reserved
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.engine.release(self.reserved);
    }
}

/// A key range, by bytes.
pub type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// An owned record: key and value.
pub type Record = (Vec<u8>, Vec<u8>);

/// A borrowed record, as cursors lend it: key and value.
pub type RecordRef<'a> = (&'a [u8], &'a [u8]);

/// Callback for each of many keys: the key's number, and its value if it has one.
pub type VisitValue<'a> = dyn FnMut(usize, Option<&[u8]>) + 'a;

/// Progress callback of long work: the amount done, and the total.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// Iterates over a range from both ends; each record is returned by one of them. After an error the cursor is at its
/// end. Returned records are borrowed until the next call, so that an engine need not copy them.
pub trait Cursor: Send {
    /// Moves one end to its next record, which may take I/O and memory. False if there is none.
    fn advance(&mut self, direction: Direction) -> Result<bool>;
    /// Takes the record that this end moved to. Called once for each move; `None` if the record lies beyond the other
    /// end.
    fn take(&mut self) -> Result<Option<RecordRef<'_>>>;
    /// The keys that were not returned yet, also after an error.
    fn remaining(&self) -> Range;
    /// Tombstones passed over so far: deleted records that remain until they are merged or written out. A page without
    /// records counts as many.
    fn deletes_passed(&self) -> u64 {
        0
    }
    /// The remaining record with the smallest key.
    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        if self.advance(Direction::Up)? { self.take() } else { Ok(None) }
    }
    /// The remaining record with the largest key.
    fn next_back(&mut self) -> Result<Option<RecordRef<'_>>> {
        if self.advance(Direction::Down)? { self.take() } else { Ok(None) }
    }
}

/// Iterates once over all records of a hashed keyspace, in an unspecified order. After an error the cursor is at its
/// end. Returned records are borrowed until the next call.
pub trait UnorderedCursor: Send {
    /// Loads the memory that holds the next record, if it is not loaded.
    ///
    /// # Errors
    /// Those of a read. After [`Error::Memory`] it may be called again.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }
    /// The next record that was not returned yet.
    fn next(&mut self) -> Result<Option<RecordRef<'_>>>;
}

/// What [`Hashed::modify`] does with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateAction {
    /// Leaves the record as it is.
    Keep,
    /// Replaces its value by the new one.
    Store,
    /// Deletes the record.
    Delete,
}

/// Builds a new value from the old one, or from none, in an empty buffer.
pub type UpdateFn<'a> = dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> UpdateAction + 'a;

/// The part of a keyspace checkpoint that goes into the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineCheckpoint {
    /// The log position from which structural records are replayed: those below it are in `blob`.
    pub structure_position: Seq,
    /// The engine's own description of its durable structure. The format pages call it the root of the keyspace.
    pub blob: Vec<u8>,
}

/// Statistics of one keyspace, by name. Names are stable; new ones are added.
pub type Stats = Vec<(&'static str, u64)>;

/// A hint how a key range will be used. An adaptive keyspace follows it before its own measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hint {
    /// No hint: the engine follows its measurements. This takes an earlier hint back.
    #[default]
    Auto,
    /// The range is mostly read and scanned: its records belong in pages.
    ReadMostly,
    /// The range is mostly written: its records belong in tables.
    WriteMostly,
}

/// The shape of an ordered keyspace, from a walk over its structure and a sample of its pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampledStats {
    /// Segments, by how they place keys and by their base pages.
    pub segments: Vec<SegmentCount>,
    /// Pages of all segments, overflow pages included.
    pub pages: u64,
    /// Pages that were read, spread evenly over the key space.
    pub sampled_pages: u64,
    /// Used bytes of the pages read.
    pub sampled_fill_bytes: u64,
    /// Records in the pages read.
    pub sampled_records: u64,
    /// Bytes of the keys and values of these records.
    pub sampled_record_bytes: u64,
}

/// How many segments of one kind a tree has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentCount {
    /// How such a segment places keys.
    pub placement: SegmentPlacement,
    /// Base pages of such a segment.
    pub pages: u8,
    /// The number of such segments.
    pub segments: u64,
}

/// How a segment of a tree finds the page of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SegmentPlacement {
    /// By a directory of the pages' lower fences.
    Directory,
    /// By a line.
    Line,
    /// The segment has one page.
    Single,
}

impl fmt::Display for SegmentPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SegmentPlacement::Directory => "directory",
            SegmentPlacement::Line => "line",
            SegmentPlacement::Single => "single",
        })
    }
}

/// The result of a full check of a keyspace. The keyspace is sound if `problems` is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "damage is reported in `problems`, not as an error"]
pub struct Check {
    /// Records seen.
    pub records: u64,
    /// Pages or blocks read and verified.
    pub pages: u64,
    /// Each damage, as a sentence.
    pub problems: Vec<String>,
}

impl Check {
    /// Counts records until `next` returns none. A damage that `next` meets has mostly been met before.
    ///
    /// # Errors
    /// See [`add_problem`](Self::add_problem).
    #[doc(hidden)]
    pub fn count_records(&mut self, mut next: impl FnMut() -> Result<bool>) -> Result<()> {
        loop {
            match next() {
                Ok(true) => self.records += 1,
                Ok(false) => return Ok(()),
                Err(error) => return self.add_problem(error),
            }
        }
    }

    /// Records a damage.
    ///
    /// # Errors
    /// If memory or space ran out, which says nothing about the checked data.
    #[doc(hidden)]
    pub fn add_problem(&mut self, error: Error) -> Result<()> {
        if error.is_shortage() {
            return Err(error);
        }
        let problem = error.to_string();
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
        Ok(())
    }
}

/// What some engines can do and others cannot.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capabilities<'e> {
    /// Full compaction.
    pub compact: Option<&'e dyn Compactable>,
    /// Hints of how ranges will be used.
    pub hints: Option<&'e dyn Hintable>,
    /// Samples of the keyspace's shape.
    pub samples: Option<&'e dyn Sampled>,
    /// Work that the database asks for at good moments.
    pub maintenance: Option<&'e dyn Maintained>,
}

/// An engine that has a full compaction.
pub trait Compactable: fmt::Debug {
    /// Moves everything applied before into the form with the least space and the fewest reads, and reports progress in
    /// bytes. Reads and writes may go on meanwhile.
    fn compact(&self, progress: &mut Progress<'_>) -> Result<()>;
}

/// An engine with a choice of forms for a range of keys.
pub trait Hintable: fmt::Debug {
    /// Hints how a range will be used.
    ///
    /// # Errors
    /// If there are too many hints.
    fn hint(&self, range: &Range, hint: Hint) -> Result<()>;
    /// The ranges whose form differs from the default, or is about to.
    fn shapes(&self) -> Vec<RangeShape>;
}

/// An engine whose shape can be sampled.
pub trait Sampled: fmt::Debug {
    /// Samples the shape of the keyspace, which takes I/O.
    fn sampled_stats(&self) -> Result<SampledStats>;
}

/// An engine with work that may be done early or late.
pub trait Maintained: fmt::Debug {
    /// Starts in the background the work of [`Engine::flush`], as far as it can run beside other work. Promises
    /// nothing.
    fn begin_flush(&self, _below: Seq) {}
    /// Estimate of the garbage that a flush and a checkpoint would remove: deletes that are not in the files, or pages.
    /// 0 if it is little.
    fn reclaimable_deletes(&self) -> u64 {
        0
    }
    /// Called before the database is closed; a flush and the last checkpoint follow. The engine may do work here that
    /// shortens the next opening. The work is optional: it is skipped where space or memory is short.
    ///
    /// # Errors
    /// If I/O fails.
    fn before_close(&self) -> Result<()> {
        Ok(())
    }
}

/// Reads of one key, by any engine.
pub trait Get: Engine {
    /// The newest value of a key.
    ///
    /// # Errors
    /// As of [`Engine::read_into`].
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.read_into(key, Access::Read, &mut value)?.then_some(value))
    }

    /// The newest value of a key, as [`Engine::read_into`] with [`Access::Read`].
    ///
    /// # Errors
    /// As of [`Engine::read_into`].
    fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.read_into(key, Access::Read, value)
    }
}

impl<E: Engine + ?Sized> Get for E {}

/// The recovery of a keyspace from the log, before it is used as an [`Engine`].
pub trait Recover {
    /// Reapplies a structural record from the log. All structural records come before any operation. No I/O: the log's
    /// end is not known yet.
    fn replay_structure(&self, seq: Seq, body: &[u8]) -> Result<()>;
    /// The structure is as the log left it, and the log accepts records. Operations follow.
    fn structure_recovered(&self) -> Result<()>;
    /// Reapplies an operation from the log. May write out, as [`admit`](Engine::admit) may.
    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()>;
    /// Replay is over; everything may be used.
    fn recovered(&self) -> Result<()> {
        Ok(())
    }
}

/// Why a key is read. Caches count the read and the write of an update as one access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// For its value.
    Read,
    /// To write the key.
    Update,
}

/// One keyspace, as the database drives it. All methods may be called from many threads.
///
/// The database promises: operations on one key are applied one at a time, in the order of their sequences; nothing is
/// read before replay is finished; `checkpoint` and `checkpoint_is_durable` are not called concurrently.
pub trait Engine: Recover + Send + Sync + fmt::Debug {
    /// Reads the newest value of a key into a buffer of the caller's, which then holds the value alone. False, and an
    /// empty buffer, if there is no value.
    fn read_into(&self, key: &[u8], access: Access, value: &mut Vec<u8>) -> Result<bool>;
    /// Reads many keys with many requests in flight. `found` is called once for each key, in any order, with its number
    /// and its value; no lock is held during the call. After an error some keys may not have been looked up.
    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()>;

    /// Delays a writer of so many bytes (one write or batch) while background work is behind, and starts that work if
    /// it is not running. `adds` is false for deletes alone. Called before the operations are admitted.
    /// Not called for an operation that [`try_apply`](Self::try_apply) does; it may delay the writer itself.
    ///
    /// # Errors
    /// If the keyspace was dropped, the database is closed, or writing has stopped.
    fn throttle(&self, _bytes: usize, _adds: bool) -> Result<()> {
        Ok(())
    }
    /// Reserves everything that `operation` needs, so that applying it cannot fail. May wait and do I/O.
    fn admit(&self, operation: Operation<'_>) -> Result<Admission<'_>>;
    /// Makes the operation visible. Infallible, no I/O.
    fn apply(&self, admission: Admission<'_>, seq: Seq, operation: Operation<'_>);
    /// Applies an operation of an unlogged keyspace without admission, if the engine can. False if nothing was done:
    /// then the operation is admitted and applied. An ordered engine replaces a record whose newest content is not in
    /// the files yet; this takes no memory, no I/O, and no waits except for short locks. A [`Hashed`] engine does every
    /// operation so, without stripes, and may wait and fail.
    ///
    /// # Errors
    /// Those of [`throttle`](Self::throttle) and [`admit`](Self::admit). Nothing was done.
    fn try_apply(&self, _operation: Operation<'_>) -> Result<bool> {
        Ok(false)
    }

    /// A lower bound, not far off, of the smallest sequence whose effect may not be in the files yet, synced; `None` if
    /// there is none.
    fn first_unflushed(&self) -> Option<Seq>;
    /// Writes out until every effect below `below` is in the files, synced. May be called by several threads.
    fn flush(&self, below: Seq) -> Result<()>;
    /// Makes the current structure durable and describes it.
    fn checkpoint(&self) -> Result<EngineCheckpoint>;
    /// The manifest with the last checkpoint is durable in both copies: space that only older checkpoints need can be
    /// freed.
    fn checkpoint_is_durable(&self);

    /// Reads and checks everything. Damage goes into the report; an error means that the check itself could not
    /// continue.
    fn verify(&self) -> Result<Check>;
    /// Statistics for people and tools.
    fn stats(&self) -> Stats;
    /// What this engine can do beyond the contract.
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
    }
    /// Ends all use of the files, which the database removes next. Later calls fail with `Closed`.
    fn mark_dropped(&self);
}

/// A keyspace whose keys have an order.
pub trait Ordered: Engine {
    /// The records of a range. Consistent per key: each key is returned at most once, with a value that was the newest
    /// at some time since the cursor was created, and a key that exists all that time is returned. Its read buffers are
    /// charged to this component. With [`Component::Windows`] the cursor fails with [`Error::Memory`] if all cursors
    /// together have used up their share.
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor>;
    /// The same with any free memory, for a caller that releases the cursor soon.
    fn cursor(self: Arc<Self>, range: Range) -> Box<dyn Cursor> {
        self.cursor_in(range, Component::Frames)
    }
    /// Loads records in ascending order, all above every key present. Returns the number of records. They are durable
    /// on return; after a crash in between a prefix of them is present.
    fn bulk_load(self: Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64>;
}

/// A keyspace that finds its keys by a hash.
///
/// For an unlogged keyspace the database holds no lock of its own. The engine orders the operations on one key, and
/// [`try_apply`](Engine::try_apply) does all of them, so `admit` and `apply` are not called. `modify` and `merge` are
/// called for unlogged keyspaces alone, and delay the writer themselves.
pub trait Hashed: Engine {
    /// All records. Consistent per key, as those of [`Ordered::cursor`].
    fn walk(self: Arc<Self>) -> Box<dyn UnorderedCursor>;
    /// Changes one record, atomically, admission included. `change` gets the current value and an empty buffer for the
    /// new one. It runs without locks, and runs again whenever another write of the key came between; the last run
    /// counts. If it panics, nothing is written.
    fn modify(&self, key: &[u8], change: &mut UpdateFn<'_>) -> Result<()>;
    /// Changes one record as `merge` says, in the same way. An engine may do it in place.
    ///
    /// # Errors
    /// If the value is no counter or becomes too long: then nothing is changed.
    fn merge(&self, key: &[u8], merge: Merge<'_>) -> Result<()> {
        merge.apply_by(key, |change| self.modify(key, change))
    }
}

/// A keyspace of either kind.
#[derive(Debug, Clone)]
pub enum AnyEngine {
    /// Its keys have an order.
    Ordered(Arc<dyn Ordered>),
    /// Its keys are found by a hash.
    Hashed(Arc<dyn Hashed>),
}

impl AnyEngine {
    /// The methods that both kinds have.
    pub fn engine(&self) -> &dyn Engine {
        match self {
            AnyEngine::Ordered(engine) => &**engine,
            AnyEngine::Hashed(engine) => &**engine,
        }
    }
}

/// Creates and opens the keyspaces of one engine within one database, all of one kind.
pub trait EngineFactory: Send + Sync + fmt::Debug {
    /// The name that the manifest stores, such as `tree`.
    fn name(&self) -> &'static str;
    /// Whether the keys of its keyspaces have an order.
    fn is_ordered(&self) -> bool {
        true
    }
    /// Validates the settings of a keyspace that will be created later.
    ///
    /// # Errors
    /// If no keyspace can be created with these settings.
    fn check(&self, _settings: &[(String, String)]) -> Result<()> {
        Ok(())
    }
    /// The files of a keyspace with this checkpoint, so that its other files can be removed before it is opened; `None`
    /// if the keyspace has to be opened to tell.
    ///
    /// # Errors
    /// If the checkpoint is invalid.
    fn files(&self, _context: &Context, _checkpoint: &EngineCheckpoint) -> Result<Option<Vec<FileId>>> {
        Ok(None)
    }
    /// Creates an empty keyspace: its files exist, and their names are durable, on return. The result includes its
    /// first checkpoint.
    fn create(&self, context: Context) -> Result<(AnyEngine, EngineCheckpoint)>;
    /// Opens a keyspace from its checkpoint. Replay follows.
    fn open(&self, context: Context, checkpoint: &EngineCheckpoint) -> Result<AnyEngine>;
}
