//! Checked scans of test builds: the read checker judges each record that a scan returns, each gap that it passes over,
//! and the order of the records it meets (adaptive-protocol.md, "The read checker").

use std::sync::Arc;

use ecotone_engine::{
    contract::RecordRef,
    remaining_range::{Direction, RemainingRange},
};
use ecotone_substrate::Result;

use crate::{
    checker::{LogicalTime, ObservedLayers, ObservedRecord, ReadChecker},
    read::{
        iterator::{Scan, ScanEnd},
        merging_iterator::RecordIterator,
        sorted_run_iterator::SortedRunIterator,
    },
    store::Lsm,
};

impl Scan {
    /// Goes to the next record of an end. If there is none, the read checker judges that.
    pub(crate) fn advance_checked(&mut self, direction: Direction, since: LogicalTime) -> Result<bool> {
        let (lsm, is_over) = (self.lsm.clone(), self.over);
        let there = self.advance_end(direction)?;
        let read_checker = lsm.read_checker().filter(|_| !is_over && !there);
        let left = RemainingRange::new(self.rest.range());
        read_checker.into_iter().for_each(|read_checker| read_checker.check_scan_step(since, &left, direction, None));
        Ok(there)
    }

    /// Takes the present record, after the read checker has judged it.
    pub(crate) fn take_checked(&mut self, since: LogicalTime) -> Result<Option<RecordRef<'_>>> {
        let (lsm, direction) = (self.lsm.clone(), self.direction);
        let left = RemainingRange::new(self.rest.range());
        let record = self.take_record()?;
        lsm.read_checker()
            .into_iter()
            .for_each(|read_checker| read_checker.check_scan_step(since, &left, direction, record));
        Ok(record)
    }
}

impl ScanEnd {
    /// Judges the order of the records that the sources have of the present key. A page record must be older only than
    /// tables of the current version, and a batch may be older than what was flushed since.
    pub(crate) fn check_order(&self, lsm: &Lsm, read_checker: &ReadChecker) {
        let Some((key, _)) = self.record_with_tombstones() else { return };
        let (mut layers, version) = (ObservedLayers::default(), lsm.version());
        let copied = self.batch.first().filter(|(copied, _)| *copied == key);
        layers.above.extend(copied.map(|(_, value)| ObservedRecord::new(value, None)));
        let is_present = self.version.as_ref().is_some_and(|before| Arc::ptr_eq(before, &version));
        for (layer, (_, value)) in self.stored.sources().iter().filter_map(|layer| Some((layer, layer.record()?))) {
            let met = (layer.key() == Some(key)).then(|| ObservedRecord::new(value, None));
            match layer {
                SortedRunIterator::Tables(_) => layers.tables.extend(met),
                SortedRunIterator::Pages(_) => layers.below = met.filter(|_| is_present && !layers.tables.is_empty()),
            }
        }
        read_checker.check_order(key, &layers);
    }
}
