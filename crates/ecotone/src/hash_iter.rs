//! Iteration over a hashed keyspace.

use std::{fmt, iter::FusedIterator, mem};

use ecotone_engine::contract::UnorderedCursor;

use crate::{Error, Result, core::OpenDatabase, iter::owned};

/// An iterator over all records of a [`HashKeyspace`](crate::HashKeyspace), in no particular order.
///
/// [`HashKeyspace::iter`](crate::HashKeyspace::iter) creates it. It owns what it needs, borrows nothing, can be sent to
/// another thread, and keeps the database open. Each item is a key and its value, or an error. After the last record
/// and after an error, every call returns `None` ([`FusedIterator`]).
///
/// It is consistent per key, as [`Iter`](crate::Iter) is. A key is returned at most once, with a value that was its
/// newest at some time since the iterator was created. A key that exists all that time is returned.
///
/// # Examples
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
/// # let visits = database.hash_keyspace("visits", ecotone::HashOptions::default())?;
/// visits.insert("Zwolle", "3")?;
/// visits.insert("Almelo", "4")?;
/// let mut names = visits.iter().map(|record| Ok(record?.0)).collect::<ecotone::Result<Vec<_>>>()?;
/// names.sort();
/// assert_eq!(names, [b"Almelo", b"Zwolle"]);
///
/// database.close()?;
/// let mut records = visits.iter();
/// assert!(records.next().is_some_and(|record| record.is_err()) && records.next().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "an iterator reads nothing until it is used"]
pub struct HashIter {
    /// The records, or why there are none.
    records: Result<Box<dyn UnorderedCursor>>,
    /// Whether the end or an error was returned.
    is_over: bool,
    // Below the cursor, since fields are dropped in order and the cursor uses the database.
    database: OpenDatabase,
}

impl HashIter {
    pub(crate) fn new(database: OpenDatabase, records: Result<Box<dyn UnorderedCursor>>) -> Self {
        HashIter { records, is_over: false, database }
    }

    /// Returns the next record, as [`next`](Iterator::next) does, but lends it until the next call.
    ///
    /// `Ok(None)` is the end. A record in memory costs no allocation.
    ///
    /// # Errors
    /// Those of a [read](crate::Keyspace#errors). The iterator has ended then.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let visits = database.hash_keyspace("visits", ecotone::HashOptions::default())?;
    /// visits.insert("Zwolle", "3")?;
    /// visits.insert("Almelo", "4")?;
    /// let (mut total, mut records) = (0, visits.iter());
    /// while let Some((_, count)) = records.next_ref()? {
    ///     total += str::from_utf8(count)?.parse::<u64>()?;
    /// }
    /// assert_eq!(total, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.is_over {
            return Ok(None);
        }
        if self.database.life.is_over() {
            self.is_over = true;
            return Err(Error::Forked);
        }
        if let Ok(walk) = &mut self.records
            && let Err(error) = self.database.retry_without_memory(|| walk.prepare())
        {
            self.records = Err(error);
        }
        let record = match &mut self.records {
            Ok(walk) => walk.next(),
            Err(error) => Err(error.clone()),
        };
        self.is_over = !matches!(record, Ok(Some(_)));
        record
    }
}

impl Drop for HashIter {
    fn drop(&mut self) {
        if self.database.life.is_over() {
            // A forked child process drops nothing.
            mem::forget(mem::replace(&mut self.records, Err(Error::Forked)));
        }
    }
}

impl Iterator for HashIter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        owned(self.next_ref())
    }
}

impl FusedIterator for HashIter {}

impl fmt::Debug for HashIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashIter")
    }
}
