//! Calls on ranges of keys of an ordered keyspace.

use std::ops::{Bound, RangeBounds};

use crate::{Iter, Keyspace, Result, handle::KeyspaceHandle};

/// Ranges of keys.
impl Keyspace {
    /// Returns an iterator over the records whose keys lie in `range`, in order, from both ends.
    ///
    /// A range whose start lies above its end is empty. A short scan reads little; a longer one reads further and
    /// further ahead. The iterator reports errors as items.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
    /// for name in ["Almelo", "Utrecht", "Zwolle"] {
    ///     towns.insert(name, "")?;
    /// }
    /// let names = towns.range("B"..).map(|record| Ok(record?.0)).collect::<ecotone::Result<Vec<_>>>()?;
    /// assert_eq!(names, [b"Utrecht".to_vec(), b"Zwolle".to_vec()]);
    /// assert_eq!(towns.range("Almelo"..="Utrecht").rev().count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        let (start, end) = owned(&range);
        self.cursor(start, end)
    }

    /// Returns an iterator over the records whose keys begin with `prefix`, in order, from both ends.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let jobs = database.keyspace("jobs", ecotone::KeyspaceOptions::default())?;
    /// jobs.insert("later/1", "water the plants")?;
    /// jobs.insert("now/1", "put out the fire")?;
    /// jobs.insert("now/2", "call the fire brigade")?;
    /// let last = jobs.prefix("now/").next_back().transpose()?;
    /// assert_eq!(last, Some((b"now/2".to_vec(), b"call the fire brigade".to_vec())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        let prefix = prefix.as_ref();
        let end = successor(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        self.cursor(Bound::Included(prefix.to_vec()), end)
    }

    /// Returns an iterator over all records, in order, from both ends. `&Keyspace` is [`IntoIterator`] as well.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
    /// towns.insert("Zwolle", "52.51 6.09")?;
    /// towns.insert("Almelo", "52.36 6.66")?;
    /// let records = towns.iter().collect::<ecotone::Result<Vec<_>>>()?;
    /// assert!(records.len() == 2 && records[0].0 == b"Almelo");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> Iter {
        self.cursor(Bound::Unbounded, Bound::Unbounded)
    }

    /// Returns the record with the smallest key, or `None` if the keyspace is empty.
    ///
    /// # Errors
    /// Those of a [read](Self#errors).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let queue = database.keyspace("queue", ecotone::KeyspaceOptions::default())?;
    /// queue.insert(1u64.to_be_bytes(), "first job")?;
    /// queue.insert(2u64.to_be_bytes(), "second job")?;
    /// while let Some((number, job)) = queue.first_key_value()? {
    ///     println!("{}", String::from_utf8_lossy(&job));
    ///     queue.remove(number)?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn first_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.iter().next().transpose()
    }

    /// Returns the record with the largest key, or `None` if the keyspace is empty.
    ///
    /// # Errors
    /// Those of a [read](Self#errors).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let events = database.keyspace("events", ecotone::KeyspaceOptions::default())?;
    /// events.insert("08:15", "started")?;
    /// events.insert("17:30", "stopped")?;
    /// assert_eq!(events.last_key_value()?, Some((b"17:30".to_vec(), b"stopped".to_vec())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.iter().next_back().transpose()
    }

    /// Returns whether the keyspace has no record.
    ///
    /// It looks for the first record. There is no `len`: count the records of an [`iter`](Self::iter).
    ///
    /// # Errors
    /// Those of a [read](Self#errors).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
    /// assert!(towns.is_empty()?);
    /// towns.insert("Utrecht", "52.09 5.12")?;
    /// assert!(!towns.is_empty()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.iter().next_ref()?.is_none())
    }

    fn cursor(&self, start: Bound<Vec<u8>>, end: Bound<Vec<u8>>) -> Iter {
        let KeyspaceHandle { database, space, engine, .. } = &self.handle;
        Iter::new(database.clone(), engine, &space.gaps, (start, end))
    }
}

/// Copies the bounds of a range.
pub(super) fn owned<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
    (owned(range.start_bound()), owned(range.end_bound()))
}

/// The smallest byte string above all that begin with `prefix`, if there is one.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
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
