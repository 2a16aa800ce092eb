//! A keyspace whose engine is opened on first use (memory-and-keyspaces.md).
//!
//! A keyspace is *unwritten* until its first write: it has no files, and every read finds nothing. The first write
//! creates the engine and its files. A keyspace of an earlier session is *stored*: only its engine checkpoint is known.
//! The first use opens it.

mod engine;
mod first_record;
mod kinds;

use std::{
    collections::HashSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
};

use ecotone_engine::contract::{
    AnyEngine, Context, Engine, EngineCheckpoint, EngineFactory, Hint, Hintable, Operation, Range, RangeShape,
};
use ecotone_substrate::{
    Error, Result, Seq,
    storage::FileId,
    wal::{RecordKind, ReservationKind, encode_structure},
};
use ecotone_sys::primitive::Mutex;

pub(crate) use self::first_record::first_root;
use super::files;

/// The most hints that an unwritten keyspace keeps.
const MOST_HINTS: usize = 256;

/// The name of a structural record in errors.
const RECORD: &str = "the log's structural record";

/// The phase of recovery.
#[derive(Debug, Default)]
pub(crate) struct RecoveryPhase(AtomicU8);

/// Structural records are being replayed.
const STRUCTURE: u8 = 0;
/// Operations are being replayed.
const OPERATIONS: u8 = 1;
/// Replay is over.
const OVER: u8 = 2;

impl RecoveryPhase {
    /// The phase of a database that has nothing to recover.
    pub(crate) fn over() -> Arc<RecoveryPhase> {
        Arc::new(RecoveryPhase(AtomicU8::new(OVER)))
    }

    pub(crate) fn structure_is_recovered(&self) {
        self.0.store(OPERATIONS, Ordering::Release);
    }

    pub(crate) fn is_over(&self) {
        self.0.store(OVER, Ordering::Release);
    }
}

/// A keyspace whose engine is not open.
#[derive(Debug)]
enum Unopened {
    /// Nothing was written to the keyspace.
    Unwritten,
    /// The checkpoint of the engine, from the last manifest or from the first write.
    Stored(EngineCheckpoint),
}

/// The engine of one keyspace, opened on first use.
#[derive(Debug)]
pub(crate) struct LazyEngine {
    family: Arc<dyn EngineFactory>,
    /// Includes the settings of an unwritten keyspace.
    context: Context,
    progress: Arc<RecoveryPhase>,
    /// Held across the I/O by the thread that creates or opens the engine.
    stored: Mutex<Unopened>,
    /// Hints given before the first write.
    hints: Mutex<Vec<(Range, Hint)>>,
    made: OnceLock<AnyEngine>,
    retired: AtomicBool,
}

impl LazyEngine {
    /// A keyspace without any write.
    pub(crate) fn unwritten(
        family: Arc<dyn EngineFactory>,
        context: Context,
        progress: Arc<RecoveryPhase>,
    ) -> LazyEngine {
        LazyEngine::with(family, context, progress, Unopened::Unwritten)
    }

    /// A keyspace of an earlier session.
    pub(crate) fn stored(
        family: Arc<dyn EngineFactory>,
        context: Context,
        progress: Arc<RecoveryPhase>,
        checkpoint: EngineCheckpoint,
    ) -> LazyEngine {
        LazyEngine::with(family, context, progress, Unopened::Stored(checkpoint))
    }

    fn with(
        family: Arc<dyn EngineFactory>,
        context: Context,
        progress: Arc<RecoveryPhase>,
        stored: Unopened,
    ) -> LazyEngine {
        let (stored, made, retired) = (Mutex::new(stored), OnceLock::new(), AtomicBool::new(false));
        LazyEngine { family, context, progress, stored, hints: Mutex::default(), made, retired }
    }

    /// The engine, if it is open.
    #[inline]
    fn there(&self) -> Option<&dyn Engine> {
        self.made.get().map(AnyEngine::engine)
    }

    /// The engine of a written keyspace, opened if needed. `None` for an unwritten keyspace.
    #[inline]
    fn open(&self) -> Result<Option<&AnyEngine>> {
        match self.made.get() {
            Some(made) => Ok(Some(made)),
            None => self.open_stored(),
        }
    }

    #[cold]
    fn open_stored(&self) -> Result<Option<&AnyEngine>> {
        self.check_live()?;
        let stored = self.stored.lock();
        if self.made.get().is_none() {
            let Unopened::Stored(checkpoint) = &*stored else { return Ok(None) };
            let made = self.family.open(self.context.clone(), checkpoint)?;
            self.catch_up(&made)?;
            self.made.set(made).expect("one at a time opens it");
        }
        Ok(self.made.get())
    }

    /// Repeats the recovery steps that open engines have passed already.
    fn catch_up(&self, made: &AnyEngine) -> Result<()> {
        let progress = self.progress.0.load(Ordering::Acquire);
        if progress > STRUCTURE {
            made.engine().structure_recovered()?;
        }
        if progress > OPERATIONS {
            made.engine().recovered()?;
        }
        Ok(())
    }

    /// The engine, created if the keyspace is unwritten.
    #[inline]
    fn make(&self) -> Result<&AnyEngine> {
        match self.open()? {
            Some(made) => Ok(made),
            None => self.make_first(),
        }
    }

    #[cold]
    fn make_first(&self) -> Result<&AnyEngine> {
        let mut stored = self.stored.lock();
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        self.check_live()?;
        let (wal, keyspace) = (&self.context.shared.wal, self.context.keyspace);
        let (made, checkpoint) = self.family.create(self.context.clone()).inspect_err(|_| self.remove_files())?;
        // The files are durable now. All other log records of the keyspace come behind this one
        // (memory-and-keyspaces.md, invariant 4).
        let body = encode_structure(keyspace, &first_record::encode(&checkpoint.blob));
        let placed = wal
            .reserve(ReservationKind::Structure, body.len())
            .map(|room| wal.append(room, RecordKind::Structure, &body, |_| ()));
        match placed {
            Ok(placed) => *stored = Unopened::Stored(EngineCheckpoint { structure_position: placed.end, ..checkpoint }),
            Err(error) => {
                made.engine().mark_dropped();
                self.remove_files();
                return Err(error);
            }
        }
        let hints = std::mem::take(&mut *self.hints.lock());
        // An empty keyspace has nothing to convert, and a hint too many may be dropped.
        hints.iter().for_each(|(range, hint)| drop(give_hint(made.engine(), range, *hint)));
        Ok(self.made.get_or_init(|| made))
    }

    /// Gives the engine a hint, if it takes any.
    ///
    /// # Errors
    /// If there are too many hints, or the engine cannot be opened.
    pub(crate) fn hint(&self, range: &Range, hint: Hint) -> Result<()> {
        self.open()?.map_or_else(|| self.hint_later(range, hint), |made| give_hint(made.engine(), range, hint))
    }

    /// The ranges of the engine with a form of their own. A keyspace that cannot be opened has none to report.
    pub(crate) fn shapes(&self) -> Vec<RangeShape> {
        let hints = self.open().ok().flatten().and_then(|made| made.engine().capabilities().hints);
        hints.map_or_else(Vec::new, Hintable::shapes)
    }

    /// Keeps a hint until the first write.
    fn hint_later(&self, range: &Range, hint: Hint) -> Result<()> {
        let _stored = self.stored.lock();
        if let Some(made) = self.made.get() {
            return give_hint(made.engine(), range, hint);
        }
        let mut hints = self.hints.lock();
        if hints.len() == MOST_HINTS {
            let limit = MOST_HINTS as u64;
            return Err(Error::Limit { what: "the hints of a keyspace without a record", limit, actual: limit + 1 });
        }
        hints.push((range.clone(), hint));
        Ok(())
    }

    /// Removes the files of a failed first write. The caller gets the first error. The next open removes any file that
    /// stays.
    fn remove_files(&self) {
        let (storage, keyspace) = (&*self.context.shared.storage, self.context.keyspace);
        let _ = files::remove(storage, |file| file.keyspace() == Some(keyspace));
    }

    /// The files of the keyspace, if they are known without the engine. `None` if the engine is open or must be.
    pub(crate) fn files(&self) -> Result<Option<HashSet<FileId>>> {
        let stored = self.stored.lock();
        match &*stored {
            _ if self.made.get().is_some() => Ok(None),
            Unopened::Unwritten => Ok(Some(HashSet::new())),
            Unopened::Stored(checkpoint) => Ok(self.family.files(&self.context, checkpoint)?.map(HashSet::from_iter)),
        }
    }

    /// Replays a structural record. The first one of an unwritten keyspace holds its engine checkpoint.
    fn replay_first(&self, seq: Seq, body: &[u8]) -> Result<bool> {
        let mut stored = self.stored.lock();
        let is_first = matches!(*stored, Unopened::Unwritten);
        if is_first {
            let blob = first_root(body)
                .ok_or_else(|| Error::corruption(RECORD, 0, "it is not that of a first write"))?
                .to_vec();
            *stored = Unopened::Stored(EngineCheckpoint { structure_position: seq, blob });
        }
        Ok(is_first)
    }

    /// Opens the engine, or creates it if the keyspace is unwritten.
    #[inline]
    pub(crate) fn open_for_write(&self) -> Result<()> {
        self.make().map(drop)
    }

    /// Opens the engine of a written keyspace.
    pub(crate) fn look(&self) -> Result<()> {
        self.open().map(drop)
    }

    /// The engine's checkpoint. `None` if the engine is not open: the keyspace is unchanged since the last checkpoint
    /// then. An engine that is opened later logs everything behind the current position (memory-and-keyspaces.md,
    /// invariant 6).
    pub(crate) fn take(&self) -> Result<Option<EngineCheckpoint>> {
        if self.made.get().is_none() {
            // The thread that creates the engine appends the first record before it releases the lock.
            drop(self.stored.lock());
        }
        self.there().map(Engine::checkpoint).transpose()
    }

    /// Whether nothing was written to the keyspace.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.made.get().is_none() && matches!(*self.stored.lock(), Unopened::Unwritten)
    }

    fn check_live(&self) -> Result<()> {
        if self.retired.load(Ordering::Acquire) { Err(Error::Closed { what: "the keyspace" }) } else { Ok(()) }
    }

    /// Replays an operation.
    fn replay_operation(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        self.make()?.engine().replay(seq, operation)
    }
}

/// Gives an engine a hint. One without a choice ignores it.
fn give_hint(engine: &dyn Engine, range: &Range, hint: Hint) -> Result<()> {
    engine.capabilities().hints.map_or(Ok(()), |hints| hints.hint(range, hint))
}
