//! Copies of what the memtables have, so that nothing of them is held between two calls.

use std::{collections::VecDeque, sync::Arc};

use ecotone_substrate::Result;

use super::written::Written;
use crate::{
    lsm::{
        merged::{Merged, Source},
        view::Member,
    },
    rest::{Direction, Rest},
};

/// Records of the first batch, and of the largest. Each has twice as many as the one before, since most scans are short
/// and few records are in memtables.
const FEW: usize = 4;
const MANY: usize = 64;
/// Bytes with which a batch ends.
const BYTES: usize = 16 << 10;

/// Records that were copied together; no value is a tombstone.
pub(super) struct Batch {
    records: VecDeque<(Vec<u8>, Option<Vec<u8>>)>,
    /// Whether there may be others behind them.
    goes_on: bool,
    /// Records of the next one.
    next: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch { records: VecDeque::new(), goes_on: true, next: FEW }
    }
}

impl Batch {
    /// Whether another one is to be copied before anything comes next.
    pub(super) fn is_used_up(&self) -> bool {
        self.records.is_empty() && self.goes_on
    }

    /// The record that comes next.
    pub(super) fn first(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.records.front().map(|(key, value)| (&**key, value.as_deref()))
    }

    /// The one that comes last.
    pub(super) fn last(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.records.back().map(|(key, value)| (&**key, value.as_deref()))
    }

    /// Leaves the next record.
    pub(super) fn pop(&mut self) {
        self.records.pop_front();
    }

    /// Takes the first of what is left in memtables, which are from young to old, in place of what there was.
    pub(super) fn copy(&mut self, memtables: &[Arc<Member>], left: &Rest, direction: Direction) -> Result<()> {
        let sources =
            memtables.iter().map(|member| Written::begin(member.memtable.cursor(), left, direction)).collect();
        let (mut merged, mut bytes) = (Merged::new(sources, direction, 0), 0);
        self.records.clear();
        self.goes_on = true;
        while self.records.len() < self.next && bytes < BYTES {
            let next = merged.first().and_then(|source| Some((source, source.key().filter(|key| left.contains(key))?)));
            let Some((source, key)) = next else {
                self.goes_on = false;
                return Ok(());
            };
            let mut value = Vec::new();
            let has_value = source.read(&mut value);
            bytes += key.len() + value.len();
            self.records.push_back((key.to_vec(), has_value.then_some(value)));
            merged.pass()?;
        }
        self.next = MANY.min(2 * self.next);
        Ok(())
    }
}
