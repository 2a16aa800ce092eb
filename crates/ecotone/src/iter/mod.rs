//! Iteration over a keyspace.

use std::{fmt, mem, sync::Arc};

mod copies;
mod scan;

use ecotone_engines::engine::{Direction, Ordered, Range};

use self::scan::Scan;
use crate::{Database, Error, Result, gaps::Gaps};

/// An owned iterator over records in key order, from both ends. It keeps the database open. At each end that is used it
/// holds the pages that it reads ahead, at most half a MiB. All iterators together hold a quarter of the memory budget
/// at most: those for which nothing is left read each page anew, a few records at a time, and are slower. So any number
/// may be open.
///
/// Consistent per key: a key is given at most once, with a value that was its newest at some time since the iterator
/// was made; a key that exists all that time is given; a write that comes while the iterator is on its way may or may
/// not be seen, also long before the iterator comes to it, since it reads ahead. So a key that is deleted and inserted
/// again meanwhile may be missing, and of two writes the later one may be seen without the earlier. A batch may be seen
/// in part. After an error the iterator ends.
///
/// [`next_ref`](Self::next_ref) and [`next_back_ref`](Self::next_back_ref) give the same records without copying them.
/// Use them in loops that look at many records and keep few; both kinds of calls may be mixed.
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
pub struct Iter {
    /// The records, or an error to give and then nothing.
    records: std::result::Result<Scan, Option<Error>>,
    // Below the records, since fields go in this order and they use the database.
    database: Database,
}

impl Iter {
    pub(crate) fn new(database: Database, engine: &Arc<dyn Ordered>, gaps: &Arc<Gaps>, range: Range) -> Self {
        let records = database.inner.check_open().map(|()| Scan::new(engine.clone(), gaps.clone(), range));
        Iter { records: records.map_err(Some), database }
    }

    fn step(&mut self, direction: Direction) -> Result<Option<(&[u8], &[u8])>> {
        if self.database.inner.life.is_over() {
            return Err(Error::Forked);
        }
        match &mut self.records {
            Ok(scan) => scan.next(&self.database.inner, direction),
            Err(error) => error.take().map_or(Ok(None), Err),
        }
    }

    /// As [`next`](Iterator::next), but key and value are lent until the next call.
    ///
    /// # Errors
    /// Those of a read; the iterator has ended then.
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(Direction::Up)
    }

    /// As [`next_back`](DoubleEndedIterator::next_back), but key and value are lent until the next call.
    ///
    /// # Errors
    /// Those of a read; the iterator has ended then.
    pub fn next_back_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(Direction::Down)
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        if self.database.inner.life.is_over() {
            // Nothing is dropped in a process that was forked off.
            mem::forget(mem::replace(&mut self.records, Err(None)));
        }
    }
}

/// A copy of a record that is lent.
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
