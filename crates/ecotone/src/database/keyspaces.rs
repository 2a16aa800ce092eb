//! The keyspaces of a database: opening, creation, the list and removal.

use std::sync::Arc;

use ecotone_engine::contract::AnyEngine;

use crate::{
    Database, HashKeyspace, HashKeyspaceOptions, Keyspace, KeyspaceOptions, Result, core::KeyspaceState,
    handle::KeyspaceHandle,
};

/// An entry of [`Database::keyspaces`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceInfo {
    /// The keyspace's name.
    pub name: String,
    /// The keyspace's id. It is never reused within the database.
    pub id: u32,
    /// The engine's name: `tree`, `lsm`, `adaptive` or `hash`.
    pub engine: &'static str,
    /// Whether writes to the keyspace go to the log.
    pub logged: bool,
}

/// Keyspaces.
impl Database {
    /// Opens the ordered keyspace `name`, or creates it with `options`.
    ///
    /// An existing keyspace keeps the options of its creation. A keyspace is durable when the call that creates it
    /// returns. It has no files and takes a kilobyte of memory until its first write.
    ///
    /// # Errors
    /// - [`Error::Limit`](crate::Error::Limit) if the name is empty or longer than
    ///   [`MAX_NAME`](crate::limits::MAX_NAME) bytes, or there are [`MAX_KEYSPACES`](crate::limits::MAX_KEYSPACES)
    ///   keyspaces.
    /// - [`Error::Invalid`](crate::Error::Invalid) if the name holds control characters; if the keyspace exists with
    ///   another engine, or logged where the options say unlogged, or the reverse; if an option is out of its range,
    ///   whether the keyspace exists or not.
    /// - [`Error::NoSpace`](crate::Error::NoSpace) if the disk is full.
    /// - [`Error::Closed`](crate::Error::Closed), [`Error::Poisoned`](crate::Error::Poisoned) and
    ///   [`Error::Forked`](crate::Error::Forked), as for a write.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{Engine, KeyspaceOptions};
    /// let towns = database.keyspace("towns", KeyspaceOptions::default())?;
    /// let again = database.keyspace("towns", KeyspaceOptions::default())?;
    /// towns.insert("Zwolle", "52.51 6.09")?;
    /// assert!(again.contains_key("Zwolle")?);
    /// assert!(database.keyspace("towns", KeyspaceOptions::default().engine(Engine::Tree)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.ordered(self.open.open_or_create(name, &options.creation)?)
    }

    /// Creates the ordered keyspace `name`, which must not exist.
    ///
    /// It is durable when the call returns.
    ///
    /// # Errors
    /// Those of [`keyspace`](Self::keyspace), and [`Error::Invalid`](crate::Error::Invalid) if a keyspace of this name
    /// exists.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::KeyspaceOptions;
    /// database.create_keyspace("towns", KeyspaceOptions::default())?;
    /// assert!(database.create_keyspace("towns", KeyspaceOptions::default()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.ordered(self.open.create(name, &options.creation, false)?)
    }

    /// Opens the existing ordered keyspace `name`, whatever its options are.
    ///
    /// # Errors
    /// [`Error::UnknownKeyspace`](crate::Error::UnknownKeyspace) if there is none;
    /// [`Error::Invalid`](crate::Error::Invalid) if it is a hashed keyspace; [`Error::Closed`](crate::Error::Closed)
    /// and [`Error::Forked`](crate::Error::Forked).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{Error, KeyspaceOptions};
    /// database.create_keyspace("towns", KeyspaceOptions::default())?;
    /// database.open_keyspace("towns")?;
    /// assert!(matches!(database.open_keyspace("streets"), Err(Error::UnknownKeyspace { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.ordered(self.open.find(name)?)
    }

    /// Opens the hashed keyspace `name`, or creates it with `options`, as [`keyspace`](Self::keyspace) does.
    ///
    /// `options` are [`HashOptions`](crate::HashOptions), or [`HashKeyspaceOptions`] for an unlogged keyspace.
    ///
    /// # Errors
    /// Those of [`keyspace`](Self::keyspace).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{HashKeyspaceOptions, HashOptions};
    /// let visits = database.hash_keyspace("visits", HashOptions::default())?;
    /// let sessions = database.hash_keyspace("sessions", HashKeyspaceOptions::default().unlogged())?;
    /// assert!(visits.is_logged() && !sessions.is_logged());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hash_keyspace(&self, name: &str, options: impl Into<HashKeyspaceOptions>) -> Result<HashKeyspace> {
        self.hashed(self.open.open_or_create(name, &options.into().creation)?)
    }

    /// Creates the hashed keyspace `name`, which must not exist.
    ///
    /// # Errors
    /// Those of [`create_keyspace`](Self::create_keyspace).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::HashOptions;
    /// let visits = database.create_hash_keyspace("visits", HashOptions::default().disk(1 << 30))?;
    /// assert!(database.create_hash_keyspace("visits", HashOptions::default()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_hash_keyspace(&self, name: &str, options: impl Into<HashKeyspaceOptions>) -> Result<HashKeyspace> {
        self.hashed(self.open.create(name, &options.into().creation, false)?)
    }

    /// Opens the existing hashed keyspace `name`, whatever its options are.
    ///
    /// # Errors
    /// Those of [`open_keyspace`](Self::open_keyspace); [`Error::Invalid`](crate::Error::Invalid) if it is an ordered
    /// keyspace.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// database.create_hash_keyspace("visits", ecotone::HashOptions::default())?;
    /// let visits = database.open_hash_keyspace("visits")?;
    /// assert!(database.open_keyspace("visits").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_hash_keyspace(&self, name: &str) -> Result<HashKeyspace> {
        self.hashed(self.open.find(name)?)
    }

    /// Returns the keyspaces, sorted by name.
    ///
    /// Empty in a forked child process.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
    /// database.hash_keyspace("visits", ecotone::HashOptions::default())?;
    /// let engines: Vec<_> = database.keyspaces().iter().map(|keyspace| keyspace.engine).collect();
    /// assert_eq!(engines, ["adaptive", "hash"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Drops the keyspace `name` with all its records.
    ///
    /// It is gone for good when the call returns, and its space returns to the file system. From now on its handles
    /// fail with [`Error::Closed`](crate::Error::Closed). The name may be used again.
    ///
    /// # Errors
    /// - [`Error::UnknownKeyspace`](crate::Error::UnknownKeyspace) if there is none of this name.
    /// - [`Error::Closed`](crate::Error::Closed), [`Error::Poisoned`](crate::Error::Poisoned) and
    ///   [`Error::Forked`](crate::Error::Forked), as for a write.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// let towns = database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
    /// database.drop_keyspace("towns")?;
    /// assert!(database.keyspaces().is_empty() && towns.insert("Zwolle", "").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.open.drop_keyspace(name)
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
