//! Iteration over a hashed keyspace.

use std::{fmt, mem};

use ecotone_engine::contract::UnorderedCursor;

use crate::{Error, Result, core::OpenDatabase, iter::owned};

/// An owned iterator over all records of a hashed keyspace, in no particular order. It keeps the database open.
///
/// Consistent per key, as [`Iter`](crate::Iter) is. A key is returned at most once, with a value that was its newest at
/// some time since the iterator was created. A key that exists all that time is returned. After an error the iterator
/// ends.
#[must_use = "an iterator reads nothing until it is used"]
pub struct HashIter {
    /// The records, or an error to return once.
    records: std::result::Result<Box<dyn UnorderedCursor>, Option<Error>>,
    // Below the cursor, since fields are dropped in order and the cursor uses the database.
    database: OpenDatabase,
}

impl HashIter {
    pub(crate) fn new(database: OpenDatabase, records: Result<Box<dyn UnorderedCursor>>) -> Self {
        HashIter { records: records.map_err(Some), database }
    }

    /// As [`next`](Iterator::next), but key and value are borrowed until the next call.
    ///
    /// # Errors
    /// The errors of a read. The iterator has ended then.
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.database.life.is_over() {
            return Err(Error::Forked);
        }
        if let Ok(walk) = &mut self.records
            && let Err(error) = self.database.retry_without_memory(|| walk.prepare())
        {
            self.records = Err(None);
            return Err(error);
        }
        match &mut self.records {
            Ok(walk) => walk.next(),
            Err(error) => error.take().map_or(Ok(None), Err),
        }
    }
}

impl Drop for HashIter {
    fn drop(&mut self) {
        if self.database.life.is_over() {
            // A forked child process drops nothing.
            mem::forget(mem::replace(&mut self.records, Err(None)));
        }
    }
}

impl Iterator for HashIter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        owned(self.next_ref())
    }
}

impl fmt::Debug for HashIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashIter")
    }
}
