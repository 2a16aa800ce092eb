//! Where the tables of a run end (decision 11, "Cuts").

use std::collections::VecDeque;

use crate::lsm::{
    handle::Handle,
    records::Lsm,
    structure::Place,
    version::{Ranged, Run, Version},
};

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
    /// Keys before which a table ends however small it is, ascending, that are still to come.
    guards: VecDeque<Vec<u8>>,
}

impl Lsm {
    /// Where the tables of a place end.
    pub(in crate::lsm) fn cuts_at(&self, place: Place, version: &Version<Handle>) -> Cuts<Handle> {
        let cuts = Cuts::new(self.sizes.table, version.behind(place, self.sizes.level_0));
        // Those of level 0 end where what is hot does, so that it goes down without what lies beside it.
        cuts.guarded(self.base().filter(|_| place.is_run()).map_or_else(Vec::new, |base| base.guards()))
    }
}

impl<T> Clone for Cuts<T> {
    fn clone(&self) -> Cuts<T> {
        Cuts { behind: self.behind.clone(), guards: self.guards.clone(), ..*self }
    }
}

impl<T: Ranged> Cuts<T> {
    /// For tables with so many bytes before a level, if there is one.
    pub(in crate::lsm) fn new(full: u64, behind: Option<&Run<T>>) -> Cuts<T> {
        Cuts { full, behind: behind.cloned(), passed: 0, touched: 0, guards: VecDeque::new() }
    }

    /// The same, with tables that end before these keys, which are ascending, however small they are.
    pub(super) fn guarded(self, guards: Vec<Vec<u8>>) -> Cuts<T> {
        Cuts { guards: guards.into(), ..self }
    }

    /// Whether a table that has so many bytes of blocks ends before this key. None has no bytes.
    pub(in crate::lsm) fn end_before(&mut self, key: &[u8], bytes: u64) -> bool {
        let (begins, is_guarded) = (self.pass(key), self.pass_guards(key));
        let is_far = self.touched > REACH * self.full;
        let ends = bytes > 0 && (is_guarded || bytes >= self.full || is_far || (begins && bytes >= self.full / 2));
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

    /// Goes to a key. Whether there was a guard on the way.
    fn pass_guards(&mut self, key: &[u8]) -> bool {
        let before = self.guards.len();
        while self.guards.front().is_some_and(|guard| guard.as_slice() <= key) {
            self.guards.pop_front();
        }
        self.guards.len() < before
    }

    /// Bytes behind that a table touches which begins with the key.
    fn touched_by(&self, key: &[u8]) -> u64 {
        let last = self.behind.as_ref().and_then(|run| run.tables().get(self.passed.checked_sub(1)?));
        last.filter(|table| table.last() >= key).map_or(0, |table| table.bytes())
    }
}
