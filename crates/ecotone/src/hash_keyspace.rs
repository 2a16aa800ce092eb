//! A hashed keyspace: the methods follow `HashMap`, keys and values are byte strings.

use std::fmt;

use ecotone_engines::{engine::Hashed, merge::Merge};

use crate::{Durability, KeyspaceStats, Result, Swap, handle::Handle, hash_iter::HashIter};

/// A handle of a keyspace that finds its keys by a hash and keeps no order of them. Clones share it; any thread may use
/// it. The limits of keys and values are those of a [`Keyspace`](crate::Keyspace), and so are the errors.
#[derive(Clone)]
pub struct HashKeyspace {
    pub(crate) handle: Handle<dyn Hashed>,
}

impl HashKeyspace {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.handle.space.name
    }

    /// The same keyspace with another durability for the writes made through the new handle.
    pub fn durability(&self, durability: Durability) -> HashKeyspace {
        HashKeyspace { handle: self.handle.durability(durability) }
    }

    /// Stores `value` under `key`, replacing what was there.
    ///
    /// # Errors
    /// As [`Keyspace::insert`](crate::Keyspace::insert).
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.handle.write(key.as_ref(), Some(value.as_ref()))
    }

    /// Deletes `key`, whether or not it is there.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.handle.write(key.as_ref(), None)
    }

    /// The value of `key`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.handle.get(key.as_ref())
    }

    /// Copies the value of `key` into `value`, which holds nothing else then; false, and an empty `value`, if there is
    /// none. A buffer that is used again for key after key costs no allocation where a record is in memory.
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.handle.get_into(key.as_ref(), value)
    }

    /// Whether `key` has a value.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The values of many keys, in their order. Their reads are in flight together, so this is much faster than one
    /// [`get`](Self::get) after the other.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        self.handle.multi_get(keys)
    }

    /// The values of many keys, as [`multi_get`](Self::multi_get), but lent: `found` is called once for each key, in
    /// whatever order, with its place in `keys` and its value. What is in memory costs no allocation. After an error
    /// not all keys have been looked for.
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

    /// Replaces the value of `key` by what `update` makes of it (`None`: no value, or delete), atomically, and gives
    /// the value before.
    ///
    /// `update` runs without locks, and *again* whenever another write came between, so it should be cheap and have no
    /// effects of its own. It may use the database, except that writing `key` itself makes it run forever. If it
    /// panics, nothing is written. Making nothing of nothing writes nothing, so it promises no more than a read.
    pub fn fetch_update(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.handle.fetch_update(key.as_ref(), update)
    }

    /// As [`fetch_update`](Self::fetch_update), but gives the value after.
    pub fn update_fetch(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.handle.update_fetch(key.as_ref(), update)
    }

    /// Replaces the value of `key` by `new` if it is `expected`; `None` stands for no value.
    pub fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Swap> {
        self.handle.compare_and_swap(key.as_ref(), expected, new)
    }

    /// Adds to the counter `key`, or appends to its value, atomically. What is there need not be brought to the caller.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); [`Error::Invalid`](crate::Error::Invalid) for an addition to a value that has not
    /// eight bytes. Then nothing is written.
    pub fn merge(&self, key: impl AsRef<[u8]>, merge: Merge<'_>) -> Result<()> {
        self.handle.merge(key.as_ref(), merge)
    }

    /// All records, in no order.
    pub fn iter(&self) -> HashIter {
        let Handle { database, engine, .. } = &self.handle;
        let walk = database.inner.check_open().map(|()| engine.clone().walk());
        HashIter::new(database.clone(), walk)
    }

    /// This keyspace's own numbers.
    pub fn stats(&self) -> KeyspaceStats {
        self.handle.stats()
    }
}

impl fmt::Debug for HashKeyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.debug("HashKeyspace", f)
    }
}
