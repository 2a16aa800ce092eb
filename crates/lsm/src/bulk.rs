//! Sorted bulk load: ascending records are written as tables straight into the last level, and each table is installed
//! when it is full (lsm.md, "Manual compaction and bulk load").

use std::{iter, ops::Bound, sync::Arc};

use ecotone_engine::{bulk::ascends, contract::Record, record_cache::RecordCache};
use ecotone_substrate::{Result, Seq, memory::Component};

use crate::{
    cache::table_reader::TableReader,
    compaction::inputs::output_splitter::OutputSplitter,
    flush::run_builder::{self, RunBuilder},
    manifest::{RunId, VersionEdit},
    read::iterator::cursor,
    store::Lsm,
    version::{TableMeta, Version},
};

/// The records to load.
type Records<'r> = dyn Iterator<Item = Result<Record>> + 'r;

/// A bulk load in progress.
struct BulkLoad<'l> {
    lsm: &'l Arc<Lsm>,
    /// The largest key so far.
    last: Option<Vec<u8>>,
    /// The run of L0 that the load writes into, if it needed one.
    run: Option<RunId>,
    /// Mean size of a record of the last table.
    mean: Option<usize>,
    loaded: u64,
}

/// Loads ascending records above every key present. After a crash a prefix of the tables is there.
pub(super) fn load_sorted(lsm: &Arc<Lsm>, records: &mut Records<'_>) -> Result<u64> {
    // Older tombstones must not be above the loaded records.
    lsm.flush(Seq::MAX)?;
    let mut scan = cursor(lsm.clone(), (Bound::Unbounded, Bound::Unbounded), Component::Frames);
    let last = scan.next_back()?.map(|(key, _)| key.to_vec());
    drop(scan);
    let mut load = BulkLoad { lsm, last, run: None, mean: None, loaded: 0 };
    let ended = loop {
        match load.next_table(records) {
            Ok(true) => {}
            ended => break ended,
        }
    };
    let wal = &lsm.files.context().shared.wal;
    wal.sync_through(wal.tail().saturating_sub(1))?;
    ended.map(|_| load.loaded)
}

impl BulkLoad<'_> {
    /// Fills a table and installs it. False behind the last record. If a record is wrong, those before it are kept.
    fn next_table(&mut self, records: &mut Records<'_>) -> Result<bool> {
        let Some(first) = self.next(records)? else { return Ok(false) };
        self.lsm.files.context().begin_session()?;
        let (lsm, seq) = (self.lsm, self.lsm.files.context().shared.wal.tail());
        let mean = self.mean.unwrap_or(first.0.len() + first.1.len());
        let options = lsm.table_options(RunId::LAST, mean, iter::empty(), &lsm.version());
        let (name, cuts) = (&mut || lsm.files.new_table_name(), OutputSplitter::new(lsm.tuning.table, None));
        let mut output = RunBuilder::new(lsm.files.loader(), options, cuts, name);
        let (first_key, mut next) = (first.0.clone(), Ok(Some(first)));
        while let Ok(Some((key, value))) = &next {
            output.push(lsm.hash(key), key, Some(value), (seq, seq))?;
            self.last = Some(key.clone());
            if output.table_bytes() >= lsm.tuning.table {
                break;
            }
            next = self.next(records);
        }
        self.install(&output.finish()?, &first_key)?;
        next.map(|more| more.is_some())
    }

    /// The next record, whose key is above all before.
    fn next(&self, records: &mut Records<'_>) -> Result<Option<Record>> {
        records.next().map(|record| record.and_then(|record| ascends(self.last.as_deref(), record))).transpose()
    }

    /// Installs tables, whose first key is `first`.
    fn install(&mut self, tables: &[Arc<TableReader>], first: &[u8]) -> Result<()> {
        let lsm = self.lsm;
        lsm.idle.reset();
        // Both locks, so that neither levels nor ordinals change.
        let (compaction_lock, flush_lock) = (lsm.compactor.lock.lock(), lsm.flusher.lock.lock());
        let installed = self.install_locked(tables, first);
        drop(flush_lock);
        lsm.schedule_flush_if_needed();
        lsm.release_compaction_lock(compaction_lock);
        installed
    }

    fn install_locked(&mut self, tables: &[Arc<TableReader>], first: &[u8]) -> Result<()> {
        let lsm = self.lsm;
        let run_id = self.place_for(first)?;
        let added = tables.iter().map(|reader| (run_id, reader.file())).collect();
        let change = VersionEdit { added, ..VersionEdit::default() };
        let before = lsm.version();
        let last = self.last.as_deref().expect("a load has records");
        lsm.read_observer().into_iter().for_each(|observer| observer.on_bulk_load(first, last));
        let installed = lsm.install(&change, tables, |version| lsm.current.install_version(version));
        installed.inspect_err(|_| run_builder::remove(lsm.files.environment(), tables))?;
        if run_id.is_l0() && may_have_values_from(&before, first) {
            // Values of these keys in the record cache, or admitted from the version before, are older.
            lsm.record_cache().into_iter().for_each(RecordCache::invalidate);
        }
        self.run = Some(run_id).filter(|run_id| run_id.is_l0());
        for reader in tables {
            let table = reader.table();
            self.loaded += table.records();
            self.mean = Some((table.bytes() / table.records()) as usize);
        }
        Ok(())
    }

    /// The last level; or a run of L0 where there are tombstones of the loaded keys, or records that others have
    /// written behind them, or a paged range in which the last level is not visible.
    fn place_for(&self, first: &[u8]) -> Result<RunId> {
        let version = self.lsm.version();
        let last = RunId::LAST;
        if version.tables().all(|reader| reader.last() < first) && version.paged_ranges().is_visible_from(last, first) {
            return Ok(last);
        }
        let is_behind =
            |run: &RunId| version.run(*run).is_some_and(|run| run.tables().iter().all(|reader| reader.last() < first));
        match self.run.filter(is_behind).filter(|run| version.paged_ranges().is_visible_from(*run, first)) {
            Some(run) => Ok(run),
            None => self.lsm.files.next_ordinal().map(RunId::L0),
        }
    }
}

/// Whether a version may have values of this key or of any above it: others may have written them since the load began.
fn may_have_values_from(version: &Version<TableReader>, first: &[u8]) -> bool {
    let has_values =
        |reader: &TableReader| reader.last() >= first && reader.table().records() > reader.table().tombstones();
    version.tables().any(|reader| has_values(reader))
        || version.paged_ranges().iter().any(|paged_range| paged_range.bounds().1 > first)
}
