//! Iteration over an ordered keyspace.

use std::{fmt, iter::FusedIterator, mem, sync::Arc};

mod buffered_records;
mod scan;

use ecotone_engine::contract::{Direction, Ordered, Range};

use self::scan::Scan;
use crate::{
    Error, Result,
    core::{OpenDatabase, gaps::Gaps},
};

/// An iterator over the records of a [`Keyspace`](crate::Keyspace) in key order, from both ends.
///
/// [`Keyspace::range`](crate::Keyspace::range), [`prefix`](crate::Keyspace::prefix) and [`iter`](crate::Keyspace::iter)
/// create it. It owns what it needs, borrows nothing, can be sent to another thread, and keeps the database open. Each
/// item is a key and its value, or an error.
///
/// [`next_ref`](Self::next_ref) and [`next_back_ref`](Self::next_back_ref) return the same records without copying
/// them. Use them in loops that look at many records and keep few. Both kinds of calls may be mixed.
///
/// # The end
/// The iterator ends when the two ends meet, and after an error. Then every call returns `None`, at both ends
/// ([`FusedIterator`]).
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
/// # let towns = database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
/// database.close()?;
/// let mut records = towns.iter();
/// assert!(matches!(records.next(), Some(Err(ecotone::Error::Closed { .. }))));
/// assert!(records.next().is_none() && records.next_back().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Consistency
/// Iterators are consistent per key:
///
/// - A key is returned at most once, with a value that was its newest at some time since the iterator was created.
/// - A key that exists all that time is returned.
/// - A concurrent write may or may not be seen. This holds long before the iterator reaches the key, since it reads
///   ahead.
///
/// So a key that is deleted and inserted again meanwhile may be missing. Of two writes the later one may be seen
/// without the earlier, and a batch may be seen in part.
///
/// # Memory
/// At each end in use the iterator holds the pages that it reads ahead, at most half a MiB. All iterators together hold
/// at most a quarter of the memory budget. An iterator that finds no memory left reads each page again for a few
/// records at a time, and is slower. So any number of iterators may be open.
///
/// # Examples
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
/// # let towns = database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
/// for name in ["Almelo", "Utrecht", "Zwolle"] {
///     towns.insert(name, "")?;
/// }
/// let mut records = towns.iter();
/// let (first, _) = records.next().expect("there are three")?;
/// let (last, _) = records.next_back().expect("there are two left")?;
/// assert!(first == b"Almelo" && last == b"Zwolle");
/// assert_eq!(records.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "an iterator reads nothing until it is used"]
pub struct Iter {
    /// The records, or why there are none.
    records: Result<Scan>,
    /// Whether the end or an error was returned.
    is_over: bool,
    // Below the records, since fields are dropped in order and the records use the database.
    database: OpenDatabase,
}

impl Iter {
    pub(crate) fn new(database: OpenDatabase, engine: &Arc<dyn Ordered>, gaps: &Arc<Gaps>, range: Range) -> Self {
        let records = database.check_open().map(|()| Scan::new(engine.clone(), gaps.clone(), range));
        Iter { records, is_over: false, database }
    }

    fn step(&mut self, direction: Direction) -> Result<Option<(&[u8], &[u8])>> {
        if self.is_over {
            return Ok(None);
        }
        let record = match &mut self.records {
            _ if self.database.life.is_over() => Err(Error::Forked),
            Ok(scan) => scan.next(&self.database, direction),
            Err(error) => Err(error.clone()),
        };
        self.is_over = !matches!(record, Ok(Some(_)));
        record
    }

    /// Returns the next record from the front, as [`next`](Iterator::next) does, but lends it until the next call.
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
    /// # let visits = database.keyspace("visits", ecotone::KeyspaceOptions::default())?;
    /// visits.insert("2031-05-06/ada", "3")?;
    /// visits.insert("2031-05-06/ben", "4")?;
    /// let mut total = 0;
    /// let mut day = visits.prefix("2031-05-06/");
    /// while let Some((_, count)) = day.next_ref()? {
    ///     total += str::from_utf8(count)?.parse::<u64>()?;
    /// }
    /// assert_eq!(total, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(Direction::Up)
    }

    /// Returns the next record from the back, as [`next_back`](DoubleEndedIterator::next_back) does, but lends it until
    /// the next call.
    ///
    /// # Errors
    /// Those of a [read](crate::Keyspace#errors). The iterator has ended then.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let events = database.keyspace("events", ecotone::KeyspaceOptions::default())?;
    /// events.insert("08:15", "started")?;
    /// events.insert("17:30", "stopped")?;
    /// assert_eq!(events.iter().next_back_ref()?, Some((&b"17:30"[..], &b"stopped"[..])));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_back_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(Direction::Down)
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        if self.database.life.is_over() {
            // A forked child process drops nothing.
            mem::forget(mem::replace(&mut self.records, Err(Error::Forked)));
        }
    }
}

/// Copies a borrowed record.
pub(crate) fn owned(record: Result<Option<(&[u8], &[u8])>>) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
    record.transpose().map(|record| record.map(|(key, value)| (key.to_vec(), value.to_vec())))
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        owned(self.next_ref())
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        owned(self.next_back_ref())
    }
}

impl FusedIterator for Iter {}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Iter")
    }
}
