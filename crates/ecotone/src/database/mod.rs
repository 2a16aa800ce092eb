//! A database: keyspaces that share one log, one manifest and one memory budget.
//!
//! `keyspaces.rs` opens, creates, lists and drops them.

use std::{fmt, path::Path, sync::Arc};

use crate::{
    Batch, Check, Durability, Error, Result, Stats,
    core::{DatabaseState, OpenDatabase},
    stats,
};

mod keyspaces;

pub use self::keyspaces::KeyspaceInfo;

/// An open database: a directory of keyspaces that share one write-ahead log and one memory budget.
///
/// [`Database::builder`] opens or creates one. A `Database` is a handle: clones share the database, and any thread may
/// use it. One process at a time has a database open. [`close`](Self::close) closes it; dropping the last handle does
/// the same. Keyspaces, iterators and batches count as handles.
///
/// # Errors
/// After a failed write or sync the database stops writing: writes return [`Error::Poisoned`], and reads go on.
/// [`failure`](Self::failure) tells the cause. Reopen the database to recover everything that is durable. On a full
/// disk, writes return [`Error::NoSpace`] until there is space; no reopening is needed. After a close every call
/// returns [`Error::Closed`], and in a forked child process [`Error::Forked`].
///
/// # Examples
/// ```
/// use ecotone::{Database, HashOptions, KeyspaceOptions, Merge};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("db");
/// let database = Database::builder(&path).memory_budget(64 << 20).open()?;
/// let towns = database.keyspace("towns", KeyspaceOptions::default())?;
/// let visits = database.hash_keyspace("visits", HashOptions::default())?;
/// towns.insert("Zwolle", "52.51 6.09")?;
/// visits.merge("Zwolle", Merge::Add(1))?;
/// database.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) open: OpenDatabase,
}

impl Database {
    /// Returns the directory of the database, as given to [`builder`](Self::builder).
    pub fn path(&self) -> &Path {
        &self.open.path
    }

    /// Returns an empty batch of writes to keyspaces of this database.
    ///
    /// The batch is as durable as the strongest handle that its writes name, unless [`Batch::durability`] sets
    /// something else.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
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

    /// Writes everything to the data files, unlogged keyspaces included, and stores a checkpoint.
    ///
    /// When it returns, everything written before the call survives a power failure, and the next opening has nothing
    /// to replay. It takes long if much is unflushed. For the durability of logged keyspaces, [`sync`](Self::sync) is
    /// enough.
    ///
    /// # Errors
    /// - [`Error::NoSpace`] if the disk is full. Writes to logged keyspaces stay in the log; call it again later.
    /// - [`Error::Closed`], [`Error::Poisoned`] and [`Error::Forked`], as for a write.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// let archive = database.keyspace("archive", ecotone::KeyspaceOptions::default().unlogged())?;
    /// archive.insert("page 1", "once upon a time")?;
    /// database.flush()?; // page 1 survives a power failure now
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush(&self) -> Result<()> {
        self.open.check_writable()?;
        self.open.retry_without_memory(|| self.open.flush_all())
    }

    /// Makes everything written to logged keyspaces so far survive a power failure, by one sync of the log.
    ///
    /// Many buffered writes and one `sync` cost less than as many synced writes. Unlogged keyspaces need
    /// [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`] and [`Error::Forked`], as for a write.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let squares = database.keyspace("squares", ecotone::KeyspaceOptions::default())?;
    /// for n in 0..100u64 {
    ///     squares.insert(n.to_be_bytes(), (n * n).to_be_bytes())?;
    /// }
    /// database.sync()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sync(&self) -> Result<()> {
        self.open.check_writable()?;
        self.open.wal.commit(self.open.wal.tail(), Durability::Sync)
    }

    /// Returns statistics: memory against the budget, the log, device requests, and the counters of each keyspace.
    ///
    /// In a forked child process only `failure` is set.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// let stats = database.stats();
    /// assert!(stats.memory_held <= stats.memory_budget && stats.failure.is_none());
    /// println!("the next opening replays {} bytes", stats.log.used_bytes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Stats {
        if self.open.life.is_over() {
            return Stats { failure: Some(Error::Forked.to_string()), ..Stats::default() };
        }
        stats::collect(&self.open)
    }

    /// Reads the whole database and checks every page, every fence and every record.
    ///
    /// Returns the name of each keyspace and a report. Damage is no error: it is in [`problems`](Check::problems) of
    /// the report, which is empty if the keyspace is sound. Other threads may read and write meanwhile.
    ///
    /// # Errors
    /// If the check could not be finished: [`Error::Io`], [`Error::Memory`], [`Error::Closed`] or [`Error::Forked`].
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # database.keyspace("towns", ecotone::KeyspaceOptions::default())?.insert("Zwolle", "52.51 6.09")?;
    /// for (name, check) in database.verify()? {
    ///     assert!(check.problems.is_empty(), "{name}: {:?}", check.problems);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Returns why the database has stopped writing, or `None` while it works.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// if let Some(cause) = database.failure() {
    ///     eprintln!("the database must be reopened: {cause}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn failure(&self) -> Option<Arc<Error>> {
        if self.open.life.is_over() { Some(Arc::new(Error::Forked)) } else { self.open.health.cause() }
    }

    /// Flushes, stores a checkpoint and closes the database.
    ///
    /// From now on other handles fail with [`Error::Closed`], and iterators do so after the records that they have read
    /// ahead. When the call returns, even with an error, any process can open the database again. Dropping the last
    /// handle does the same, but can only log an error. A second close does nothing.
    ///
    /// # Errors
    /// If not everything could be flushed. Acknowledged writes to logged keyspaces are still in the log.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{Database, Error, KeyspaceOptions};
    /// let towns = database.keyspace("towns", KeyspaceOptions::default())?;
    /// let path = database.path().to_owned();
    /// database.close()?;
    /// assert!(matches!(towns.get("Zwolle"), Err(Error::Closed { .. })));
    /// let again = Database::builder(path).create(false).open()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(self) -> Result<()> {
        self.open.shut_down()
    }

    /// The first handle.
    pub(crate) fn of(state: Arc<DatabaseState>) -> Database {
        Database { open: OpenDatabase::new(state) }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("storage", &self.open.storage).field("keyspaces", &self.keyspaces()).finish()
    }
}
