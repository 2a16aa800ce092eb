//! Where the tables of a run end (decision 11, "Cuts").

use crate::lsm::version::{Ranged, Run};

/// A table touches no more than so many tables' bytes of the level behind it: 1.25 times the ratio of levels.
pub(super) const REACH: u64 = 10;

/// Decides it while keys come, in ascending order.
#[derive(Debug)]
pub(in crate::lsm) struct Cuts<T> {
    /// Bytes of blocks with which a table is full.
    full: u64,
    /// The level behind the run that is written.
    behind: Option<Run<T>>,
    /// Its tables that begin at or below the last key.
    passed: usize,
    /// Bytes of its tables that the present table touches.
    touched: u64,
}

impl<T: Ranged> Cuts<T> {
    /// For tables with so many bytes before a level, if there is one.
    pub(in crate::lsm) fn new(full: u64, behind: Option<&Run<T>>) -> Cuts<T> {
        Cuts { full, behind: behind.cloned(), passed: 0, touched: 0 }
    }

    /// Whether a table that has so many bytes of blocks ends before this key. None has no bytes.
    pub(in crate::lsm) fn end_before(&mut self, key: &[u8], bytes: u64) -> bool {
        let begins = self.pass(key);
        let is_far = self.touched > REACH * self.full;
        let ends = bytes > 0 && (bytes >= self.full || is_far || (begins && bytes >= self.full / 2));
        if ends || bytes == 0 {
            self.touched = self.touched_by(key);
        }
        ends
    }

    /// Goes to a key in the level behind. Whether a table of it begins on the way.
    fn pass(&mut self, key: &[u8]) -> bool {
        let (tables, before) = (self.behind.as_ref().map_or(&[][..], |run| run.tables()), self.passed);
        while let Some(table) = tables.get(self.passed).filter(|table| table.first() <= key) {
            self.passed += 1;
            self.touched += table.bytes();
        }
        self.passed > before
    }

    /// Bytes behind that a table touches which begins with the key.
    fn touched_by(&self, key: &[u8]) -> u64 {
        let last = self.behind.as_ref().and_then(|run| run.tables().get(self.passed.checked_sub(1)?));
        last.filter(|table| table.last() >= key).map_or(0, |table| table.bytes())
    }
}
