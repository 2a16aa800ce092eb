//! Scans of builds for tests, which have the ledger judge what they give, pass over and meet on their way (decision 15,
//! "The ledger").

use std::sync::Arc;

use ecotone_substrate::Result;

use super::{End, Layer, Scan};
use crate::{
    engine::RecordRef,
    lsm::{
        ledger::{Layers, Ledger, Met, Moment},
        merged::Source,
        records::Lsm,
    },
    rest::{Direction, Rest},
};

impl Scan {
    /// Goes to the next record of an end; that there is none is judged.
    pub(super) fn advance_judged(&mut self, direction: Direction, since: Moment) -> Result<bool> {
        let (lsm, is_over) = (self.lsm.clone(), self.over);
        let there = self.advance_end(direction)?;
        let ledger = lsm.ledger().filter(|_| !is_over && !there);
        let left = Rest::new(self.rest.range());
        ledger.into_iter().for_each(|ledger| ledger.passed(since, &left, direction, None));
        Ok(there)
    }

    /// Takes the record that an end went to, judged.
    pub(super) fn take_judged(&mut self, since: Moment) -> Result<Option<RecordRef<'_>>> {
        let (lsm, direction) = (self.lsm.clone(), self.direction);
        let left = Rest::new(self.rest.range());
        let record = self.take_record()?;
        lsm.ledger().into_iter().for_each(|ledger| ledger.passed(since, &left, direction, record));
        Ok(record)
    }
}

impl End {
    /// Judges what the sources have of the key that it went to. What is below is only bound to be older than tables of
    /// the present version; a copy of a memtable may be older than what was flushed since.
    pub(super) fn judge(&self, lsm: &Lsm, ledger: &Ledger) {
        let Some((key, _)) = self.record_with_tombstones() else { return };
        let (mut layers, version) = (Layers::default(), lsm.version());
        let copied = self.batch.first().filter(|(copied, _)| *copied == key);
        layers.above.extend(copied.map(|(_, value)| Met::new(value, None)));
        let is_present = self.version.as_ref().is_some_and(|before| Arc::ptr_eq(before, &version));
        for (layer, (_, value)) in self.stored.sources().iter().filter_map(|layer| Some((layer, layer.record()?))) {
            let met = (layer.key() == Some(key)).then(|| Met::new(value, None));
            match layer {
                Layer::Tables(_) => layers.tables.extend(met),
                Layer::Below(_) => layers.below = met.filter(|_| is_present && !layers.tables.is_empty()),
            }
        }
        ledger.judge(key, &layers);
    }
}
