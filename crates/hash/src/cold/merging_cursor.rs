//! A merging cursor over several runs: their records in order, and of each key only the youngest.

use std::{cmp::Reverse, collections::BinaryHeap};

use ecotone_engine::superseded::LeftOut;
use ecotone_substrate::Result;

use super::cursor::{Cursor, HashOf};

/// Merges several cursors.
pub struct MergingCursor<'h> {
    /// Cursors of younger runs come first.
    cursors: Vec<Cursor>,
    /// The hash of each cursor's current record, with the cursor's number.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    hash_of: &'h HashOf<'h>,
}

impl<'h> MergingCursor<'h> {
    /// Merges cursors that are before their first records. Cursors of younger runs come first.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read.
    pub fn new(cursors: Vec<Cursor>, hash_of: &'h HashOf<'h>) -> Result<MergingCursor<'h>> {
        let mut union = MergingCursor { heads: BinaryHeap::with_capacity(cursors.len()), cursors, hash_of };
        (0..union.cursors.len()).try_for_each(|number| union.advance(number))?;
        Ok(union)
    }

    /// Passes every record to `take`: hash, key and value, which is `None` for a tombstone. Older records of the key
    /// are left out.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read; errors of `take`.
    pub fn each(
        mut self,
        left_out: &mut LeftOut,
        mut take: impl FnMut(u64, &[u8], Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut equal = Vec::new();
        while let Some(Reverse((hash, first))) = self.heads.pop() {
            equal.push(first);
            while let Some(&Reverse((_, other))) = self.heads.peek().filter(|Reverse((other, _))| *other == hash) {
                self.heads.pop();
                equal.push(other);
            }
            // The youngest of equal keys comes first, since cursors of younger runs do.
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
            left_out.newest(self.cursors[number].value());
            let older = same.iter().filter(|older| **older != number).map(|older| &self.cursors[*older]);
            older.for_each(|older| left_out.hidden(older.key(), older.value()));
            same.into_iter().try_for_each(|same| self.advance(same))?;
        }
        Ok(())
    }

    /// Advances a cursor, if it has more records.
    fn advance(&mut self, number: usize) -> Result<()> {
        let cursor = &mut self.cursors[number];
        if cursor.advance(self.hash_of)? {
            self.heads.push(Reverse((cursor.hash(), number)));
        }
        Ok(())
    }
}

impl std::fmt::Debug for MergingCursor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Union").field("cursors", &self.cursors.len()).finish_non_exhaustive()
    }
}
