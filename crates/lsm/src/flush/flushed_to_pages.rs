//! The ranges whose records a flush has written to pages: the tables of the flush leave them out (lsm.md, "Flush").

use crate::{memtable::Cursor, pages::pending_frees::KeySpan};

/// The ranges, ascending, whose records of a memtable were all written to pages.
#[derive(Debug, Default)]
pub(crate) struct FlushedToPages(pub(super) Vec<KeySpan>);

impl FlushedToPages {
    /// Whether there are no such ranges.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Moves the cursor to the next record outside of the ranges, and copies its key. False if there is none.
    pub(crate) fn advance(&self, cursor: &mut Cursor<'_>, key: &mut Vec<u8>) -> bool {
        let is_there = cursor.advance();
        self.pass(cursor, is_there, key)
    }

    /// Likewise, to the first record whose key is not below `from`.
    pub(crate) fn seek(&self, cursor: &mut Cursor<'_>, from: &[u8], key: &mut Vec<u8>) -> bool {
        let is_there = cursor.seek(from);
        self.pass(cursor, is_there, key)
    }

    fn pass(&self, cursor: &mut Cursor<'_>, mut is_there: bool, key: &mut Vec<u8>) -> bool {
        while is_there {
            cursor.read_key(key);
            match self.end_of(key) {
                None => return true,
                Some(end) => is_there = cursor.seek(end),
            }
        }
        false
    }

    /// The end of the range that contains a key.
    fn end_of(&self, key: &[u8]) -> Option<&[u8]> {
        let at = self.0.partition_point(|(_, upper)| upper.as_slice() <= key);
        self.0.get(at).filter(|(lower, _)| lower.as_slice() <= key).map(|(_, upper)| upper.as_slice())
    }
}
