//! The public options of a database, and its opening with the engines of this version.

use std::{path::Path, sync::Arc};

use ecotone_adaptive::AdaptiveFamily;
use ecotone_engine::contract::EngineFactory;
use ecotone_hash::HashFamily;
use ecotone_lsm::LsmFamily;
use ecotone_substrate::{
    clock::SystemClock,
    disk::{Disk, Driver},
};
use ecotone_tree::TreeFamily;

use crate::{
    Database, Durability, Result,
    config::DatabaseOptions,
    core::{Components, recovery},
};

/// The options of a database, and its opening.
///
/// [`Database::builder`] makes one. The options belong to the opening, not to the database: each opening may have
/// others.
///
/// # Examples
/// ```
/// use ecotone::{Database, Durability};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("db");
/// let database = Database::builder(&path).memory_budget(64 << 20).durability(Durability::Sync).open()?;
/// assert_eq!(database.path(), path);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    options: DatabaseOptions,
}

impl Database {
    /// Returns the options to open or create the database in the directory `path`.
    ///
    /// Nothing happens before [`Builder::open`]. The directory need not exist yet; its parent must.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("db");
    /// use ecotone::Database;
    /// let database = Database::builder(&path).open()?;
    /// assert!(database.keyspaces().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder { options: DatabaseOptions::new(path.as_ref()) }
    }
}

impl Builder {
    /// Sets the memory budget, in bytes. Default 256 MiB, at least 16 MiB
    /// ([`MIN_BUDGET`](crate::limits::MIN_BUDGET)).
    ///
    /// The budget holds caches, indexes, log buffers, I/O buffers and everything else that grows. It is a limit that is
    /// kept by accounting, not a hint. The program's own code, its stacks and the results that it holds come on top,
    /// and at most 12 MiB. Give at least two percent of the data.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("db");
    /// use ecotone::Database;
    /// let database = Database::builder(&path).memory_budget(1 << 30).open()?;
    /// assert_eq!(database.stats().memory_budget, 1 << 30);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.options.memory_budget = bytes;
        self
    }

    /// Sets the limit of the memory for indexes and filters of tables in lsm and adaptive keyspaces, in bytes.
    ///
    /// Default: their share of the budget. They are part of the budget in any case.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("db");
    /// let builder = ecotone::Database::builder(&path).memory_budget(256 << 20);
    /// let database = builder.table_cache(32 << 20).open()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn table_cache(mut self, bytes: usize) -> Self {
        self.options.table_cache = Some(bytes);
        self
    }

    /// Sets the durability of writes that do not choose one. Default [`Durability::Buffered`].
    ///
    /// [`Keyspace::durability`](crate::Keyspace::durability) and
    /// [`Batch::durability`](crate::Batch::durability) choose another one. Unlogged keyspaces are always buffered.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("db");
    /// use ecotone::Database;
    /// use ecotone::{Durability, KeyspaceOptions};
    /// let database = Database::builder(&path).durability(Durability::Sync).open()?;
    /// let orders = database.keyspace("orders", KeyspaceOptions::default())?;
    /// orders.insert("order 1", "3 apples")?; // survives a power failure
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.options.durability = durability;
        self
    }

    /// Sets whether a missing database is created. Default true; otherwise [`open`](Self::open) fails.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("db");
    /// use ecotone::Database;
    /// use ecotone::Error;
    /// let missing = Database::builder(&path).create(false).open();
    /// assert!(matches!(missing, Err(Error::NotADatabase { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(mut self, create: bool) -> Self {
        self.options.create = create;
        self
    }

    /// Sets whether a thread that waits for the disk polls for a while before it sleeps. Default true.
    ///
    /// Between two polls it yields to other threads. Polling shortens waits and raises throughput, at the cost of
    /// processor time that would be idle otherwise. Turn it off where processor time is rationed or costs battery. A
    /// slow disk is hardly polled in any case.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("db");
    /// let database = ecotone::Database::builder(&path).poll_disk(false).open()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll_disk(mut self, poll: bool) -> Self {
        self.options.poll_disk = poll;
        self
    }

    /// Opens the database, or creates it, and replays its log.
    ///
    /// Replay takes time by the length of the log; [`close`](Database::close) leaves nothing to replay. If the database
    /// was closed, nothing is written before the first write.
    ///
    /// # Errors
    /// - [`Error::Locked`](crate::Error::Locked) if the database is open elsewhere.
    /// - [`Error::NotADatabase`](crate::Error::NotADatabase) if the path holds something else, or nothing while
    ///   [`create`](Self::create) is off.
    /// - [`Error::Corruption`](crate::Error::Corruption) and [`Error::NewerFormat`](crate::Error::NewerFormat) name the
    ///   file.
    /// - [`Error::Limit`](crate::Error::Limit) if the memory budget is less than
    ///   [`MIN_BUDGET`](crate::limits::MIN_BUDGET).
    /// - [`Error::Invalid`](crate::Error::Invalid) if the process may open fewer files than
    ///   [`MIN_FILES`](crate::limits::MIN_FILES).
    /// - [`Error::Memory`](crate::Error::Memory) if the memory budget is too small for this database.
    /// - [`Error::NoSpace`](crate::Error::NoSpace) if the disk is full.
    /// - [`Error::Io`](crate::Error::Io) for missing permissions, or a missing parent of the directory.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("db");
    /// use ecotone::Database;
    /// use ecotone::Error;
    /// let database = Database::builder(&path).open()?;
    /// assert!(matches!(Database::builder(&path).open(), Err(Error::Locked { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(self) -> Result<Database> {
        let options = self.options;
        options.check()?;
        options.check_path()?;
        let storage = Arc::new(Disk::with_driver(&options.path, options.create, Driver::found(options.poll_disk))?);
        let tree = TreeFamily::default();
        let lsm = options.table_cache.map_or_else(LsmFamily::default, LsmFamily::with_table_cache);
        let lsm = lsm.behind(Arc::new(tree.clone()));
        let adaptive = AdaptiveFamily::beside(&lsm, &tree);
        let families: Vec<Arc<dyn EngineFactory>> =
            vec![Arc::new(tree), Arc::new(lsm), Arc::new(HashFamily::default()), Arc::new(adaptive)];
        let parts = Components { storage, clock: Arc::new(SystemClock::default()), workers: options.workers, families };
        recovery::open(&options, parts).map(Database::of)
    }

    #[doc(hidden)]
    pub fn open_parts(self, parts: Components) -> Result<Database> {
        self.options.check()?;
        recovery::open(&self.options, parts).map(Database::of)
    }

    /// The path of the database.
    pub(crate) fn path(&self) -> &Path {
        &self.options.path
    }
}
