//! The handle of an ordered keyspace. Its methods follow `BTreeMap`; keys and values are byte strings.

use std::{
    fmt, iter,
    ops::{Bound, RangeBounds},
};

use ecotone_engine::{
    contract::{Hint, Operation, Ordered, RangeShape, Sampled},
    merge::Merge,
};
use ecotone_substrate::lock_rank::{self, Wait};

use crate::{Durability, Iter, KeyspaceStats, Result, SampledStats, Swap, core::limits_check, handle::KeyspaceHandle};

/// A handle of an ordered keyspace. Clones share the keyspace, and any thread may use it.
///
/// Keys have 1 to 1024 bytes and are ordered bytewise. Key and value together have at most 1900 bytes (see
/// [`limits`](crate::limits)). Anything else is [`Error::Limit`](crate::Error::Limit).
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) handle: KeyspaceHandle<dyn Ordered>,
}

impl Keyspace {
    /// The keyspace's name.
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    /// A handle of the same keyspace whose writes have another durability.
    #[must_use = "this handle keeps its durability"]
    pub fn durability(&self, durability: Durability) -> Keyspace {
        Keyspace { handle: self.handle.durability(durability) }
    }

    /// Stores `value` under `key`, replacing any older value.
    ///
    /// # Errors
    /// - [`Error::Limit`](crate::Error::Limit) for keys and values out of bounds.
    /// - [`Error::NoSpace`](crate::Error::NoSpace) while the disk is full.
    /// - [`Error::Poisoned`](crate::Error::Poisoned) after a failed write.
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
    /// # let fruit = database.keyspace("fruit", ecotone::KeyspaceOptions::default())?;
    /// fruit.insert("one", "1")?;
    /// let mut bytes = 0;
    /// fruit.multi_get_with(&[b"one", b"two"], |_, value| bytes += value.map_or(0, <[u8]>::len))?;
    /// assert_eq!(bytes, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn multi_get_with(&self, keys: &[&[u8]], found: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.handle.multi_get_with(keys, found)
    }

    /// Iterates over the records whose keys lie in `range`, in order. A range whose start lies above its end is empty.
    /// A short scan reads little; a longer one reads further and further ahead.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        self.cursor(owned(range.start_bound()), owned(range.end_bound()))
    }

    /// Iterates over the records whose keys begin with `prefix`, in order.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        let prefix = prefix.as_ref();
        let end = successor(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        self.cursor(Bound::Included(prefix.to_vec()), end)
    }

    /// Iterates over all records, in order.
    pub fn iter(&self) -> Iter {
        self.cursor(Bound::Unbounded, Bound::Unbounded)
    }

    /// Returns the record with the smallest key.
    pub fn first_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.iter().next().transpose()
    }

    /// Returns the record with the largest key.
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.iter().next_back().transpose()
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
    /// The errors of [`insert`](Self::insert). [`Error::Invalid`](crate::Error::Invalid) if other writes overtook the
    /// update a hundred thousand times. This happens if `update` itself writes another value to `key` in each run.
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

    /// Adds to the counter `key`, or appends to its value, atomically. The old value need not be read by the caller.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path()).open()?;
    /// # let fruit = database.keyspace("fruit", ecotone::KeyspaceOptions::default())?;
    /// use ecotone::Merge;
    /// fruit.merge("apples", Merge::Add(3))?;
    /// fruit.merge("apples", Merge::Add(-1))?;
    /// assert_eq!(fruit.get("apples")?.as_deref(), Some(&2i64.to_le_bytes()[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`insert`](Self::insert). [`Error::Invalid`](crate::Error::Invalid) for an addition to a value
    /// that does not have eight bytes; nothing is written then.
    pub fn merge(&self, key: impl AsRef<[u8]>, merge: Merge<'_>) -> Result<()> {
        self.handle.merge(key.as_ref(), merge)
    }

    /// Loads records straight into full pages: the fastest way to fill a keyspace. The keys must be strictly ascending
    /// and above every key in the keyspace. Returns the number of records, all durable. After a crash in between, a
    /// prefix of them is there.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) names the first key that is out of order. The records before it stay.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<u64> {
        let database = &self.handle.database;
        database.check_writable()?;
        database.begin_writing()?;
        let mut source = records.into_iter();
        let mut records = iter::from_fn(|| {
            lock_rank::about_to_wait(Wait::Caller);
            let (key, value) = source.next()?;
            let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
            Some(limits_check::operation(Operation { key: &key, value: Some(&value) }).map(|()| (key, value)))
        });
        database.flush_before_load(&self.handle.space)?;
        let _loading = self.handle.space.gaps.load();
        self.handle.engine.clone().bulk_load(&mut records)
    }

    /// Runs a full compaction: merges everything written before into as few tables as possible, without deleted or
    /// replaced records. This suits a keyspace that is read for long after it was written. `progress` is called
    /// repeatedly with the bytes moved so far and in total. Other threads may read and write meanwhile; their writes
    /// may stay out of the merge. The compaction writes a few tables at a time, for which the disk needs space. Returns
    /// false if the engine has nothing to merge: a tree reorganises its pages in place.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path()).open()?;
    /// use ecotone::{Engine, KeyspaceOptions};
    /// let visits = database.keyspace("visits", KeyspaceOptions::default().engine(Engine::Lsm))?;
    /// visits.insert("Utrecht", "1")?;
    /// visits.remove("Utrecht")?;
    /// assert!(visits.compact(|moved, all| println!("{moved} of {all} bytes"))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace) while the disk is full, and the errors of a read. The part merged
    /// before the error stays merged.
    pub fn compact(&self, mut progress: impl FnMut(u64, u64)) -> Result<bool> {
        self.handle.database.check_writable()?;
        let Some(engine) = self.handle.capabilities()?.compact else { return Ok(false) };
        let compacted = engine.compact(&mut |moved, all| {
            lock_rank::about_to_wait(Wait::Caller);
            progress(moved, all);
        });
        compacted.map(|()| true)
    }

    /// The statistics of this keyspace.
    pub fn stats(&self) -> KeyspaceStats {
        self.handle.stats()
    }

    /// Samples the shape of the keyspace: walks over its structure and reads a few hundred pages. `None` if the engine
    /// does not support sampling.
    pub fn survey(&self) -> Result<Option<SampledStats>> {
        self.handle.database.check_open()?;
        self.handle.capabilities()?.samples.map(Sampled::sampled_stats).transpose()
    }

    /// Hints how a range of keys will be used, before the engine finds out. An adaptive keyspace keeps a range that is
    /// scanned as pages, and one that is written as tables. It converts the records of the range in the background,
    /// within the share of time that the option `adapt` sets. Hints are kept in memory, for at most 64 ranges, until
    /// the database is closed. Other engines ignore them.
    ///
    /// ```
    /// use ecotone::{Database, Engine, Hint, KeyspaceOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::builder(directory.path().join("db")).open()?;
    /// let events = database.keyspace("events", KeyspaceOptions::default().engine(Engine::Adaptive))?;
    /// events.insert("2026-11-23 08:15", "started")?;
    /// events.hint("2026-11-23".."2026-11-24", Hint::ReadMostly)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Limit`](crate::Error::Limit) if there are too many ranges; [`Error::Closed`](crate::Error::Closed) if
    /// the database is closed.
    pub fn hint<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>, hint: Hint) -> Result<()> {
        self.handle.database.check_open()?;
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        self.handle.space.lazy.hint(&(owned(range.start_bound()), owned(range.end_bound())), hint)
    }

    /// The ranges of an adaptive keyspace that are not plain tables, or are about to be converted. Empty for other
    /// engines, and once the database is closed.
    pub fn shapes(&self) -> Vec<RangeShape> {
        if self.handle.database.check_open().is_err() { Vec::new() } else { self.handle.space.lazy.shapes() }
    }

    fn cursor(&self, start: Bound<Vec<u8>>, end: Bound<Vec<u8>>) -> Iter {
        let KeyspaceHandle { database, space, engine, .. } = &self.handle;
        Iter::new(database.clone(), engine, &space.gaps, (start, end))
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
        self.handle.debug("Keyspace", f)
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
