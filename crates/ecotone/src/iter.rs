//! Iteration over a keyspace.

use std::fmt;

use ecotone_engines::engine::Cursor;

use crate::{Database, Result};

/// An owned iterator over records in key order, from both ends. It keeps the database open.
///
/// Consistent per key: a key is given at most once, with a value that was its newest at some time since the iterator was made; a key that exists all that
/// time is given; a write that comes while the iterator is on its way may or may not be seen. A batch may be seen in part.
/// After an error the iterator ends.
pub struct Iter {
    cursor: Cursor,
    // Below the cursor, since fields go in this order and the cursor uses the database.
    _database: Database,
}

impl Iter {
    pub(crate) fn new(database: Database, cursor: Cursor) -> Self {
        Iter { cursor, _database: database }
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.cursor.next()
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.cursor.next_back()
    }
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Iter")
    }
}
