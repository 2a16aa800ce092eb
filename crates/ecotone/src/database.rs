//! A database: keyspaces that share one log, one manifest and one memory budget.

use std::{fmt, path::Path, sync::Arc};

use ecotone_engine::contract::AnyEngine;

use crate::{
    Batch, Check, Durability, Error, HashKeyspace, HashKeyspaceOptions, Keyspace, KeyspaceOptions, Result, Stats,
    core::{DatabaseState, KeyspaceState, OpenDatabase},
    handle::KeyspaceHandle,
    stats,
};

/// A handle of an open database. Clones share the database. Dropping the last handle closes it; keyspaces, iterators
/// and batches count as handles.
#[derive(Clone)]
pub struct Database {
    pub(crate) open: OpenDatabase,
}

/// An entry of [`Database::keyspaces`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceInfo {
    /// The keyspace's name.
    pub name: String,
    /// The keyspace's id, never reused within the database.
    pub id: u32,
    /// The engine's name.
    pub engine: &'static str,
    /// Whether writes to the keyspace are in the log.
    pub logged: bool,
}

impl Database {
    /// The directory of the database, as given to [`builder`](Self::builder).
    pub fn path(&self) -> &Path {
        &self.open.path
    }

    /// Opens the keyspace `name`, or creates it with `options`. An existing keyspace keeps the options of its creation.
    ///
    /// # Errors
    /// - The name is empty, longer than [`MAX_NAME`](crate::limits::MAX_NAME) bytes or holds control characters.
    /// - The keyspace exists with another engine, or logged where the options say unlogged, or the reverse.
    /// - An option is out of its range, whether the keyspace exists or not.
    /// - The disk is full.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.ordered(self.open.open_or_create(name, &options.creation)?)
    }

    /// Creates a keyspace. It is durable when the call returns.
    ///
    /// # Errors
    /// The errors of [`keyspace`](Self::keyspace). Also fails if a keyspace of this name exists.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.ordered(self.open.create(name, &options.creation, false)?)
    }

    /// Opens an existing keyspace.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`] if there is none; [`Error::Invalid`] if it is a hashed keyspace.
    pub fn open_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.ordered(self.open.find(name)?)
    }

    /// As [`keyspace`](Self::keyspace), for a hashed keyspace. Takes [`HashOptions`](crate::HashOptions) too.
    pub fn hash_keyspace(&self, name: &str, options: impl Into<HashKeyspaceOptions>) -> Result<HashKeyspace> {
        self.hashed(self.open.open_or_create(name, &options.into().creation)?)
    }

    /// As [`create_keyspace`](Self::create_keyspace), for a hashed keyspace.
    pub fn create_hash_keyspace(&self, name: &str, options: impl Into<HashKeyspaceOptions>) -> Result<HashKeyspace> {
        self.hashed(self.open.create(name, &options.into().creation, false)?)
    }

    /// As [`open_keyspace`](Self::open_keyspace), for a hashed keyspace.
    pub fn open_hash_keyspace(&self, name: &str) -> Result<HashKeyspace> {
        self.hashed(self.open.find(name)?)
    }

    /// The keyspaces, by name. Empty in a forked child process.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        if self.open.life.is_over() {
            return Vec::new();
        }
        let info = |space: &Arc<KeyspaceState>| KeyspaceInfo {
            name: space.name.clone(),
            id: space.id,
            engine: space.kind,
            logged: space.logged,
        };
        self.open.spaces.read().values().map(info).collect()
    }

    /// Drops a keyspace with all its records, durably. Its space returns to the file system. From now on its handles
    /// fail with [`Error::Closed`].
    ///
    /// # Errors
    /// - [`Error::UnknownKeyspace`] if there is none of this name.
    /// - [`Error::Closed`], [`Error::Poisoned`] and [`Error::Forked`], as for a write.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.open.drop_keyspace(name)
    }

    /// Starts an empty batch. It is as durable as the strongest handle that its writes name, unless
    /// [`Batch::durability`] sets something else.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).memory_budget(64 << 20).open()?;
    /// # let stock = database.keyspace("stock", ecotone::KeyspaceOptions::default())?;
    /// # let sales = database.hash_keyspace("sales", ecotone::HashOptions::default())?;
    /// let mut batch = database.batch();
    /// batch.insert(&stock, "apples", "11");
    /// batch.insert(&sales, "2031-05-06/1", "1 apple");
    /// batch.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch(&self) -> Batch {
        Batch::new(self.open.clone())
    }

    /// Makes everything written so far durable, flushes it to the data files, unlogged keyspaces included, and stores a
    /// checkpoint. The next open then has nothing to replay. Takes long if much is unflushed.
    ///
    /// # Errors
    /// - [`Error::NoSpace`] if the disk is full. Writes to logged keyspaces stay in the log; call it again later.
    /// - [`Error::Closed`], [`Error::Poisoned`] and [`Error::Forked`], as for a write.
    pub fn flush(&self) -> Result<()> {
        self.open.check_writable()?;
        self.open.retry_without_memory(|| self.open.flush_all())
    }

    /// Makes everything written to logged keyspaces so far survive a power failure, by one sync of the log.
    /// Unlogged keyspaces need [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`] and [`Error::Forked`], as for a write.
    pub fn sync(&self) -> Result<()> {
        self.open.check_writable()?;
        self.open.wal.commit(self.open.wal.tail(), Durability::Sync)
    }

    /// Statistics: memory against the budget, the log, device requests, and the counters of each keyspace. In a forked
    /// child process only `failure` is set.
    pub fn stats(&self) -> Stats {
        if self.open.life.is_over() {
            return Stats { failure: Some(Error::Forked.to_string()), ..Stats::default() };
        }
        stats::collect(&self.open)
    }

    /// Reads the whole database and checks every page, every fence and every record. Returns a report for each
    /// keyspace. Damage is no error: it is in [`problems`](Check::problems) of the report, which is empty if the
    /// keyspace is sound.
    ///
    /// # Errors
    /// If the check could not be finished.
    pub fn verify(&self) -> Result<Vec<(String, Check)>> {
        self.open.check_open()?;
        let spaces: Vec<_> = self.open.spaces.read().values().cloned().collect();
        let checked =
            spaces.iter().filter_map(|space| match self.open.retry_without_memory(|| space.engine().verify()) {
                // The keyspace was dropped meanwhile.
                Err(Error::Closed { .. }) if !self.open.has(space) => None,
                check => Some(check.map(|check| (space.name.clone(), check))),
            });
        checked.collect()
    }

    /// Why the database has stopped writing; `None` while it works.
    pub fn failure(&self) -> Option<Arc<Error>> {
        if self.open.life.is_over() { Some(Arc::new(Error::Forked)) } else { self.open.health.cause() }
    }

    /// Flushes, stores a checkpoint and closes the database. From now on other handles and iterators fail with
    /// [`Error::Closed`]. When the call returns, even with an error, any process can open the database again. Dropping
    /// the last handle does the same, but can only log an error.
    ///
    /// # Errors
    /// If not everything could be flushed. Acknowledged writes to logged keyspaces are still in the log.
    pub fn close(self) -> Result<()> {
        self.open.shut_down()
    }

    /// The first handle.
    pub(crate) fn of(state: Arc<DatabaseState>) -> Database {
        Database { open: OpenDatabase::new(state) }
    }

    fn ordered(&self, space: Arc<KeyspaceState>) -> Result<Keyspace> {
        let AnyEngine::Ordered(engine) = &space.made else { return Err(space.wrong_kind()) };
        let engine = engine.clone();
        Ok(Keyspace { handle: KeyspaceHandle::new(self.open.clone(), space, engine) })
    }

    fn hashed(&self, space: Arc<KeyspaceState>) -> Result<HashKeyspace> {
        let AnyEngine::Hashed(engine) = &space.made else { return Err(space.wrong_kind()) };
        let engine = engine.clone();
        Ok(HashKeyspace { handle: KeyspaceHandle::new(self.open.clone(), space, engine) })
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("storage", &self.open.storage).field("keyspaces", &self.keyspaces()).finish()
    }
}
