//! Batches: several writes that are recovered as one.

use std::sync::Arc;

use ecotone_engine::contract::Operation;

use crate::{
    Durability, Error, HashKeyspace, Keyspace, Result,
    core::{KeyspaceState, OpenDatabase, commit::TargetedOperation},
};

/// A keyspace of either kind, as an argument of [`Batch::insert`] and [`Batch::remove`].
///
/// [`Keyspace`] and [`HashKeyspace`] implement it; other crates cannot.
pub trait AnyKeyspace: sealed::HasKeyspace {}

impl AnyKeyspace for Keyspace {}
impl AnyKeyspace for HashKeyspace {}

mod sealed {
    use std::sync::Arc;

    use crate::{Durability, HashKeyspace, Keyspace, core::KeyspaceState};

    /// A keyspace and the durability of its handle. The module is private, so other crates cannot implement
    /// [`AnyKeyspace`](super::AnyKeyspace).
    pub struct Named<'a>(pub(crate) &'a Arc<KeyspaceState>, pub(crate) Durability);

    pub trait HasKeyspace {
        #[doc(hidden)]
        fn named(&self) -> Named<'_>;
    }

    impl HasKeyspace for Keyspace {
        fn named(&self) -> Named<'_> {
            Named(&self.handle.space, self.handle.durability)
        }
    }

    impl HasKeyspace for HashKeyspace {
        fn named(&self) -> Named<'_> {
            Named(&self.handle.space, self.handle.durability)
        }
    }
}

/// Several writes that are recovered whole or not at all.
///
/// [`Database::batch`](crate::Database::batch) makes one. The writes may go to several keyspaces of the database,
/// hashed ones included, but not to logged and unlogged ones together. Nothing is written before
/// [`commit`](Self::commit); dropping the batch discards it. If a key is written several times, the last write wins.
/// The encoded batch has at most [`MAX_BATCH`](crate::limits::MAX_BATCH) bytes.
///
/// A batch is atomic across crashes, not for concurrent readers: it becomes visible key by key.
///
/// # Examples
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
/// # let accounts = database.keyspace("accounts", ecotone::KeyspaceOptions::default())?;
/// use ecotone::Durability;
/// let mut batch = database.batch().durability(Durability::Sync);
/// batch.insert(&accounts, "ada", "70");
/// batch.insert(&accounts, "ben", "30");
/// batch.remove(&accounts, "cleo");
/// batch.commit()?; // survives a power failure as a whole
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    database: OpenDatabase,
    /// `None`: the strongest durability of the handles.
    durability: Option<Durability>,
    /// The strongest durability of the handles; `None` without writes.
    of_handles: Option<Durability>,
    writes: Vec<Write>,
}

#[derive(Debug)]
struct Write {
    space: Arc<KeyspaceState>,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Write {
    fn target(&self) -> TargetedOperation<'_> {
        TargetedOperation { space: &self.space, operation: Operation { key: &self.key, value: self.value.as_deref() } }
    }
}

impl Batch {
    pub(crate) fn new(database: OpenDatabase) -> Self {
        Batch { database, durability: None, of_handles: None, writes: Vec::new() }
    }

    /// Sets how durable the batch is when [`commit`](Self::commit) returns.
    ///
    /// Default: the strongest durability of the keyspace handles that its writes name. A batch of unlogged keyspaces
    /// can only be [`Durability::Buffered`].
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let orders = database.keyspace("orders", ecotone::KeyspaceOptions::default())?;
    /// use ecotone::Durability;
    /// let mut batch = database.batch().durability(Durability::Sync);
    /// batch.insert(&orders, "order 1", "3 apples");
    /// batch.commit()?; // survives a power failure
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Adds a write of `value` under `key`.
    ///
    /// The limits of key and value are checked at the [`commit`](Self::commit).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
    /// # let visits = database.hash_keyspace("visits", ecotone::HashOptions::default())?;
    /// let mut batch = database.batch();
    /// batch.insert(&towns, "Zwolle", "52.51 6.09");
    /// batch.insert(&visits, "Zwolle", 0i64.to_le_bytes());
    /// assert!(towns.is_empty()?); // nothing is written yet
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert(&mut self, keyspace: &impl AnyKeyspace, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.push(keyspace.named(), key.into(), Some(value.into()));
    }

    /// Adds a deletion of `key`. A missing key is no error.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
    /// towns.insert("Zwolle", "52.51 6.09")?;
    /// let mut batch = database.batch();
    /// batch.remove(&towns, "Zwolle");
    /// batch.commit()?;
    /// assert!(!towns.contains_key("Zwolle")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(&mut self, keyspace: &impl AnyKeyspace, key: impl Into<Vec<u8>>) {
        self.push(keyspace.named(), key.into(), None);
    }

    /// Returns the number of writes in the batch. Several writes of a key count each.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
    /// let mut batch = database.batch();
    /// batch.insert(&towns, "Zwolle", "52.5 6.1");
    /// batch.insert(&towns, "Zwolle", "52.51 6.09");
    /// assert_eq!(batch.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Returns whether the batch has no writes. The commit of an empty batch does nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Writes the batch.
    ///
    /// When the call returns, the batch is as durable as [`durability`](Self::durability) says. A crash before that
    /// leaves all of it or nothing.
    ///
    /// # Errors
    /// - The errors of a [write](crate::Keyspace#errors).
    /// - [`Error::Limit`] if the batch is too large.
    /// - [`Error::Invalid`] if it mixes logged and unlogged keyspaces, or names a keyspace that was dropped or belongs
    ///   to another database.
    ///
    /// After an error nothing of the batch is written, with one exception: the writes to an unlogged hashed keyspace
    /// are made one by one, so the first ones may be there.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let open = database.keyspace("open", ecotone::KeyspaceOptions::default())?;
    /// # let done = database.keyspace("done", ecotone::KeyspaceOptions::default())?;
    /// let mut batch = database.batch();
    /// batch.remove(&open, "job 7");
    /// batch.insert(&done, "job 7", "ok");
    /// batch.commit()?;
    /// assert!(open.is_empty()? && done.contains_key("job 7")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit(self) -> Result<()> {
        self.database.check_open()?;
        let spaces = self.database.spaces.read();
        let ours = |write: &Write| spaces.get(&write.space.name).is_some_and(|space| Arc::ptr_eq(space, &write.space));
        if let Some(stranger) = self.writes.iter().find(|write| !ours(write)) {
            let name = &stranger.space.name;
            return Err(Error::Invalid(format!(
                "the batch names the keyspace {name:?}, which was dropped or belongs to another database"
            )));
        }
        drop(spaces);
        let targets: Vec<TargetedOperation<'_>> = self.writes.iter().map(Write::target).collect();
        match self.durability.or(self.of_handles) {
            Some(durability) => self.database.write_batch(&targets, durability),
            // It has no writes.
            None => Ok(()),
        }
    }

    fn push(&mut self, keyspace: sealed::Named<'_>, key: Vec<u8>, value: Option<Vec<u8>>) {
        let sealed::Named(space, durability) = keyspace;
        self.of_handles = self.of_handles.max(Some(durability));
        self.writes.push(Write { space: space.clone(), key, value });
    }
}
