//! Copies of memtable records, so that a scan pins no memtable between two calls.

use std::{collections::VecDeque, sync::Arc};

use ecotone_engine::remaining_range::{Direction, RemainingRange};
use ecotone_substrate::Result;

use crate::{
    memtable::iterator::MemtableIterator,
    read::merging_iterator::{MergingIterator, RecordIterator},
    version::super_version::MemtableRef,
};

/// Records of the first batch, and of the largest. Each batch has twice as many as the one before, since most scans are
/// short and few of their records are in memtables.
const FIRST_BATCH_RECORDS: usize = 4;
const MAX_BATCH_RECORDS: usize = 64;
/// A batch ends once it has this many bytes.
const MAX_BATCH_BYTES: usize = 16 << 10;

/// Records that were copied together; a value of `None` is a tombstone.
pub(crate) struct MemtableBatch {
    records: VecDeque<(Vec<u8>, Option<Vec<u8>>)>,
    /// Whether the memtables may have more records beyond the batch.
    goes_on: bool,
    /// Records of the next batch.
    next: usize,
}

impl Default for MemtableBatch {
    fn default() -> MemtableBatch {
        MemtableBatch { records: VecDeque::new(), goes_on: true, next: FIRST_BATCH_RECORDS }
    }
}

impl MemtableBatch {
    /// Whether the next batch must be copied.
    pub(crate) fn is_used_up(&self) -> bool {
        self.records.is_empty() && self.goes_on
    }

    /// The next record.
    pub(crate) fn first(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.records.front().map(|(key, value)| (&**key, value.as_deref()))
    }

    /// The last record of the batch.
    pub(crate) fn last(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.records.back().map(|(key, value)| (&**key, value.as_deref()))
    }

    /// Removes the next record.
    pub(crate) fn pop(&mut self) {
        self.records.pop_front();
    }

    /// Replaces the batch by the first records of the remaining range. `memtables` are ordered from young to old.
    pub(crate) fn copy(
        &mut self,
        memtables: &[Arc<MemtableRef>],
        left: &RemainingRange,
        direction: Direction,
    ) -> Result<()> {
        let sources = memtables
            .iter()
            .map(|memtable_ref| MemtableIterator::begin(memtable_ref.memtable.cursor(), left, direction))
            .collect();
        let (mut merged, mut bytes) = (MergingIterator::new(sources, direction, 0), 0);
        self.records.clear();
        self.goes_on = true;
        while self.records.len() < self.next && bytes < MAX_BATCH_BYTES {
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
        self.next = MAX_BATCH_RECORDS.min(2 * self.next);
        Ok(())
    }
}
