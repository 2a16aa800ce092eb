//! Several runs as one: their records in order, of each key the youngest.

use std::{cmp::Reverse, collections::BinaryHeap};

use ecotone_substrate::Result;

use super::cursor::{Cursor, HashOf};

/// The records of several cursors.
pub struct Union<'h> {
    /// Those of younger runs first.
    cursors: Vec<Cursor>,
    /// The hash of each cursor's present record, with the cursor's number.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    hash_of: &'h HashOf<'h>,
}

impl<'h> Union<'h> {
    /// Of cursors before their first records, those of younger runs first.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read.
    pub fn new(cursors: Vec<Cursor>, hash_of: &'h HashOf<'h>) -> Result<Union<'h>> {
        let mut union = Union { heads: BinaryHeap::with_capacity(cursors.len()), cursors, hash_of };
        (0..union.cursors.len()).try_for_each(|number| union.advance(number))?;
        Ok(union)
    }

    /// Gives every record to `take`: hash, key and value, which is `None` for a tombstone.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read; those of `take`.
    pub fn each(mut self, mut take: impl FnMut(u64, &[u8], Option<&[u8]>) -> Result<()>) -> Result<()> {
        let mut equal = Vec::new();
        while let Some(Reverse((hash, first))) = self.heads.pop() {
            equal.push(first);
            while let Some(&Reverse((_, other))) = self.heads.peek().filter(|Reverse((other, _))| *other == hash) {
                self.heads.pop();
                equal.push(other);
            }
            // Of equal keys the youngest comes first, since cursors do.
            let number = equal.iter().copied().min_by_key(|number| self.cursors[*number].key()).unwrap_or(first);
            let record = &self.cursors[number];
            take(hash, record.key(), record.value())?;
            if equal.len() == 1 {
                equal.clear();
                self.advance(first)?;
                continue;
            }
            let (same, others): (Vec<_>, Vec<_>) =
                equal.drain(..).partition(|other| self.cursors[*other].key() == self.cursors[number].key());
            self.heads.extend(others.into_iter().map(|other| Reverse((hash, other))));
            same.into_iter().try_for_each(|same| self.advance(same))?;
        }
        Ok(())
    }

    /// Goes on with a cursor, if there is more.
    fn advance(&mut self, number: usize) -> Result<()> {
        let cursor = &mut self.cursors[number];
        if cursor.advance(self.hash_of)? {
            self.heads.push(Reverse((cursor.hash(), number)));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Union<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Union").field("cursors", &self.cursors.len()).finish_non_exhaustive()
    }
}
