//! What the keyspaces of several engines do with files that are written once.

use std::collections::HashSet;

use ecotone_substrate::{
    Error, Result, Seq, bug,
    environment::Environment,
    limits::MAX_TABLES,
    storage::{FileId, Storage},
    table::{File, Name},
    wal::{Durability, RecordKind, Room, encode_structure},
};
use ecotone_sys::primitive::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};

use crate::engine::Context;

/// Where damage is told that is in no file of a keyspace.
pub(crate) const RECORD: &str = "the log's structural record";

/// What files of one keyspace are made, named and removed by, with what it consists of now.
#[derive(Debug)]
pub(crate) struct Catalog<S> {
    context: Context,
    environment: Environment,
    state: Mutex<S>,
    /// Whether the keyspace was dropped.
    retired: AtomicBool,
}

impl<S> Catalog<S> {
    /// Of a keyspace that consists of this. Its files are made and opened with `environment`.
    pub(crate) fn new(context: Context, environment: Environment, state: S) -> Catalog<S> {
        Catalog { context, environment, state: Mutex::new(state), retired: AtomicBool::new(false) }
    }

    /// What the keyspace was told at its birth.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// What files are made and opened with.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// What the keyspace consists of. Locked while the record of a change is appended, so that roots have it wholly or
    /// not at all, and never across I/O.
    pub(crate) fn state(&self) -> MutexGuard<'_, S> {
        self.state.lock()
    }

    /// The keyspace was dropped: nothing becomes a part of it any more, and whoever has removed its files has removed
    /// all.
    pub(crate) fn retire(&self) {
        // Under the lock, so that a change that has come before has named its files.
        let _state = self.state.lock();
        self.retired.store(true, Ordering::Release);
    }

    /// Whether the keyspace was dropped.
    #[inline]
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// # Errors
    /// If the keyspace was dropped.
    #[inline]
    pub(crate) fn check_live(&self) -> Result<()> {
        if self.is_retired() { Err(Error::Closed { what: "the keyspace" }) } else { Ok(()) }
    }

    /// What tells a file from all others of its role.
    pub(crate) fn name_of(&self, File { number, birth }: File) -> Name {
        Name { database: self.environment.database, keyspace: self.context.keyspace, number, birth }
    }

    /// Begins a change, of which the log has room for the record. Gives the state, which changes with nobody else
    /// meanwhile, and what appends the record and tells its place.
    ///
    /// # Errors
    /// If the log has no room, writing has stopped, or the keyspace was dropped. Then nothing has changed.
    pub(crate) fn begin<'c>(&'c self, change: &[u8]) -> Result<(MutexGuard<'c, S>, impl FnOnce() -> Seq + use<'c, S>)> {
        let wal = &self.context.shared.wal;
        let body = self.context.structure_record(change);
        let reservation = wal.reserve(Room::Structure, body.len())?;
        let state = self.state.lock();
        self.check_live()?;
        Ok((state, move || wal.append(reservation, RecordKind::Structure, &body, |_| ()).seq))
    }

    /// A record of the log that says something of the keyspace which cannot be.
    pub(crate) fn misfit(&self, what: &str) -> Error {
        Error::corruption(RECORD, 0, format!("it does not fit the keyspace {}: {what}", self.context.keyspace))
    }

    /// Removes files that nothing names any more.
    pub(crate) fn remove(&self, mut files: impl Iterator<Item = FileId>) -> Result<()> {
        let Environment { storage, health, .. } = &self.environment;
        files.try_for_each(|file| storage.remove_if_there(file)).map_err(|error| health.poison(error))
    }
}

/// Numbers and births that were given to the files of a keyspace.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// The number of the last file.
    last: u32,
    /// Files that were made in this life.
    births: u32,
}

impl Numbers {
    /// Goes on behind the highest that is named.
    pub(crate) fn behind(highest: Option<u32>) -> Numbers {
        Numbers { last: highest.unwrap_or(0), births: 0 }
    }

    /// A number that is not taken, and a birth that no file of the keyspace has or had: the incarnation of the log
    /// tells sessions apart.
    pub(crate) fn next(&mut self, context: &Context, taken: impl Fn(u32) -> bool) -> File {
        let session = context.incarnation() << 32;
        self.births = self.births.checked_add(1).expect("a life has fewer files");
        loop {
            self.last = if self.last + 1 < MAX_TABLES { self.last + 1 } else { 1 };
            if !taken(self.last) {
                return File { number: self.last, birth: session | u64::from(self.births) };
            }
        }
    }
}

/// Removes the files of a keyspace that nothing names.
pub(crate) fn remove_strays(storage: &dyn Storage, keyspace: u32, named: &[FileId]) -> Result<()> {
    let (mine, named) = (|file: &FileId| file.keyspace() == Some(keyspace), named.iter().collect::<HashSet<_>>());
    let strays: Vec<FileId> = storage.list()?.into_iter().filter(|file| mine(file) && !named.contains(file)).collect();
    strays.iter().try_for_each(|file| storage.remove(*file))?;
    if strays.is_empty() { Ok(()) } else { storage.sync_dir() }
}

impl Context {
    /// Has the session begin, unless it has: before anything is written that carries its incarnation (decision 17,
    /// invariant 13).
    ///
    /// # Errors
    /// `NoSpace` if there is no space for a log segment.
    pub(crate) fn begin_session(&self) -> Result<()> {
        self.shared.wal.begin_session().map(drop)
    }

    /// The incarnation of this session, which has begun.
    pub(crate) fn incarnation(&self) -> u64 {
        debug_assert!(self.shared.wal.has_begun(), "the incarnation is written before the session has begun");
        self.shared.wal.incarnation()
    }

    /// The body of the log record of a change of the structure.
    pub(crate) fn structure_record(&self, change: &[u8]) -> Vec<u8> {
        encode_structure(self.keyspace, &[self.part.as_slice(), change].concat())
    }

    /// The write-ahead rule, for everything that was appended before.
    pub(crate) fn sync_log(&self) -> Result<()> {
        if !self.logged || bug!(SkipWriteAhead) {
            return Ok(());
        }
        let wal = &self.shared.wal;
        wal.commit(wal.tail(), Durability::Sync)
    }
}
