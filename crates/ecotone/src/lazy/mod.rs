//! A keyspace whose engine is there once somebody uses it (decision 18).
//!
//! A keyspace is *unwritten* until its first write: it has no files, and every read finds nothing. The first write
//! makes the engine and its files. A keyspace of an earlier session is *stored*: its root is all that is known of it.
//! The first use opens it.

mod engine;
mod kinds;
mod settings;

use std::{
    collections::HashSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
};

use ecotone_engines::engine::{Context, Engine, Family, Hint, Made, Operation, Range, Root};
use ecotone_substrate::{
    Error, Result, Seq,
    storage::FileId,
    wal::{RecordKind, Room, encode_structure},
};
use ecotone_sys::primitive::Mutex;

pub(crate) use self::settings::{decode as decode_settings, encode as encode_settings, first_root};

/// Hints that an unwritten keyspace remembers.
const MOST_HINTS: usize = 256;

/// What a structural record is called in errors.
const RECORD: &str = "the log's structural record";

/// How far the recovery of a database is.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicU8);

/// Structural records are replayed.
const STRUCTURE: u8 = 0;
/// Operations are replayed.
const OPERATIONS: u8 = 1;
/// Replay is over.
const OVER: u8 = 2;

impl Progress {
    /// Of a database that has nothing to recover.
    pub(crate) fn over() -> Arc<Progress> {
        Arc::new(Progress(AtomicU8::new(OVER)))
    }

    pub(crate) fn structure_is_recovered(&self) {
        self.0.store(OPERATIONS, Ordering::Release);
    }

    pub(crate) fn is_over(&self) {
        self.0.store(OVER, Ordering::Release);
    }
}

/// What is known of a keyspace whose engine is not there.
#[derive(Debug)]
enum Stored {
    /// Nothing was written to it.
    Unwritten,
    /// What the last checkpoint left, or its first write.
    Root(Root),
}

/// The engine of one keyspace, for as long as it is not there too.
#[derive(Debug)]
pub(crate) struct Lazy {
    family: Arc<dyn Family>,
    /// With the settings of an unwritten one.
    context: Context,
    progress: Arc<Progress>,
    /// Held by who makes or opens the engine, across the I/O.
    stored: Mutex<Stored>,
    /// What was said of the keys of an unwritten one.
    hints: Mutex<Vec<(Range, Hint)>>,
    made: OnceLock<Made>,
    retired: AtomicBool,
}

impl Lazy {
    /// A keyspace that nothing was written to.
    pub(crate) fn unwritten(family: Arc<dyn Family>, context: Context, progress: Arc<Progress>) -> Lazy {
        Lazy::with(family, context, progress, Stored::Unwritten)
    }

    /// A keyspace of an earlier session.
    pub(crate) fn stored(family: Arc<dyn Family>, context: Context, progress: Arc<Progress>, root: Root) -> Lazy {
        Lazy::with(family, context, progress, Stored::Root(root))
    }

    fn with(family: Arc<dyn Family>, context: Context, progress: Arc<Progress>, stored: Stored) -> Lazy {
        let (stored, made, retired) = (Mutex::new(stored), OnceLock::new(), AtomicBool::new(false));
        Lazy { family, context, progress, stored, hints: Mutex::default(), made, retired }
    }

    /// The engine, if it is there.
    #[inline]
    fn there(&self) -> Option<&dyn Engine> {
        self.made.get().map(Made::engine)
    }

    /// The engine of a keyspace that was written; `None` for another.
    #[inline]
    fn open(&self) -> Result<Option<&Made>> {
        match self.made.get() {
            Some(made) => Ok(Some(made)),
            None => self.open_stored(),
        }
    }

    #[cold]
    fn open_stored(&self) -> Result<Option<&Made>> {
        self.check_live()?;
        let stored = self.stored.lock();
        if self.made.get().is_none() {
            let Stored::Root(root) = &*stored else { return Ok(None) };
            let made = self.family.open(self.context.clone(), root)?;
            self.catch_up(&made)?;
            self.made.set(made).expect("one at a time opens it");
        }
        Ok(self.made.get())
    }

    /// Does what recovery has done with those that were there.
    fn catch_up(&self, made: &Made) -> Result<()> {
        let progress = self.progress.0.load(Ordering::Acquire);
        if progress > STRUCTURE {
            made.engine().structure_recovered()?;
        }
        if progress > OPERATIONS {
            made.engine().recovered()?;
        }
        Ok(())
    }

    /// The engine, which is made if nothing was written before.
    #[inline]
    fn make(&self) -> Result<&Made> {
        match self.open()? {
            Some(made) => Ok(made),
            None => self.make_first(),
        }
    }

    #[cold]
    fn make_first(&self) -> Result<&Made> {
        let mut stored = self.stored.lock();
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        self.check_live()?;
        let (wal, keyspace) = (&self.context.shared.wal, self.context.keyspace);
        let (made, root) = self.family.create(self.context.clone()).inspect_err(|_| self.remove_files())?;
        // Its files are durable. Whatever the log says of the keyspace comes behind this record (decision 18, invariant
        // 4).
        let body = encode_structure(keyspace, &settings::encode_first(&root.blob));
        let placed =
            wal.reserve(Room::Structure, body.len()).map(|room| wal.append(room, RecordKind::Structure, &body, |_| ()));
        match placed {
            Ok(placed) => *stored = Stored::Root(Root { structure: placed.end, ..root }),
            Err(error) => {
                made.engine().retire();
                self.remove_files();
                return Err(error);
            }
        }
        if let Made::Ordered(engine) = &made {
            let hints = std::mem::take(&mut *self.hints.lock());
            // An empty keyspace has nothing to change. One hint too many is none.
            hints.iter().for_each(|(range, hint)| drop(engine.hint(range, *hint)));
        }
        Ok(self.made.get_or_init(|| made))
    }

    /// Remembers a hint until the first write.
    fn hint_later(&self, range: &Range, hint: Hint) -> Result<()> {
        let _stored = self.stored.lock();
        if let Some(Made::Ordered(engine)) = self.made.get() {
            return engine.hint(range, hint);
        }
        let mut hints = self.hints.lock();
        if hints.len() == MOST_HINTS {
            let limit = MOST_HINTS as u64;
            return Err(Error::Limit { what: "the hints of a keyspace without a record", limit, actual: limit + 1 });
        }
        hints.push((range.clone(), hint));
        Ok(())
    }

    /// Removes what a first write has made that failed. What went wrong first is what the caller needs to know; files
    /// that stay are removed by the next opening.
    fn remove_files(&self) {
        let (storage, keyspace) = (&*self.context.shared.storage, self.context.keyspace);
        let _ = crate::recovery::remove_files(storage, |file| file.keyspace() == Some(keyspace));
    }

    /// The files that it has, if they are known without the engine; `None` if that is there, or has to be.
    pub(crate) fn files(&self) -> Result<Option<HashSet<FileId>>> {
        let stored = self.stored.lock();
        match &*stored {
            _ if self.made.get().is_some() => Ok(None),
            Stored::Unwritten => Ok(Some(HashSet::new())),
            Stored::Root(root) => Ok(self.family.files(&self.context, root)?.map(HashSet::from_iter)),
        }
    }

    /// A structural record of the log. The first one of an unwritten keyspace has its root.
    fn replay_first(&self, seq: Seq, body: &[u8]) -> Result<bool> {
        let mut stored = self.stored.lock();
        let is_first = matches!(*stored, Stored::Unwritten);
        if is_first {
            let blob = first_root(body)
                .ok_or_else(|| Error::corruption(RECORD, 0, "it is not that of a first write"))?
                .to_vec();
            *stored = Stored::Root(Root { structure: seq, blob });
        }
        Ok(is_first)
    }

    /// Opens the engine of a keyspace that was written.
    pub(crate) fn look(&self) -> Result<()> {
        self.open().map(drop)
    }

    /// What a checkpoint takes; nothing if the engine is not there, since the keyspace is as the last checkpoint left
    /// it then. One that comes to be there later has all that it writes to the log behind this (decision 18, invariant
    /// 6).
    pub(crate) fn take(&self) -> Result<Option<Root>> {
        if self.made.get().is_none() {
            // Whoever makes it has appended the record of that before it gives the lock back.
            drop(self.stored.lock());
        }
        self.there().map(Engine::checkpoint).transpose()
    }

    /// Whether nothing was written to it.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.made.get().is_none() && matches!(*self.stored.lock(), Stored::Unwritten)
    }

    fn check_live(&self) -> Result<()> {
        if self.retired.load(Ordering::Acquire) { Err(Error::Closed { what: "the keyspace" }) } else { Ok(()) }
    }

    /// A replayed operation.
    fn replay_operation(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        self.make()?.engine().replay(seq, operation)
    }
}
