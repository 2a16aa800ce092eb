//! The catalog of write-once files of a keyspace, which several engines share: allocation of file ids, removal of
//! orphans, and the log records of structural changes.

use std::collections::HashSet;

use ecotone_substrate::{
    Error, Result, Seq, bug,
    environment::Environment,
    limits::MAX_TABLES,
    storage::{FileId, Storage},
    table::{FileIdentity, FileRef},
    wal::{Durability, RecordKind, ReservationKind, encode_structure},
};
use ecotone_sys::primitive::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};

use crate::contract::Context;

/// The name that a corruption error gives for damage that is in no file of a keyspace.
pub const RECORD: &str = "the log's structural record";

/// Creates, names and removes the files of one keyspace, and holds the current state of its structure.
#[derive(Debug)]
pub struct FileCatalog<S> {
    context: Context,
    environment: Environment,
    state: Mutex<S>,
    /// Whether the keyspace was dropped.
    retired: AtomicBool,
}

impl<S> FileCatalog<S> {
    /// Creates the catalog of a keyspace with this state. Its files are created and opened with `environment`.
    pub fn new(context: Context, environment: Environment, state: S) -> FileCatalog<S> {
        FileCatalog { context, environment, state: Mutex::new(state), retired: AtomicBool::new(false) }
    }

    /// The context that the keyspace was created with.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The environment with which files are created and opened.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The state of the structure. Its lock is held while the log record of a change is appended, so that a
    /// checkpoint contains a change entirely or not at all. The lock is never held across I/O.
    pub fn state(&self) -> MutexGuard<'_, S> {
        self.state.lock()
    }

    /// Marks the keyspace as dropped: no file is added any more, so removing the current files removes all.
    pub fn retire(&self) {
        // Under the lock, so that an earlier change has already named its files.
        let _state = self.state.lock();
        self.retired.store(true, Ordering::Release);
    }

    /// Whether the keyspace was dropped.
    #[inline]
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// # Errors
    /// If the keyspace was dropped.
    #[inline]
    pub fn check_live(&self) -> Result<()> {
        if self.is_retired() { Err(Error::Closed { what: "the keyspace" }) } else { Ok(()) }
    }

    /// The identity that tells a file from all others of its role.
    pub fn file_name(&self, FileRef { number, birth }: FileRef) -> FileIdentity {
        FileIdentity { database: self.environment.database, keyspace: self.context.keyspace, number, birth }
    }

    /// Begins a change after reserving log space for its record. Returns the locked state, and a closure that appends
    /// the record and returns its sequence.
    ///
    /// # Errors
    /// If the log has no space, writing has stopped, or the keyspace was dropped. Then nothing has changed.
    pub fn begin<'c>(&'c self, change: &[u8]) -> Result<(MutexGuard<'c, S>, impl FnOnce() -> Seq + use<'c, S>)> {
        let wal = &self.context.shared.wal;
        let body = self.context.structural_record(change);
        let reservation = wal.reserve(ReservationKind::Structure, body.len())?;
        let state = self.state.lock();
        self.check_live()?;
        Ok((state, move || wal.append(reservation, RecordKind::Structure, &body, |_| ()).seq))
    }

    /// The error for a structural log record that contradicts the state of the keyspace.
    pub fn invalid_edit(&self, what: &str) -> Error {
        Error::corruption(RECORD, 0, format!("it does not fit the keyspace {}: {what}", self.context.keyspace))
    }

    /// Removes files that are not referenced any more.
    pub fn remove(&self, mut files: impl Iterator<Item = FileId>) -> Result<()> {
        let Environment { storage, health, .. } = &self.environment;
        files.try_for_each(|file| storage.remove_if_there(file)).map_err(|error| health.poison(error))
    }
}

/// Allocates file numbers and births within a keyspace.
#[derive(Debug, Default)]
pub struct FileIdAllocator {
    /// The highest number allocated.
    last: u32,
    /// Files created in this session.
    births: u32,
}

impl FileIdAllocator {
    /// Continues after the highest number in use.
    pub fn behind(highest: Option<u32>) -> FileIdAllocator {
        FileIdAllocator { last: highest.unwrap_or(0), births: 0 }
    }

    /// Allocates a number that is not taken, and a birth that no file of the keyspace has or had: the log's incarnation
    /// tells sessions apart.
    pub fn next(&mut self, context: &Context, taken: impl Fn(u32) -> bool) -> FileRef {
        let session = context.incarnation() << 32;
        self.births = self.births.checked_add(1).expect("a session has fewer files");
        loop {
            self.last = if self.last + 1 < MAX_TABLES { self.last + 1 } else { 1 };
            if !taken(self.last) {
                return FileRef { number: self.last, birth: session | u64::from(self.births) };
            }
        }
    }
}

/// Removes orphans: files of a keyspace that are not referenced.
pub fn remove_orphans(storage: &dyn Storage, keyspace: u32, named: &[FileId]) -> Result<()> {
    let (mine, named) = (|file: &FileId| file.keyspace() == Some(keyspace), named.iter().collect::<HashSet<_>>());
    let orphans: Vec<FileId> = storage.list()?.into_iter().filter(|file| mine(file) && !named.contains(file)).collect();
    orphans.iter().try_for_each(|file| storage.remove(*file))?;
    if orphans.is_empty() { Ok(()) } else { storage.sync_dir() }
}

impl Context {
    /// Begins the session, if it has not begun. Called before anything that carries its incarnation is written
    /// (commit-and-recovery.md, invariant 13).
    ///
    /// # Errors
    /// `NoSpace` if there is no space for a log segment.
    pub fn begin_session(&self) -> Result<()> {
        self.shared.wal.begin_session().map(drop)
    }

    /// The incarnation of this session, which has begun.
    pub fn incarnation(&self) -> u64 {
        debug_assert!(self.shared.wal.has_begun(), "the incarnation is written before the session has begun");
        self.shared.wal.incarnation()
    }

    /// The body of the log record of a structural change.
    pub fn structural_record(&self, change: &[u8]) -> Vec<u8> {
        encode_structure(self.keyspace, &[self.sub_engine.as_slice(), change].concat())
    }

    /// Syncs the log for everything that was appended before (the write-ahead rule).
    pub fn sync_log(&self) -> Result<()> {
        if !self.logged || bug!(SkipWriteAhead) {
            return Ok(());
        }
        let wal = &self.shared.wal;
        wal.commit(wal.tail(), Durability::Sync)
    }
}
