//! The creation options of hashed keyspaces.

use ecotone_engine::options::EngineOptions;
use ecotone_hash::HashOptions;

use super::keyspace::CreateOptions;

/// The name of the hash engine in files and tools.
pub(crate) const HASH: &str = "hash";

/// The creation options of a [`HashKeyspace`](crate::HashKeyspace): [`HashOptions`], and whether writes go to the log.
///
/// They are checked when [`Database::hash_keyspace`](crate::Database::hash_keyspace) gets them, and fixed when the
/// keyspace is created.
///
/// # Examples
/// ```
/// use ecotone::{HashKeyspaceOptions, HashOptions};
/// # let directory = tempfile::tempdir()?;
/// # let database = ecotone::Database::builder(directory.path().join("db")).memory_budget(64 << 20).open()?;
/// let visits = database.hash_keyspace("visits", HashOptions::default().disk(1 << 30))?;
/// let sessions = HashKeyspaceOptions::from(HashOptions::default().read_cache(false)).unlogged();
/// let sessions = database.hash_keyspace("sessions", sessions)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct HashKeyspaceOptions {
    pub(crate) creation: CreateOptions,
}

impl Default for HashKeyspaceOptions {
    /// Returns the options of a logged keyspace with the engine's default options.
    fn default() -> Self {
        HashOptions::default().into()
    }
}

impl From<HashOptions> for HashKeyspaceOptions {
    /// Returns the options of a logged keyspace with these options of the engine.
    fn from(options: HashOptions) -> Self {
        HashKeyspaceOptions { creation: CreateOptions::new(HASH, options.settings()) }
    }
}

impl HashKeyspaceOptions {
    /// Keeps the operations of this keyspace out of the log, as
    /// [`KeyspaceOptions::unlogged`](crate::KeyspaceOptions::unlogged) does.
    ///
    /// Its writes then take no locks of the database, and those of a batch are made one by one.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::HashKeyspaceOptions;
    /// let sessions = database.hash_keyspace("sessions", HashKeyspaceOptions::default().unlogged())?;
    /// assert!(!sessions.is_logged());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unlogged(self) -> Self {
        HashKeyspaceOptions { creation: self.creation.unlogged() }
    }

    /// Sets an option of the engine by its name, as [`HashOptions::set`] does, for tools that read options from a
    /// command line.
    ///
    /// Unknown names and bad values are errors when the keyspace is created.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::HashKeyspaceOptions;
    /// database.hash_keyspace("visits", HashKeyspaceOptions::default().set("read_cache", "off"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set(self, option: impl Into<String>, value: impl Into<String>) -> Self {
        HashKeyspaceOptions { creation: self.creation.set(option.into(), value.into()) }
    }

    /// Sets the engine by its name.
    #[doc(hidden)]
    pub fn engine_named(self, name: &str) -> Self {
        HashKeyspaceOptions { creation: self.creation.engine_named(name) }
    }
}
