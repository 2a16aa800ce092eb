//! Checked reads: after a read, the read checker compares its result, and all layers that have the key, with the writes
//! that it has recorded (adaptive-protocol.md, "The read checker").

use std::sync::Arc;

use ecotone_engine::{
    contract::{Cursor, VisitValue},
    record_cache::CacheLookup,
};
use ecotone_substrate::{Result, Seq, table::Answer};

use crate::{
    cache::table_reader::TableReader,
    checker::{ObservedLayers, ObservedRecord, ReadChecker, cursor::CheckedCursor},
    read::multi_get::find_many,
    store::{Lsm, Met, ReadObserver},
    version::SortedRun,
};

impl ReadObserver for ReadChecker {
    fn on_write(&self, key: &[u8], value: Option<&[u8]>, seq: Seq) {
        self.begin(key, value, seq);
    }

    fn on_written(&self, key: &[u8], is_applied: bool) {
        self.end(key, is_applied);
    }

    fn on_replayed(&self) {
        self.replayed();
    }

    fn on_bulk_load(&self, first: &[u8], last: &[u8]) {
        self.forget(first, last);
    }

    fn get(&self, lsm: &Lsm, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let since = self.now();
        let found = lsm.find(key, value)?;
        self.check_read(since, key, found.then_some(value));
        self.check_layers(lsm, key);
        Ok(found)
    }

    fn multi_get(&self, lsm: &Lsm, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        let since = self.now();
        find_many(lsm, keys, &mut |number, value| {
            self.check_read(since, keys[number], value);
            found(number, value);
        })?;
        keys.iter().for_each(|key| self.check_layers(lsm, key));
        Ok(())
    }

    fn cursor(self: Arc<Self>, cursor: Box<dyn Cursor>) -> Box<dyn Cursor> {
        Box::new(CheckedCursor::new(cursor, self))
    }

    fn on_key(&self, key: &[u8], memtable: Option<Met<'_>>, tables: &[Met<'_>], page: Option<Met<'_>>) {
        let observed = |met| ObservedRecord::new(met, None);
        let above = memtable.map(observed).into_iter().collect();
        let tables: Vec<ObservedRecord> = tables.iter().copied().map(observed).collect();
        let below = page.map(observed).filter(|_| !tables.is_empty());
        self.check_order(key, &ObservedLayers { above, tables, below });
    }
}

impl ReadChecker {
    /// Checks the order of all visible records of a key that the checker knows. If they cannot be read, nothing is
    /// checked.
    fn check_layers(&self, lsm: &Lsm, key: &[u8]) {
        if self.has_history(key)
            && let Ok(Some(layers)) = layers(lsm, key)
        {
            self.check_order(key, &layers);
        }
    }
}

/// All visible records of a key; `None` if the version was replaced while they were read. Older layers are read
/// first: a record that a flush has written to pages or to the record cache, and has not published, is then met in
/// its memtable.
fn layers(lsm: &Lsm, key: &[u8]) -> Result<Option<ObservedLayers>> {
    let (version, mut layers, mut value) = (lsm.version(), ObservedLayers::default(), Vec::new());
    for run in version.sorted_runs(version.visibility_at(key)).rev() {
        match run {
            SortedRun::Tables(_, run) => {
                let met = run.table_for(key).map(|reader| met_in(lsm, reader, key)).transpose()?;
                layers.tables.extend(met.flatten());
            }
            SortedRun::Pages => {
                let is_there = lsm.page_tier().map_or(Ok(false), |page_tier| page_tier.find(key, &mut value))?;
                layers.below = is_there.then(|| ObservedRecord::new(Some(&value), None));
            }
        }
    }
    layers.tables.reverse();
    value.clear();
    let is_cached =
        lsm.record_cache().is_some_and(|record_cache| record_cache.lookup(key, &mut value) == CacheLookup::Found);
    let cached = is_cached.then(|| ObservedRecord::new(Some(&value), None));
    let pin = lsm.current.pin();
    let super_version = lsm.current.load(&pin);
    for memtable_ref in &super_version.memtables {
        value.clear();
        let record = memtable_ref.memtable.get(lsm.hash(key), key, &mut value);
        layers.above.extend(
            record.map(|(answer, seq)| ObservedRecord::new((answer == Answer::Value).then_some(&value[..]), Some(seq))),
        );
    }
    layers.above.extend(cached);
    Ok(Arc::ptr_eq(&super_version.version, &version).then_some(layers))
}

/// Looks for a key in a table, without its filter.
fn met_in(lsm: &Lsm, reader: &TableReader, key: &[u8]) -> Result<Option<ObservedRecord>> {
    let (table, mut value) = (reader.table(), Vec::new());
    let mut memory = table.memory_for_a_block(lsm.files.environment())?;
    let answer = table.find(reader.load_and_locate(key)?, key, &mut memory, &mut value)?;
    Ok(answer.map(|answer| ObservedRecord::new((answer == Answer::Value).then_some(&value[..]), None)))
}
