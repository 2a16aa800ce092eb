//! The handle of an ordered keyspace. Its methods follow `BTreeMap`; keys and values are byte strings.
//!
//! `points.rs` has the calls on single keys, `ranges.rs` those on ranges of keys, and `maintenance.rs` loading,
//! compaction, statistics and hints.

use std::fmt;

use ecotone_engine::contract::Ordered;

use crate::{Durability, Iter, Result, handle::KeyspaceHandle};

mod maintenance;
mod points;
mod ranges;

/// An ordered map from keys to values, stored in a [`Database`](crate::Database).
///
/// [`Database::keyspace`](crate::Database::keyspace) opens or creates one. A `Keyspace` is a handle: clones share the
/// records, any thread may use it, and it keeps the database open. Methods take `&self`.
///
/// Keys and values are byte strings. Keys have 1 to 1024 bytes and are ordered bytewise, so numbers sort if they are
/// stored as big-endian bytes. Key and value together have at most 1900 bytes ([`limits`](crate::limits)).
///
/// # Concurrency
/// A read sees a write from the moment it is applied, which may be before it is durable. Calls on one key take effect
/// one at a time. There are no snapshots; see [`Iter`] for what a scan sees beside writers. A write may wait a moment
/// while background work is behind ([`KeyspaceStats::writer_delays`](crate::KeyspaceStats::writer_delays)).
///
/// # Errors
/// Every *read* can return these errors:
///
/// - [`Error::Limit`](crate::Error::Limit) for an empty key, or a key above
///   [`MAX_KEY`](crate::limits::MAX_KEY) bytes.
/// - [`Error::Closed`](crate::Error::Closed) once the database is closed or the keyspace is dropped;
///   [`Error::Forked`](crate::Error::Forked) in a forked child process.
/// - [`Error::Corruption`](crate::Error::Corruption) or [`Error::Io`](crate::Error::Io) if a file cannot be read.
/// - [`Error::Memory`](crate::Error::Memory) if the budget has no memory for the call for some seconds.
///
/// Every *write* can return the errors of a read, and:
///
/// - [`Error::Limit`](crate::Error::Limit) for a record above [`MAX_RECORD`](crate::limits::MAX_RECORD) bytes.
/// - [`Error::NoSpace`](crate::Error::NoSpace) while the disk is full. Deletes go on a while longer.
/// - [`Error::Poisoned`](crate::Error::Poisoned) after a failed write or sync. Reads go on.
/// - [`Error::Invalid`](crate::Error::Invalid) for [`Durability::Sync`] on an unlogged keyspace.
///
/// A write of one key that fails with `Limit`, `Invalid`, `NoSpace` or `Memory` has changed nothing. After another
/// error, the next opening of the database tells whether it is there.
///
/// # Examples
/// ```
/// use ecotone::{Database, KeyspaceOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("db");
/// let database = Database::builder(&path).open()?;
/// let towns = database.keyspace("towns", KeyspaceOptions::default())?;
/// towns.insert("Zwolle", "52.51 6.09")?;
/// towns.insert("Almelo", "52.36 6.66")?;
/// for record in &towns {
///     let (name, place) = record?;
///     println!("{} is at {}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&place));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) handle: KeyspaceHandle<dyn Ordered>,
}

/// The handle itself.
impl Keyspace {
    /// Returns the name of the keyspace.
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    /// Returns the name of the engine, as [`Engine::name`](crate::Engine::name) gives it.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{Engine, KeyspaceOptions};
    /// let towns = database.keyspace("towns", KeyspaceOptions::default().engine(Engine::Tree))?;
    /// assert!(towns.name() == "towns" && towns.engine() == "tree" && towns.is_logged());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn engine(&self) -> &'static str {
        self.handle.space.kind
    }

    /// Returns whether writes go to the log. They do unless the keyspace was created
    /// [`unlogged`](crate::KeyspaceOptions::unlogged).
    pub fn is_logged(&self) -> bool {
        self.handle.space.logged
    }

    /// Returns a handle of the same keyspace whose writes have another durability.
    ///
    /// The handle itself keeps its durability. The first handle has the default of the database
    /// ([`Builder::durability`](crate::Builder::durability)), or [`Durability::Buffered`] if the keyspace is unlogged.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let orders = database.keyspace("orders", ecotone::KeyspaceOptions::default())?;
    /// use ecotone::Durability;
    /// let synced = orders.durability(Durability::Sync);
    /// orders.insert("draft", "3 apples")?; // survives a crash of the program
    /// synced.insert("order 1", "3 apples")?; // survives a power failure, and so does the draft now
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "this handle keeps its durability"]
    pub fn durability(&self, durability: Durability) -> Keyspace {
        Keyspace { handle: self.handle.durability(durability) }
    }
}

impl IntoIterator for &Keyspace {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Iter;

    /// Iterates over all records, as [`Keyspace::iter`] does.
    fn into_iter(self) -> Iter {
        self.iter()
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.debug("Keyspace", f)
    }
}
