//! The records of a memtable, in either direction.

use std::ops::Bound;

use ecotone_substrate::{Result, table::Answer};

use crate::{
    lsm::{memtable, merged::Source},
    rest::{Direction, Rest},
};

/// The records of a memtable, which others go on changing.
pub(super) struct Written<'m> {
    cursor: memtable::Cursor<'m>,
    direction: Direction,
    there: bool,
    key: Vec<u8>,
}

impl<'m> Written<'m> {
    /// On the first that is left.
    pub(super) fn begin(cursor: memtable::Cursor<'m>, rest: &Rest, direction: Direction) -> Written<'m> {
        let mut source = Written { cursor, direction, there: false, key: Vec::new() };
        match direction {
            Direction::Up => source.seek_first(&rest.low),
            Direction::Down => source.seek_last(&rest.high),
        }
        source
    }

    /// What the present record says now. False for a tombstone.
    pub(super) fn read(&self, value: &mut Vec<u8>) -> bool {
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
            // A step back from a key above would come to one that was written since.
            Bound::Included(high) | Bound::Excluded(high) => self.cursor.seek_back(high),
        };
        self.stand(there);
    }

    /// Goes to a key, or behind it if it is not there.
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

impl Source for Written<'_> {
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
