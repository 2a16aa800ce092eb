//! An iterator over the records of a memtable, in either direction.

use std::ops::Bound;

use ecotone_engine::remaining_range::{Direction, RemainingRange};
use ecotone_substrate::{Result, table::Answer};

use crate::{memtable, read::merging_iterator::RecordIterator};

/// An iterator over a memtable that writers may change meanwhile.
pub(crate) struct MemtableIterator<'m> {
    cursor: memtable::Cursor<'m>,
    direction: Direction,
    there: bool,
    key: Vec<u8>,
}

impl<'m> MemtableIterator<'m> {
    /// An iterator on the first record of the remaining range.
    pub(crate) fn begin(
        cursor: memtable::Cursor<'m>,
        rest: &RemainingRange,
        direction: Direction,
    ) -> MemtableIterator<'m> {
        let mut source = MemtableIterator { cursor, direction, there: false, key: Vec::new() };
        match direction {
            Direction::Up => source.seek_first(&rest.low),
            Direction::Down => source.seek_last(&rest.high),
        }
        source
    }

    /// Reads the current value of the present record. False for a tombstone.
    pub(crate) fn read(&self, value: &mut Vec<u8>) -> bool {
        self.cursor.read(value).0 == Answer::Value
    }

    fn seek_first(&mut self, low: &Bound<Vec<u8>>) {
        let there = match low {
            Bound::Unbounded => self.cursor.advance(),
            Bound::Included(low) | Bound::Excluded(low) => self.cursor.seek(low),
        };
        self.stand(there);
        if matches!(low, Bound::Excluded(low) if self.there && self.key == *low) {
            let there = self.cursor.advance();
            self.stand(there);
        }
    }

    fn seek_last(&mut self, high: &Bound<Vec<u8>>) {
        let there = match high {
            Bound::Unbounded => self.cursor.go_to_last(),
            Bound::Included(high) if self.is_there(high) => true,
            // A step back from a higher key could reach a key that was written since.
            Bound::Included(high) | Bound::Excluded(high) => self.cursor.seek_back(high),
        };
        self.stand(there);
    }

    /// Goes to a key, or to the next higher one if the key is absent. Whether the key is there.
    fn is_there(&mut self, key: &[u8]) -> bool {
        let there = self.cursor.seek(key);
        self.stand(there);
        self.there && self.key == key
    }

    fn stand(&mut self, there: bool) {
        self.there = there;
        if there {
            self.cursor.read_key(&mut self.key);
        }
    }
}

impl RecordIterator for MemtableIterator<'_> {
    fn key(&self) -> Option<&[u8]> {
        self.there.then_some(&*self.key)
    }

    fn step(&mut self) -> Result<()> {
        let there = match self.direction {
            Direction::Up => self.cursor.advance(),
            Direction::Down => self.cursor.retreat(),
        };
        self.stand(there);
        Ok(())
    }
}
