//! Iteration over a hashed keyspace.

use std::{fmt, mem};

use ecotone_engines::engine::Walk;

use crate::{Database, Error, Result, iter::owned};

/// An owned iterator over all records of a hashed keyspace, in an order of its own. It keeps the database open.
///
/// Consistent per key, as [`Iter`](crate::Iter) is: a key is given at most once, with a value that was its newest at
/// some time since the iterator was made, and a key that exists all that time is given. After an error it ends.
pub struct HashIter {
    /// The records, or an error to give and then nothing.
    records: std::result::Result<Box<dyn Walk>, Option<Error>>,
    // Below the walk, since fields go in this order and the walk uses the database.
    database: Database,
}

impl HashIter {
    pub(crate) fn new(database: Database, records: Result<Box<dyn Walk>>) -> Self {
        HashIter { records: records.map_err(Some), database }
    }

    /// As [`next`](Iterator::next), but key and value are lent until the next call.
    ///
    /// # Errors
    /// Those of a read; the iterator has ended then.
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.database.inner.life.is_over() {
            return Err(Error::Forked);
        }
        if let Ok(walk) = &mut self.records
            && let Err(error) = self.database.inner.patiently(|| walk.prepare())
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
        if self.database.inner.life.is_over() {
            // Nothing is dropped in a process that was forked off.
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
