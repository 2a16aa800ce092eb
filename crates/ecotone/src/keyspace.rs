//! An ordered keyspace: the methods follow `BTreeMap`, keys and values are byte strings.

use std::{
    fmt, iter,
    ops::{Bound, RangeBounds},
};

use ecotone_engines::{
    engine::{Hint, Operation, Ordered, RangeShape},
    merge::Merge,
};
use ecotone_substrate::held::{self, Wait};

use crate::{Durability, Iter, KeyspaceStats, Result, Survey, Swap, handle::Handle, limits_check};

/// A handle of an ordered keyspace. Clones share it; any thread may use it.
///
/// Keys are 1..=1024 bytes, ordered bytewise; key and value together have at most 1900 bytes
/// ([`limits`](crate::limits)); anything else is [`Error::Limit`](crate::Error::Limit).
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) handle: Handle<dyn Ordered>,
}

impl Keyspace {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.handle.space.name
    }

    /// The same keyspace with another durability for the writes made through the new handle.
    pub fn durability(&self, durability: Durability) -> Keyspace {
        Keyspace { handle: self.handle.durability(durability) }
    }

    /// Stores `value` under `key`, replacing what was there.
    ///
    /// # Errors
    /// [`Error::Limit`](crate::Error::Limit) for keys and values out of bounds,
    /// [`Error::NoSpace`](crate::Error::NoSpace) while the disk is full, [`Error::Poisoned`](crate::Error::Poisoned)
    /// after a failed write.
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

    /// The records whose keys lie in `range`, in order. A range whose start lies above its end is empty. A short scan
    /// reads little; the longer one goes on, the more it reads ahead.
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

    /// Replaces the value of `key` by what `update` makes of it (`None`: no value, or delete), atomically, and gives
    /// the value before.
    ///
    /// `update` runs without locks, and *again* whenever another write gave the key another value meanwhile, so it
    /// should be cheap and have no effects of its own. It may use the database. If it panics, nothing is written.
    /// Making nothing of nothing writes nothing, so it promises no more than a read.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); [`Error::Invalid`](crate::Error::Invalid) if it was overtaken a hundred thousand
    /// times: by an `update` that itself writes another value to `key` in each run.
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
    /// As [`insert`](Self::insert); [`Error::Invalid`](crate::Error::Invalid) for an addition to a value that has not
    /// eight bytes. Then nothing is written.
    pub fn merge(&self, key: impl AsRef<[u8]>, merge: Merge<'_>) -> Result<()> {
        self.handle.merge(key.as_ref(), merge)
    }

    /// Loads records that come in strictly ascending order, all above every key present, straight into full pages: the
    /// fastest way to fill a keyspace. Durable when it returns the number of records; after a crash in between, a
    /// prefix of them is there.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) names the first key that is out of order; the records before it stay.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<u64> {
        let inner = &self.handle.database.inner;
        inner.check_writable()?;
        inner.begin_writing()?;
        let mut source = records.into_iter();
        let mut records = iter::from_fn(|| {
            held::about_to_wait(Wait::Caller);
            let (key, value) = source.next()?;
            let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
            Some(limits_check::operation(Operation { key: &key, value: Some(&value) }).map(|()| (key, value)))
        });
        inner.settle(&self.handle.space)?;
        let _loading = self.handle.space.gaps.load();
        self.handle.engine.clone().bulk_load(&mut records)
    }

    /// Merges what was written before into as few tables as it takes, so that nothing is left of what was deleted or
    /// replaced: for a keyspace that is read for long after it was written. `progress` is told again and again how many
    /// bytes have been moved of how many. Others may read and write meanwhile; what they write may stay where it is. It
    /// writes a few tables at a time, for which the disk needs room. False if the engine has nothing to merge: a tree
    /// is kept in shape where it lies.
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
    /// [`Error::NoSpace`](crate::Error::NoSpace) while the disk is full, and what reading what is there can fail with.
    /// What was merged until then stays so.
    pub fn compact(&self, mut progress: impl FnMut(u64, u64)) -> Result<bool> {
        self.handle.database.inner.check_writable()?;
        self.handle.engine.compact(&mut |moved, all| {
            held::about_to_wait(Wait::Caller);
            progress(moved, all);
        })
    }

    /// This keyspace's own numbers.
    pub fn stats(&self) -> KeyspaceStats {
        self.handle.stats()
    }

    /// Looks at the shape of the keyspace: walks over its structure and reads a few hundred pages. `None` if its engine
    /// has no such look.
    pub fn survey(&self) -> Result<Option<Survey>> {
        self.handle.database.inner.check_open()?;
        self.handle.engine.survey()
    }

    /// Says how a range of keys will be used, for who knows it before the engine finds out: an adaptive keyspace has a
    /// range that is scanned in pages, and one that is written in tables. What is there of the range is changed in the
    /// background, in the part of the time that the option `adapt` leaves. Kept in memory, for at most 64 ranges; gone
    /// when the database is closed. Other engines have nothing to choose.
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
    /// [`Error::Limit`](crate::Error::Limit) if there are too many ranges; `Closed` errors.
    pub fn hint<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>, hint: Hint) -> Result<()> {
        self.handle.database.inner.check_open()?;
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        self.handle.engine.hint(&(owned(range.start_bound()), owned(range.end_bound())), hint)
    }

    /// Ranges of an adaptive keyspace that are kept in another way than as plain tables, or are to be; none for other
    /// engines.
    pub fn shapes(&self) -> Vec<RangeShape> {
        self.handle.engine.shapes()
    }

    fn cursor(&self, start: Bound<Vec<u8>>, end: Bound<Vec<u8>>) -> Iter {
        let Handle { database, space, engine, .. } = &self.handle;
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
