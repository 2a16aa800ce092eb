//! Iteration over an ordered keyspace.

use std::{fmt, mem, sync::Arc};

mod buffered_records;
mod scan;

use ecotone_engine::contract::{Direction, Ordered, Range};

use self::scan::Scan;
use crate::{
    Error, Result,
    core::{OpenDatabase, gaps::Gaps},
};

/// An owned iterator over records in key order, from both ends. It keeps the database open.
///
/// At each end in use the iterator holds the pages that it reads ahead, at most half a MiB. All iterators together hold
/// at most a quarter of the memory budget. An iterator that finds no memory left reads each page again for a few
/// records at a time, and is slower. So any number of iterators may be open.
///
/// Iterators are consistent per key:
///
/// - A key is returned at most once, with a value that was its newest at some time since the iterator was created.
/// - A key that exists all that time is returned.
/// - A concurrent write may or may not be seen. This holds long before the iterator reaches the key, since it reads
///   ahead.
///
/// So a key that is deleted and inserted again meanwhile may be missing. Of two writes the later one may be seen
/// without the earlier, and a batch may be seen in part. After an error the iterator ends.
///
/// [`next_ref`](Self::next_ref) and [`next_back_ref`](Self::next_back_ref) return the same records without copying
/// them. Use them in loops that look at many records and keep few. Both kinds of calls may be mixed.
///
/// ```
/// # use ecotone::{Database, KeyspaceOptions};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::builder(directory.path().join("db")).memory_budget(64 << 20).open()?;
/// # let visits = database.keyspace("visits", KeyspaceOptions::default())?;
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
#[must_use = "an iterator reads nothing until it is used"]
pub struct Iter {
    /// The records, or an error to return once.
    records: std::result::Result<Scan, Option<Error>>,
    // Below the records, since fields are dropped in order and the records use the database.
    database: OpenDatabase,
}

impl Iter {
    pub(crate) fn new(database: OpenDatabase, engine: &Arc<dyn Ordered>, gaps: &Arc<Gaps>, range: Range) -> Self {
        let records = database.check_open().map(|()| Scan::new(engine.clone(), gaps.clone(), range));
        Iter { records: records.map_err(Some), database }
    }

    fn step(&mut self, direction: Direction) -> Result<Option<(&[u8], &[u8])>> {
        if self.database.life.is_over() {
            return Err(Error::Forked);
        }
        match &mut self.records {
            Ok(scan) => scan.next(&self.database, direction),
            Err(error) => error.take().map_or(Ok(None), Err),
        }
    }

    /// As [`next`](Iterator::next), but key and value are borrowed until the next call.
    ///
    /// # Errors
    /// The errors of a read. The iterator has ended then.
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(Direction::Up)
    }

    /// As [`next_back`](DoubleEndedIterator::next_back), but key and value are borrowed until the next call.
    ///
    /// # Errors
    /// The errors of a read. The iterator has ended then.
    pub fn next_back_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(Direction::Down)
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        if self.database.life.is_over() {
            // A forked child process drops nothing.
            mem::forget(mem::replace(&mut self.records, Err(None)));
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

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Iter")
    }
}
