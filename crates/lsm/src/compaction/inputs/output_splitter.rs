//! Decides where the output tables of a merge end (lsm.md, "Tables"). A table ends when it has its target size, when it
//! overlaps too much of the next level, at the start of one of that level's tables if it is at least half full, and at
//! a guard.

use std::collections::VecDeque;

use crate::version::{Run, TableMeta};

/// A table overlaps at most this many tables' bytes of the next level: 1.25 times the ratio of levels.
pub(crate) const MAX_GRANDPARENT_OVERLAP: u64 = 10;

/// Asked for each key of the output, in ascending order.
#[derive(Debug)]
pub(crate) struct OutputSplitter<T> {
    /// Bytes of blocks at which a table is full.
    full: u64,
    /// The level below the run that is written.
    grandparents: Option<Run<T>>,
    /// Number of its tables that begin at or below the last key.
    passed: usize,
    /// Bytes of its tables that the current output table overlaps.
    touched: u64,
    /// Guards that are still to come: keys before which a table ends however small it is, ascending.
    guards: VecDeque<Vec<u8>>,
}

impl<T> Clone for OutputSplitter<T> {
    fn clone(&self) -> OutputSplitter<T> {
        OutputSplitter { grandparents: self.grandparents.clone(), guards: self.guards.clone(), ..*self }
    }
}

impl<T: TableMeta> OutputSplitter<T> {
    /// For tables of `full` bytes above a level, if there is one.
    pub(crate) fn new(full: u64, grandparents: Option<&Run<T>>) -> OutputSplitter<T> {
        OutputSplitter { full, grandparents: grandparents.cloned(), passed: 0, touched: 0, guards: VecDeque::new() }
    }

    /// The same with these guards, which ascend: a table ends before each, however small it is.
    pub(crate) fn with_guards(self, guards: Vec<Vec<u8>>) -> OutputSplitter<T> {
        OutputSplitter { guards: guards.into(), ..self }
    }

    /// Whether a table with `bytes` bytes of blocks ends before this key. A table without bytes does not end.
    pub(crate) fn should_split_before(&mut self, key: &[u8], bytes: u64) -> bool {
        let (begins, is_guarded) = (self.pass(key), self.pass_guards(key));
        let is_far = self.touched > MAX_GRANDPARENT_OVERLAP * self.full;
        let ends = bytes > 0 && (is_guarded || bytes >= self.full || is_far || (begins && bytes >= self.full / 2));
        if ends || bytes == 0 {
            self.touched = self.touched_by(key);
        }
        ends
    }

    /// Advances to a key in the level below. Returns whether one of its tables begins on the way.
    fn pass(&mut self, key: &[u8]) -> bool {
        let (tables, before) = (self.grandparents.as_ref().map_or(&[][..], |run| run.tables()), self.passed);
        while let Some(table) = tables.get(self.passed).filter(|table| table.first() <= key) {
            self.passed += 1;
            self.touched += table.bytes();
        }
        self.passed > before
    }

    /// Advances to a key. Returns whether there was a guard on the way.
    fn pass_guards(&mut self, key: &[u8]) -> bool {
        let before = self.guards.len();
        while self.guards.front().is_some_and(|guard| guard.as_slice() <= key) {
            self.guards.pop_front();
        }
        self.guards.len() < before
    }

    /// Bytes of the level below that a table overlaps at its first key.
    fn touched_by(&self, key: &[u8]) -> u64 {
        let last = self.grandparents.as_ref().and_then(|run| run.tables().get(self.passed.checked_sub(1)?));
        last.filter(|table| table.last() >= key).map_or(0, |table| table.bytes())
    }
}
