//! The handle of a hashed keyspace. Its methods follow `HashMap`; keys and values are byte strings.

use std::fmt;

use ecotone_engine::{contract::Hashed, merge::Merge};

use crate::{Durability, KeyspaceStats, Result, Swap, handle::KeyspaceHandle, hash_iter::HashIter};

/// A handle of a keyspace that finds its keys by a hash and keeps no order. Clones share the keyspace, and any thread
/// may use it. The limits of keys and values are those of a [`Keyspace`](crate::Keyspace), and so are the errors.
#[derive(Clone)]
pub struct HashKeyspace {
    pub(crate) handle: KeyspaceHandle<dyn Hashed>,
}

impl HashKeyspace {
    /// The keyspace's name.
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    /// A handle of the same keyspace whose writes have another durability.
    #[must_use = "this handle keeps its durability"]
    pub fn durability(&self, durability: Durability) -> HashKeyspace {
        HashKeyspace { handle: self.handle.durability(durability) }
    }

    /// Stores `value` under `key`, replacing any older value.
    ///
    /// # Errors
    /// The errors of [`Keyspace::insert`](crate::Keyspace::insert).
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.handle.insert(key.as_ref(), value.as_ref())
    }

    /// Deletes `key`. A missing key is no error.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.handle.remove(key.as_ref())
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.handle.get(key.as_ref())
    }

    /// Copies the value of `key` into `value`, replacing its contents. Returns false and leaves `value` empty if there
    /// is none. With a reused buffer, a lookup of a record in memory does not allocate.
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.handle.get_into(key.as_ref(), value)
    }

    /// Whether `key` has a value.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.handle.contains_key(key.as_ref())
    }

    /// Returns the values of many keys, in the order of `keys`. The reads are in flight together, so this is much
    /// faster than one [`get`](Self::get) after the other.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        self.handle.multi_get(keys)
    }

    /// Looks up many keys, as [`multi_get`](Self::multi_get), but lends the values. `found` is called once for each
    /// key, in any order, with its index in `keys` and its value. Records in memory cost no allocation. After an error
    /// not all keys have been looked up.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path()).open()?;
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

    /// Replaces the value of `key` by the result of `update`, atomically, and returns the old value. `None` stands for
    /// no value; returning it deletes the key.
    ///
    /// `update` runs without locks, and *again* whenever another write changed the value of the key meanwhile. So it
    /// should be cheap and have no effects of its own. It may use the database. If `update` panics, nothing is written.
    /// If the key has no value and `update` returns none, nothing is written, and the call promises no more than a
    /// read.
    ///
    /// # Errors
    /// As of [`Keyspace::fetch_update`](crate::Keyspace::fetch_update).
    pub fn fetch_update(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.handle.fetch_update(key.as_ref(), update)
    }

    /// As [`fetch_update`](Self::fetch_update), but returns the new value.
    pub fn update_fetch(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.handle.update_fetch(key.as_ref(), update)
    }

    /// Replaces the value of `key` by `new` if it is `expected`. `None` stands for no value.
    pub fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Swap> {
        self.handle.compare_and_swap(key.as_ref(), expected, new)
    }

    /// Adds to the counter `key`, or appends to its value, atomically. The old value need not be read.
    ///
    /// # Errors
    /// The errors of [`insert`](Self::insert). [`Error::Invalid`](crate::Error::Invalid) for an addition to a value
    /// that does not have eight bytes; nothing is written then.
    pub fn merge(&self, key: impl AsRef<[u8]>, merge: Merge<'_>) -> Result<()> {
        self.handle.merge(key.as_ref(), merge)
    }

    /// Iterates over all records, in no particular order.
    pub fn iter(&self) -> HashIter {
        let KeyspaceHandle { database, engine, .. } = &self.handle;
        let walk = database.check_open().map(|()| engine.clone().walk());
        HashIter::new(database.clone(), walk)
    }

    /// The statistics of this keyspace.
    pub fn stats(&self) -> KeyspaceStats {
        self.handle.stats()
    }
}

impl fmt::Debug for HashKeyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.debug("HashKeyspace", f)
    }
}
