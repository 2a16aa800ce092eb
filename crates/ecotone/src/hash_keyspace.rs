//! The handle of a hashed keyspace. Its methods follow `HashMap`; keys and values are byte strings.

use std::fmt;

use ecotone_engine::{contract::Hashed, merge::Merge};

use crate::{Durability, KeyspaceStats, Result, Swap, handle::KeyspaceHandle, hash_iter::HashIter};

/// An unordered map from keys to values, stored in a [`Database`](crate::Database).
///
/// [`Database::hash_keyspace`](crate::Database::hash_keyspace) opens or creates one. A `HashKeyspace` is a handle:
/// clones share the records, any thread may use it, and it keeps the database open. It finds keys by a hash, so it has
/// the calls of a [`Keyspace`](crate::Keyspace) on single keys, but no ranges.
///
/// The limits of keys and values, what concurrent readers see, and the errors are those of a
/// [`Keyspace`](crate::Keyspace#errors). A keyspace with a disk budget has one more error:
/// [`Error::DiskBudget`](crate::Error::DiskBudget).
///
/// # Examples
/// ```
/// use ecotone::{Database, HashOptions, Merge};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("db");
/// let database = Database::builder(&path).open()?;
/// let visits = database.hash_keyspace("visits", HashOptions::default())?;
/// for town in ["Zwolle", "Almelo", "Zwolle"] {
///     visits.merge(town, Merge::Add(1))?;
/// }
/// assert_eq!(visits.get("Zwolle")?, Some(2i64.to_le_bytes().to_vec()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HashKeyspace {
    pub(crate) handle: KeyspaceHandle<dyn Hashed>,
}

impl HashKeyspace {
    /// Returns the name of the keyspace.
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    /// Returns the name of the engine: `hash`.
    pub fn engine(&self) -> &'static str {
        self.handle.space.kind
    }

    /// Returns whether writes go to the log. They do unless the keyspace was created
    /// [`unlogged`](crate::HashKeyspaceOptions::unlogged).
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
    /// # let orders = database.hash_keyspace("orders", ecotone::HashOptions::default())?;
    /// use ecotone::Durability;
    /// orders.durability(Durability::Sync).insert("order 1", "3 apples")?; // survives a power failure
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "this handle keeps its durability"]
    pub fn durability(&self, durability: Durability) -> HashKeyspace {
        HashKeyspace { handle: self.handle.durability(durability) }
    }

    /// Inserts a record, or replaces the value of `key`.
    ///
    /// The old value is neither read nor returned; [`fetch_update`](Self::fetch_update) returns it. When the call
    /// returns, the write is as durable as the [`durability`](Self::durability) of this handle says.
    ///
    /// # Errors
    /// Those of a [write](crate::Keyspace#errors).
    /// If live data fills the disk budget of the keyspace, [`Error::DiskBudget`](crate::Error::DiskBudget); see
    /// [`HashOptions::disk`](crate::HashOptions).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.hash_keyspace("towns", ecotone::HashOptions::default())?;
    /// towns.insert("Utrecht", "52.1 5.1")?;
    /// towns.insert("Utrecht", "52.09 5.12")?;
    /// assert_eq!(towns.get("Utrecht")?.as_deref(), Some(&b"52.09 5.12"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.handle.insert(key.as_ref(), value.as_ref())
    }

    /// Removes `key` and its value. A missing key is no error.
    ///
    /// The old value is neither read nor returned; `fetch_update(key, |_| None)` returns it.
    ///
    /// # Errors
    /// Those of a [write](crate::Keyspace#errors).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.hash_keyspace("towns", ecotone::HashOptions::default())?;
    /// towns.insert("Utrecht", "52.09 5.12")?;
    /// towns.remove("Utrecht")?;
    /// towns.remove("Utrecht")?;
    /// assert_eq!(towns.get("Utrecht")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.handle.remove(key.as_ref())
    }

    /// Returns the value of `key`, or `None` if there is none.
    ///
    /// # Errors
    /// Those of a [read](crate::Keyspace#errors).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.hash_keyspace("towns", ecotone::HashOptions::default())?;
    /// towns.insert("Utrecht", "52.09 5.12")?;
    /// assert_eq!(towns.get("Utrecht")?, Some(b"52.09 5.12".to_vec()));
    /// assert_eq!(towns.get("Atlantis")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.handle.get(key.as_ref())
    }

    /// Copies the value of `key` into `value`, replacing its contents.
    ///
    /// Returns false and leaves `value` empty if there is none. With a reused buffer, a lookup of a record in memory
    /// does not allocate.
    ///
    /// # Errors
    /// Those of a [read](crate::Keyspace#errors).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.hash_keyspace("towns", ecotone::HashOptions::default())?;
    /// towns.insert("Utrecht", "52.09 5.12")?;
    /// let mut place = Vec::new();
    /// assert!(towns.get_into("Utrecht", &mut place)? && place == b"52.09 5.12");
    /// assert!(!towns.get_into("Atlantis", &mut place)? && place.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.handle.get_into(key.as_ref(), value)
    }

    /// Returns whether `key` has a value.
    ///
    /// # Errors
    /// Those of a [read](crate::Keyspace#errors).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.hash_keyspace("towns", ecotone::HashOptions::default())?;
    /// towns.insert("Utrecht", "52.09 5.12")?;
    /// assert!(towns.contains_key("Utrecht")? && !towns.contains_key("Atlantis")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.handle.contains_key(key.as_ref())
    }

    /// Returns the values of many keys, in the order of `keys`.
    ///
    /// The reads are in flight together, so this is much faster than one [`get`](Self::get) after the other. They are
    /// no snapshot: each value was the newest of its key at some time during the call.
    ///
    /// # Errors
    /// Those of a [read](crate::Keyspace#errors).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.hash_keyspace("towns", ecotone::HashOptions::default())?;
    /// towns.insert("Utrecht", "52.09 5.12")?;
    /// towns.insert("Zwolle", "52.51 6.09")?;
    /// let places = towns.multi_get(["Zwolle", "Atlantis", "Utrecht"])?;
    /// assert_eq!(places, [Some(b"52.51 6.09".to_vec()), None, Some(b"52.09 5.12".to_vec())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        self.handle.multi_get(keys)
    }

    /// Looks up many keys, as [`multi_get`](Self::multi_get) does, but lends the values.
    ///
    /// `found` is called once for each key, in any order, with its index in `keys` and its value. Records in memory
    /// cost no allocation.
    ///
    /// # Errors
    /// Those of a [read](crate::Keyspace#errors). After an error not all keys have been looked up.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let visits = database.hash_keyspace("visits", ecotone::HashOptions::default())?;
    /// visits.insert("one", "1")?;
    /// let mut bytes = 0;
    /// visits.multi_get_with(&[b"one", b"two"], |_, value| bytes += value.map_or(0, <[u8]>::len))?;
    /// assert_eq!(bytes, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn multi_get_with(&self, keys: &[&[u8]], found: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.handle.multi_get_with(keys, found)
    }

    /// Replaces the value of `key` by the result of `update`, atomically, and returns the old value.
    ///
    /// `None` stands for no value; returning it removes the key. If the key has no value and `update` returns none,
    /// nothing is written, and the call promises no more than a read.
    ///
    /// `update` runs without locks, and *again* whenever another write changed the value of the key meanwhile. So it
    /// should be cheap and have no effects of its own. It may use the database.
    ///
    /// # Errors
    /// Those of a [write](crate::Keyspace#errors). [`Error::Invalid`](crate::Error::Invalid) if other writes overtook
    /// the update a hundred thousand times. This happens if `update` itself writes another value to `key` in each run.
    ///
    /// # Panics
    /// If `update` panics. Nothing is written then.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let seats = database.hash_keyspace("seats", ecotone::HashOptions::default())?;
    /// seats.insert("14:00", "\x03")?;
    /// let take_one = |free: Option<&[u8]>| match free {
    ///     Some(&[free]) if free > 1 => Some(vec![free - 1]),
    ///     _ => None,
    /// };
    /// assert_eq!(seats.fetch_update("14:00", take_one)?, Some(vec![3]));
    /// assert_eq!(seats.get("14:00")?, Some(vec![2]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fetch_update(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.handle.fetch_update(key.as_ref(), update)
    }

    /// Replaces the value of `key` as [`fetch_update`](Self::fetch_update) does, and returns the new value.
    ///
    /// # Errors
    /// Those of [`fetch_update`](Self::fetch_update).
    ///
    /// # Panics
    /// If `update` panics. Nothing is written then.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let words = database.hash_keyspace("words", ecotone::HashOptions::default())?;
    /// let longer = |word: Option<&[u8]>| Some([word.unwrap_or_default(), b"!"].concat());
    /// assert_eq!(words.update_fetch("hello", longer)?, Some(b"!".to_vec()));
    /// assert_eq!(words.update_fetch("hello", longer)?, Some(b"!!".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn update_fetch(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.handle.update_fetch(key.as_ref(), update)
    }

    /// Replaces the value of `key` by `new` if it is `expected`, atomically.
    ///
    /// `None` stands for no value. The result says whether `new` was written; if not, it has the value that was found.
    ///
    /// # Errors
    /// Those of a [write](crate::Keyspace#errors).
    /// If live data fills the disk budget of the keyspace, [`Error::DiskBudget`](crate::Error::DiskBudget); see
    /// [`HashOptions::disk`](crate::HashOptions).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let locks = database.hash_keyspace("locks", ecotone::HashOptions::default())?;
    /// use ecotone::Swap;
    /// assert_eq!(locks.compare_and_swap("printer", None, Some(b"ada"))?, Swap::Done);
    /// assert_eq!(locks.compare_and_swap("printer", None, Some(b"ben"))?, Swap::Mismatch(Some(b"ada".to_vec())));
    /// assert_eq!(locks.compare_and_swap("printer", Some(b"ada"), None)?, Swap::Done);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Swap> {
        self.handle.compare_and_swap(key.as_ref(), expected, new)
    }

    /// Adds to the counter `key`, or appends to its value, atomically.
    ///
    /// A missing value counts as 0, or as empty. The caller need not read the old value. In an unlogged keyspace, a
    /// young record changes in place.
    ///
    /// # Errors
    /// Those of a [write](crate::Keyspace#errors). [`Error::Invalid`](crate::Error::Invalid) for an addition to a value
    /// that does not have eight bytes, and [`Error::Limit`](crate::Error::Limit) if the value becomes too long; nothing
    /// is written then.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let fruit = database.hash_keyspace("fruit", ecotone::HashOptions::default())?;
    /// use ecotone::Merge;
    /// fruit.merge("apples", Merge::Add(3))?;
    /// fruit.merge("apples", Merge::Add(-1))?;
    /// assert_eq!(fruit.get("apples")?.as_deref(), Some(&2i64.to_le_bytes()[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn merge(&self, key: impl AsRef<[u8]>, merge: Merge<'_>) -> Result<()> {
        self.handle.merge(key.as_ref(), merge)
    }

    /// Returns an iterator over all records, in no particular order.
    ///
    /// It reads the whole keyspace. The iterator reports errors as items.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.hash_keyspace("towns", ecotone::HashOptions::default())?;
    /// towns.insert("Utrecht", "52.09 5.12")?;
    /// towns.insert("Zwolle", "52.51 6.09")?;
    /// for record in &towns {
    ///     let (name, place) = record?;
    ///     println!("{} is at {}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&place));
    /// }
    /// assert_eq!(towns.iter().count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> HashIter {
        let KeyspaceHandle { database, engine, .. } = &self.handle;
        let walk = database.check_open().map(|()| engine.clone().walk());
        HashIter::new(database.clone(), walk)
    }

    /// Returns the statistics of this keyspace.
    ///
    /// The counters are empty before the first use of the keyspace, and once the database is closed.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.hash_keyspace("towns", ecotone::HashOptions::default())?;
    /// towns.insert("Utrecht", "52.09 5.12")?;
    /// assert!(towns.stats().counter("hot_log_bytes").is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> KeyspaceStats {
        self.handle.stats()
    }
}

impl IntoIterator for &HashKeyspace {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = HashIter;

    /// Iterates over all records, as [`HashKeyspace::iter`] does.
    fn into_iter(self) -> HashIter {
        self.iter()
    }
}

impl fmt::Debug for HashKeyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.debug("HashKeyspace", f)
    }
}
