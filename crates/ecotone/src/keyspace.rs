//! An ordered keyspace: the methods follow `BTreeMap`, keys and values are byte strings.

use std::{
    fmt,
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use ecotone_engines::engine::Operation;

use crate::{Database, Durability, Iter, KeyspaceStats, Result, Survey, commit::Target, database::Space, limits_check, stats};

/// A handle of an ordered keyspace. Clones share it; any thread may use it.
///
/// Keys are 1..=1024 bytes, ordered bytewise; key and value together have at most 1900 bytes
/// ([`limits`](crate::limits)); anything else is [`Error::Limit`](crate::Error::Limit).
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) database: Database,
    pub(crate) space: Arc<Space>,
    pub(crate) durability: Durability,
}

/// What [`Keyspace::compare_and_swap`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swap {
    /// The value was as expected and is replaced.
    Done,
    /// The value was this one instead; nothing was written.
    Mismatch(Option<Vec<u8>>),
}

impl Keyspace {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.space.name
    }

    /// The same keyspace with another durability for the writes made through the new handle.
    pub fn durability(&self, durability: Durability) -> Keyspace {
        Keyspace { durability, ..self.clone() }
    }

    /// Stores `value` under `key`, replacing what was there.
    ///
    /// # Errors
    /// [`Error::Limit`](crate::Error::Limit) for keys and values out of bounds, [`Error::NoSpace`](crate::Error::NoSpace) while the disk is full, [`Error::Poisoned`](crate::Error::Poisoned) after a failed write.
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(Operation { key: key.as_ref(), value: Some(value.as_ref()) })
    }

    /// Deletes `key`, whether or not it is there.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(Operation { key: key.as_ref(), value: None })
    }

    /// The value of `key`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.readable(key.as_ref())?;
        self.space.engine.get(key.as_ref())
    }

    /// Copies the value of `key` into `value`, which holds nothing else then; false, and an empty `value`, if there is none. A buffer that is
    /// used again for key after key costs no allocation where a record is in memory.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path()).open()?;
    /// # let towns = database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
    /// towns.insert("Utrecht", "52.09 5.12")?;
    /// let mut place = Vec::new();
    /// assert!(towns.get_into("Utrecht", &mut place)? && place == b"52.09 5.12");
    /// assert!(!towns.get_into("Atlantis", &mut place)? && place.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.readable(key.as_ref())?;
        self.space.engine.get_into(key.as_ref(), value)
    }

    /// Whether `key` has a value.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The values of many keys, in their order. Their reads are in flight together, so this is much faster than one [`get`](Self::get)
    /// after the other.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        keys.iter().try_for_each(|key| self.readable(key))?;
        self.space.engine.multi_get(&keys)
    }

    /// The records whose keys lie in `range`, in order. A range whose start lies above its end is empty. A short scan reads little; the longer one goes
    /// on, the more it reads ahead.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        self.cursor(owned(range.start_bound()), owned(range.end_bound()))
    }

    /// The records whose keys begin with `prefix`, in order.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        let prefix = prefix.as_ref();
        let end = successor(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        self.cursor(Bound::Included(prefix.to_vec()), end)
    }

    /// All records, in order.
    pub fn iter(&self) -> Iter {
        self.cursor(Bound::Unbounded, Bound::Unbounded)
    }

    /// The record with the smallest key.
    pub fn first_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.iter().next().transpose()
    }

    /// The record with the largest key.
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.iter().next_back().transpose()
    }

    /// Replaces the value of `key` by what `update` makes of it (`None`: no value, or delete), atomically, and gives the value before.
    ///
    /// `update` runs without locks, and *again* whenever another write came between, so it should be cheap and have no effects of its own.
    /// It may use the database, except that writing `key` itself makes it run forever. If it panics, nothing is written.
    pub fn fetch_update(
        &self,
        key: impl AsRef<[u8]>,
        mut update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        limits_check::key(key)?;
        let stripe = self.database.inner.stripes.of(self.space.id, key);
        loop {
            let version = self.database.inner.stripes.version(stripe);
            self.readable(key)?;
            let before = self.space.engine.get_to_update(key)?;
            let after = update(before.as_deref());
            if before.is_none() && after.is_none() {
                return Ok(None);
            }
            if self.write_if(Operation { key, value: after.as_deref() }, version)? {
                return Ok(before);
            }
        }
    }

    /// Replaces the value of `key` by `new` if it is `expected`; `None` stands for no value.
    pub fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Swap> {
        let key = key.as_ref();
        limits_check::operation(Operation { key, value: new })?;
        let stripe = self.database.inner.stripes.of(self.space.id, key);
        loop {
            let version = self.database.inner.stripes.version(stripe);
            let current = self.get(key)?;
            if current.as_deref() != expected {
                return Ok(Swap::Mismatch(current));
            }
            if self.write_if(Operation { key, value: new }, version)? {
                return Ok(Swap::Done);
            }
        }
    }

    /// Loads records that come in strictly ascending order, all above every key present, straight into full pages: the fastest way to fill
    /// a keyspace. Durable when it returns the number of records; after a crash in between, a prefix of them is there.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) names the first key that is out of order; the records before it stay.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<u64> {
        self.database.inner.check_writable()?;
        let mut records = records.into_iter().map(|(key, value)| {
            let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
            limits_check::operation(Operation { key: &key, value: Some(&value) })?;
            Ok((key, value))
        });
        self.database.inner.settle(&self.space)?;
        self.space.engine.clone().bulk_load(&mut records)
    }

    /// This keyspace's own numbers.
    pub fn stats(&self) -> KeyspaceStats {
        stats::keyspace(&self.space)
    }

    /// Looks at the shape of the keyspace: walks over its structure and reads a few hundred pages. `None` if its engine has no such look.
    pub fn survey(&self) -> Result<Option<Survey>> {
        self.database.inner.check_open()?;
        self.space.engine.survey()
    }

    fn write(&self, operation: Operation<'_>) -> Result<()> {
        self.database.inner.check_open()?;
        self.database.inner.write(Target { space: &self.space, operation }, self.durability)
    }

    fn write_if(&self, operation: Operation<'_>, version: u64) -> Result<bool> {
        self.database.inner.check_open()?;
        self.database.inner.write_if(Target { space: &self.space, operation }, version, self.durability)
    }

    fn readable(&self, key: &[u8]) -> Result<()> {
        limits_check::key(key)?;
        self.database.inner.check_open()
    }

    fn cursor(&self, start: Bound<Vec<u8>>, end: Bound<Vec<u8>>) -> Iter {
        let cursor = self.database.inner.check_open().map(|()| self.space.engine.clone().cursor((start, end)));
        Iter::new(self.database.clone(), cursor)
    }
}

/// The smallest byte string above all that begin with `prefix`, if there is one.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace").field("name", &self.space.name).field("engine", &self.space.kind).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::successor;

    #[test]
    fn successors() {
        assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(successor(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(successor(b"\xff"), None);
        assert_eq!(successor(b""), None);
    }
}
