//! The contract between the database and an engine. What each word means for each engine is in
//! `docs/decisions/0001-contracts.md`.

use std::{fmt, ops::Bound, sync::Arc};

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

use crate::merge::Merge;
pub use crate::rest::Direction;

/// What all keyspaces of a database share.
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
    /// When what somebody may still look at can be freed.
    pub domain: Arc<Domain>,
    /// Time and randomness.
    pub clock: Arc<dyn Clock>,
}

impl Shared {
    /// All parts together, and an epoch domain.
    pub fn new(environment: Environment, wal: Arc<Wal>, double_write: Arc<DoubleWrite>, clock: Arc<dyn Clock>) -> Self {
        let Environment { database, storage, memory, scheduler, health } = environment;
        Shared { database, storage, memory, wal, double_write, scheduler, health, domain: Domain::new(), clock }
    }

    /// What files are made and opened with.
    pub fn environment(&self) -> Environment {
        let Shared { database, storage, memory, scheduler, health, .. } = self.clone();
        Environment { database, storage, memory, scheduler, health }
    }
}

/// What one keyspace is told at its birth.
#[derive(Debug, Clone)]
pub struct Context {
    /// Its number, never reused within a database; names its files.
    pub keyspace: u32,
    /// Whether its operations are in the log. An unlogged keyspace never holds the log back.
    pub logged: bool,
    /// Which part of the keyspace this is for, if it has several with structural records of their own
    /// (`docs/format/adaptive.md`).
    pub part: Option<u8>,
    /// Options by name, as given when the keyspace is made; empty when it is opened (the engine keeps what it needs in
    /// its root).
    pub settings: Vec<(String, String)>,
    /// The rest of the house.
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

/// What [`Engine::admit`] took for one operation. Goes to [`Engine::apply`] or [`Engine::cancel`], exactly once.
#[derive(Debug)]
#[must_use = "an admission holds memory until it is applied or cancelled"]
pub struct Admission(pub u64);

/// A key range, by bytes.
pub type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A record of one's own: key and value.
pub type Record = (Vec<u8>, Vec<u8>);

/// A record as cursors lend it: key and value.
pub type RecordRef<'a> = (&'a [u8], &'a [u8]);

/// What is done with each of many keys: its number, and its value if it has one.
pub type VisitValue<'a> = dyn FnMut(usize, Option<&[u8]>) + 'a;

/// What long work tells again and again: how much of it is done, and how much there is in all.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// Goes through a range from both ends; each record is given by one of them. After an error it ends. What it gives is
/// lent until the next call, so that an engine need not copy records.
pub trait Cursor: Send {
    /// Goes to the next record from one end, which may take I/O and memory. False if there is none.
    fn advance(&mut self, direction: Direction) -> Result<bool>;
    /// Takes the record that it went to. Once for each that it goes to; `None` if that lies beyond the other end.
    fn take(&mut self) -> Result<Option<RecordRef<'_>>>;
    /// The keys that it has not given, also after an error.
    fn rest(&self) -> Range;
    /// Deleted records that it has passed over so far, which are there until they are merged or written out. A page
    /// without records counts as many.
    fn deletes_passed(&self) -> u64 {
        0
    }
    /// The record with the smallest key that is left.
    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        if self.advance(Direction::Up)? { self.take() } else { Ok(None) }
    }
    /// The record with the largest key that is left.
    fn next_back(&mut self) -> Result<Option<RecordRef<'_>>> {
        if self.advance(Direction::Down)? { self.take() } else { Ok(None) }
    }
}

/// Goes once through all records of a hashed keyspace, in an order of its own. After an error it ends. What it gives is
/// lent until the next call.
pub trait Walk: Send {
    /// Reads what the next record is found in, if that is not in memory.
    ///
    /// # Errors
    /// Those of a read. After [`Error::Memory`] it may be called again.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }
    /// A record that was not given yet.
    fn next(&mut self) -> Result<Option<RecordRef<'_>>>;
}

/// What becomes of a record that [`Hashed::modify`] shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It stays as it is.
    Keep,
    /// It gets the new value.
    Store,
    /// It goes.
    Delete,
}

/// Makes of a value, or of none, a new one in an empty buffer.
pub type Change<'a> = dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Outcome + 'a;

/// What a checkpoint of a keyspace leaves for the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Structural records at or above this are not in `blob` and will be replayed.
    pub structure: Seq,
    /// The engine's own description of its durable structure.
    pub blob: Vec<u8>,
}

/// Numbers of one keyspace, by name. Names are stable; new ones are added.
pub type Stats = Vec<(&'static str, u64)>;

/// How a range of keys will be used, as somebody says who knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hint {
    /// Nobody knows: what is done follows from what is measured.
    #[default]
    Auto,
    /// It is read and scanned for the most part.
    ReadMostly,
    /// It is written for the most part.
    WriteMostly,
}

/// How a range of an adaptive keyspace is kept that is not plain tables, or is to change (AHA-tree; decision 14).
#[derive(Debug, Clone, PartialEq)]
pub struct RangeShape {
    /// Its first key.
    pub lower: Vec<u8>,
    /// The first key behind it.
    pub upper: Vec<u8>,
    /// `pages`; `pages under buffers`, which newer tables lie above; `staged`, over which tables are merged as if there
    /// were none; or what is queued: `to be pages`, `to be one run` of tables, `to be tables`.
    pub shape: &'static str,
    /// Bytes of its pages.
    pub page_bytes: u64,
    /// Bytes of tables that count in it, about.
    pub table_bytes: u64,
    /// Scans that began in it lately; they fade in ten minutes.
    pub scans: f64,
    /// Seconds that these lost to tables.
    pub waste_seconds: f64,
    /// Seconds that they have to lose before it becomes pages alone; 0 if it is that.
    pub price_seconds: f64,
    /// Why it changed last, or is to change: `scans` that lost enough, `cold` since they have left it, `hint`, `idle`
    /// since nobody used the keyspace, `writes` that came to it faster than it is worth to have them in pages; empty if
    /// that was before the database was opened.
    pub reason: &'static str,
}

/// The shape of an ordered keyspace, as a walk over its structure and a sample of its pages tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Segments: how they place their keys, their base pages, and how many there are of these.
    pub segments: Vec<(&'static str, u8, u64)>,
    /// Pages of all segments, overflow pages included.
    pub pages: u64,
    /// Pages that were read, spread evenly over the key space.
    pub sampled_pages: u64,
    /// Bytes of them that are not free.
    pub sampled_fill_bytes: u64,
    /// Records in them.
    pub sampled_records: u64,
    /// Bytes of the keys and values of these.
    pub sampled_record_bytes: u64,
}

/// What a full check of a keyspace found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// Records seen.
    pub records: u64,
    /// Pages or blocks read and verified.
    pub pages: u64,
    /// Each damage, as a sentence.
    pub problems: Vec<String>,
}

impl Check {
    /// Counts records as long as `next` says that there is one. A damage that it meets has mostly been met before.
    ///
    /// # Errors
    /// See [`found`](Self::found).
    pub(crate) fn count_records(&mut self, mut next: impl FnMut() -> Result<bool>) -> Result<()> {
        loop {
            match next() {
                Ok(true) => self.records += 1,
                Ok(false) => return Ok(()),
                Err(error) => return self.found(error),
            }
        }
    }

    /// Notes what is wrong.
    ///
    /// # Errors
    /// If memory or space was wanting, which says nothing about what is checked.
    pub(crate) fn found(&mut self, error: Error) -> Result<()> {
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

/// One keyspace, as the database drives it. All methods may be called from many threads.
///
/// The database promises: operations on one key are applied one at a time, in the order of their sequences; nothing is
/// read before replay is finished; `checkpoint` and `checkpoint_is_durable` are not called concurrently.
pub trait Engine: Send + Sync + fmt::Debug {
    /// The newest value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// The same for somebody who will write the key in a moment: with the write that is one access, by which caches
    /// judge.
    fn get_to_update(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(key)
    }
    /// The same into a buffer of the caller's, which holds the value and nothing else then. False, and an empty buffer,
    /// if there is none.
    fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.get(key)?;
        found.iter().for_each(|found| value.extend_from_slice(found));
        Ok(found.is_some())
    }
    /// Many keys at once, with many requests in flight. `found` is called once for each key, in whatever order, with
    /// its number and its value; nothing is locked then. After an error not all keys have been looked for.
    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()>;

    /// Delays who is about to write so many bytes in one write or batch, while the background is behind and works, and
    /// has it work if it does not. `adds` is false for deletes alone. Called before the operations are admitted.
    /// [`Hashed::put`], [`Hashed::modify`] and [`Hashed::merge`] do it themselves.
    ///
    /// # Errors
    /// If the keyspace was dropped, the database is closed, or writing has stopped.
    fn pace(&self, _bytes: usize, _adds: bool) -> Result<()> {
        Ok(())
    }
    /// Takes whatever `operation` needs so that applying it cannot fail. May wait and do I/O.
    fn admit(&self, operation: Operation<'_>) -> Result<Admission>;
    /// Makes the operation visible. Infallible, no I/O.
    fn apply(&self, admission: Admission, seq: Seq, operation: Operation<'_>);
    /// Replaces a record whose newest content is not in the files yet, if that takes neither memory nor a sequence of
    /// its own: an operation of an unlogged keyspace that needs no admission. False if it is not done. No I/O, and no
    /// waiting but for short locks.
    fn overwrite(&self, _operation: Operation<'_>) -> bool {
        false
    }
    /// Gives an admission back unused.
    fn cancel(&self, admission: Admission);

    /// At most the smallest sequence whose effect may not be in the files yet, synced, and not far below it; `None` if
    /// there is none.
    fn first_unflushed(&self) -> Option<Seq>;
    /// Has the background begin with what [`flush`](Self::flush) does, as far as it can go beside others. Promises
    /// nothing.
    fn begin_flush(&self, _below: Seq) {}
    /// Writes out until every effect below `below` is in the files, synced. May be called by several threads.
    fn flush(&self, below: Seq) -> Result<()>;
    /// How much a flush and a checkpoint would end that the files keep for nothing, about: deletes that are not in the
    /// files, or pages. 0 if it is little. Engines that see to that by themselves have none.
    fn litter(&self) -> u64 {
        0
    }
    /// The database is about to be closed: a flush and the last checkpoint follow. An engine may do what makes the next
    /// opening short. It is not required: what there is no space or memory for is not done.
    ///
    /// # Errors
    /// If I/O fails.
    fn before_close(&self) -> Result<()> {
        Ok(())
    }
    /// Makes the present structure durable and describes it.
    fn checkpoint(&self) -> Result<Root>;
    /// The manifest with the last checkpoint is durable in both copies: space that only older checkpoints need is free.
    fn checkpoint_is_durable(&self);

    /// Reapplies a structural record from the log. All of them come before any operation. No I/O: the log's end is not
    /// known yet.
    fn replay_structure(&self, seq: Seq, body: &[u8]) -> Result<()>;
    /// The structure is as the log left it, and the log can be appended to. Operations follow.
    fn structure_recovered(&self) -> Result<()>;
    /// Reapplies an operation from the log. May write out, as [`admit`](Self::admit) may.
    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()>;
    /// Replay is over; everything may be used.
    fn recovered(&self) -> Result<()> {
        Ok(())
    }

    /// Brings everything that was applied before to where it takes the least space and the fewest reads, and tells its
    /// progress in bytes. False if the engine has nothing of the sort to do. Others may read and write meanwhile.
    fn compact(&self, _progress: &mut Progress<'_>) -> Result<bool> {
        Ok(false)
    }

    /// Reads and checks everything. Damage goes into the report; an error means that checking itself could not go on.
    fn verify(&self) -> Result<Check>;
    /// Numbers for people and tools.
    fn stats(&self) -> Stats;
    /// Looks at the shape of the keyspace, which takes I/O; `None` if the engine has no such look.
    fn survey(&self) -> Result<Option<Survey>> {
        Ok(None)
    }
    /// Stops all use of the files, which the database removes next. Later calls fail with `Closed`.
    fn retire(&self);
}

/// A keyspace whose keys have an order.
pub trait Ordered: Engine {
    /// The records of a range. Consistent per key: each key is given at most once, with a value that was the newest at
    /// some time since the cursor was made, and a key that exists all that time is given. What it reads lies in memory
    /// of this component. With [`Component::Windows`] it fails with [`Error::Memory`] if all cursors together have
    /// their part.
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor>;
    /// The same in whatever memory there is, for who lets it go soon.
    fn cursor(self: Arc<Self>, range: Range) -> Box<dyn Cursor> {
        self.cursor_in(range, Component::Frames)
    }
    /// Loads records that come in ascending order, all above every key present. Gives the number of records. They are
    /// durable when it returns; after a crash in between a prefix of them is there.
    fn bulk_load(self: Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64>;
    /// Says how a range will be used. An engine that has nothing to choose does nothing.
    ///
    /// # Errors
    /// If there are too many hints.
    fn hint(&self, _range: &Range, _hint: Hint) -> Result<()> {
        Ok(())
    }
    /// Ranges that are kept in another way than the rest, or are to be.
    fn shapes(&self) -> Vec<RangeShape> {
        Vec::new()
    }
}

/// A keyspace that finds its keys by a hash.
///
/// The database calls `modify` and `put` for unlogged keyspaces alone, with no lock of its own; operations on one key
/// then come in the order that the engine gives them, and `admit` and `apply` are not called.
pub trait Hashed: Engine {
    /// All records. Consistent per key, as those of [`Ordered::cursor`].
    fn walk(self: Arc<Self>) -> Box<dyn Walk>;
    /// Changes one record, atomically, admission included. `change` gets the value that is there and an empty buffer
    /// for the new one. It runs without locks, and again whenever another write of the key came between; the last run
    /// counts. If it panics, nothing is written.
    fn modify(&self, key: &[u8], change: &mut Change<'_>) -> Result<()>;
    /// Changes one record as `merge` says, likewise. An engine may do it where the value lies.
    ///
    /// # Errors
    /// If the value is no counter or gets too long: then nothing is changed.
    fn merge(&self, key: &[u8], merge: Merge<'_>) -> Result<()> {
        merge.apply_by(key, |change| self.modify(key, change))
    }
    /// Makes one operation, admission included.
    fn put(&self, operation: Operation<'_>) -> Result<()>;
}

/// A keyspace of either kind.
#[derive(Debug, Clone)]
pub enum Made {
    /// Its keys have an order.
    Ordered(Arc<dyn Ordered>),
    /// Its keys are found by a hash.
    Hashed(Arc<dyn Hashed>),
}

impl Made {
    /// What both kinds do.
    pub fn engine(&self) -> &dyn Engine {
        match self {
            Made::Ordered(engine) => &**engine,
            Made::Hashed(engine) => &**engine,
        }
    }
}

/// Makes the keyspaces of one engine within one database, all of one kind.
pub trait Family: Send + Sync + fmt::Debug {
    /// The name that the manifest stores, such as `tree`.
    fn name(&self) -> &'static str;
    /// Whether the keys of its keyspaces have an order.
    fn is_ordered(&self) -> bool {
        true
    }
    /// Looks at the settings of a keyspace that will be made later.
    ///
    /// # Errors
    /// If it could not be made with these.
    fn check(&self, _settings: &[(String, String)]) -> Result<()> {
        Ok(())
    }
    /// The files that a keyspace with this root has, so that others of it can be removed before it is opened; `None` if
    /// it has to be opened for that.
    ///
    /// # Errors
    /// If it is no root.
    fn files(&self, _context: &Context, _root: &Root) -> Result<Option<Vec<FileId>>> {
        Ok(None)
    }
    /// Makes an empty keyspace: its files exist, and their names are durable, when this returns. Its first checkpoint
    /// is in the result.
    fn create(&self, context: Context) -> Result<(Made, Root)>;
    /// Opens a keyspace from its root. Replay follows.
    fn open(&self, context: Context, root: &Root) -> Result<Made>;
}
