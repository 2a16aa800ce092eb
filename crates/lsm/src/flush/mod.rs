//! Flushing: an immutable memtable becomes a run of L0. Memtables are flushed from the oldest on. Some of their records
//! may go to the page tier instead (lsm.md, "Flush").

pub(crate) mod raise_floors;
pub(crate) mod run_builder;
pub(crate) mod to_pages;

use std::{
    iter,
    sync::{Arc, Weak},
};

use ecotone_substrate::{Result, Seq, table::Answer};

use crate::{
    cache::table_reader::TableReader,
    flush::{raise_floors::raise_floors, run_builder::RunBuilder, to_pages::FlushedToPages},
    manifest::{RunId, VersionEdit},
    memtable::Memtable,
    store::Lsm,
    table::{Options, block_size},
    version::{TableMeta, Version, super_version::MemtableRef},
};

/// Records of a memtable that are sampled to choose the block size.
const SAMPLE: usize = 1000;

impl Lsm {
    /// Flushes all records with a sequence below `below` that were applied before. They are durable then.
    pub(crate) fn flush(self: &Arc<Self>, below: Seq) -> Result<()> {
        if let Some(youngest) = self.newest_memtable_below(below)? {
            while self.is_memtable_live(&youngest) {
                self.flush_if(|| self.is_memtable_live(&youngest))?;
            }
        }
        self.files.delete_obsolete()
    }

    /// Schedules the flush of all records with a sequence below `below`.
    pub fn begin_flush(self: &Arc<Self>, below: Seq) -> Result<()> {
        if self.newest_memtable_below(below)?.is_some() {
            self.schedule_flush_if_needed();
        }
        Ok(())
    }

    /// The youngest memtable with a sequence below `below`. If that is the active one, rotates it.
    fn newest_memtable_below(&self, below: Seq) -> Result<Option<Weak<MemtableRef>>> {
        let reaches =
            |memtable_ref: &Arc<MemtableRef>| memtable_ref.memtable.smallest().is_some_and(|first| first < below);
        let youngest = {
            let pin = self.current.pin();
            let memtables = &self.current.load(&pin).memtables;
            memtables.iter().position(reaches).map(|age| (age, Arc::downgrade(&memtables[age])))
        };
        let Some((age, youngest)) = youngest else { return Ok(None) };
        if age == 0 {
            self.rotate_early(&youngest)?;
        }
        Ok(Some(youngest))
    }

    /// Whether a memtable belongs to the current super version.
    pub(crate) fn is_memtable_live(&self, memtable_ref: &Weak<MemtableRef>) -> bool {
        let pin = self.current.pin();
        self.current.load(&pin).memtables.iter().any(|there| Arc::as_ptr(there) == memtable_ref.as_ptr())
    }

    /// Flushes the oldest memtable, if that is still `needed` once the flush lock is held.
    pub(crate) fn flush_if(self: &Arc<Self>, needed: impl FnOnce() -> bool) -> Result<()> {
        self.ensure_l0_capacity()?;
        let guard = self.flush_lock.lock();
        let flushed = if needed() { self.flush_oldest() } else { Ok(false) };
        drop(guard);
        self.schedule_flush_if_needed();
        self.schedule_compaction_if_due();
        flushed.map(drop)
    }

    /// Flushes all immutable memtables. Returns early if another thread flushes: that thread schedules this job again
    /// when it ends.
    pub(crate) fn flush_waiting(self: &Arc<Self>) -> Result<()> {
        while self.has_immutable_memtables() {
            self.ensure_l0_capacity()?;
            let Some(_guard) = self.flush_lock.try_lock() else { return Ok(()) };
            self.flush_oldest()?;
            self.schedule_compaction_if_due();
        }
        Ok(())
    }

    /// Whether a memtable waits for its flush.
    pub(crate) fn has_immutable_memtables(&self) -> bool {
        self.current.load(&self.current.pin()).memtables.len() > 1
    }

    /// Flushes the oldest memtable into a run of L0, but for the records that go to the page tier. False if only the
    /// active memtable is left. The caller holds the flush lock.
    fn flush_oldest(&self) -> Result<bool> {
        let Some(oldest) = self.current.oldest_immutable() else { return Ok(false) };
        let context = self.files.context();
        let began = context.shared.clock.now_for_log();
        let run = RunId::L0(self.files.next_ordinal()?);
        self.files.context().sync_log()?;
        let flushed_to_pages = self.flush_to_pages(&oldest.memtable)?;
        let tables = self.write_out(&oldest.memtable, &flushed_to_pages)?;
        if tables.is_empty() && flushed_to_pages.is_empty() {
            let _structure = self.files.structure();
            self.current.install_flushed(&oldest, self.version());
            self.slabs.trim();
            return Ok(true);
        }
        // Needed without tables too: records that went to the page tier change the version (adaptive-protocol.md,
        // invariant 8).
        let change = self.change_of(run, &tables, (&oldest.memtable, &flushed_to_pages));
        let installed = self.install(&change, &tables, |version| self.current.install_flushed(&oldest, version));
        installed.inspect_err(|_| run_builder::remove(self.files.environment(), &tables))?;
        self.flushes.increment();
        tracing::debug!(
            keyspace = context.keyspace,
            tables = tables.len(),
            written = tables.iter().map(|table| table.bytes()).sum::<u64>(),
            took = ?context.shared.clock.since(began),
            "flushed a memtable"
        );
        self.slabs.trim();
        Ok(true)
    }

    /// The edit that adds these tables as a run, if there are any, and raises `superseded_from` to that run where this
    /// is safe.
    fn change_of(&self, run: RunId, tables: &[Arc<TableReader>], flushed: (&Memtable, &FlushedToPages)) -> VersionEdit {
        let added = tables.iter().map(|reader| (run, reader.file())).collect();
        let paged_ranges = if tables.is_empty() { Vec::new() } else { raise_floors(&self.version(), flushed, run) };
        VersionEdit { added, paged_ranges, ..VersionEdit::default() }
    }

    /// Applies an edit; `publish` gets the version that follows.
    pub(crate) fn install(
        &self,
        change: &VersionEdit,
        fresh: &[Arc<TableReader>],
        publish: impl FnOnce(Arc<Version<TableReader>>),
    ) -> Result<()> {
        self.files.change(change, fresh, || self.version(), publish)?;
        self.update_debt();
        self.pool.count(fresh.iter().map(|reader| u64::from(reader.table().blocks())).sum());
        self.written.add(fresh.iter().map(|reader| reader.table().bytes()).sum());
        Ok(())
    }

    /// Writes the records of an immutable memtable into durable tables, but for those that went to the page tier.
    fn write_out(&self, memtable: &Memtable, flushed_to_pages: &FlushedToPages) -> Result<Vec<Arc<TableReader>>> {
        self.files.context().begin_session()?;
        let name = &mut || self.files.new_table_name();
        let version = self.version();
        let run_id = RunId::L0(0);
        let options = self.table_options(run_id, mean(memtable), iter::empty(), &version);
        let cuts = self.output_splitter(run_id, &version);
        let mut output = RunBuilder::new(self.files.loader(), options, cuts, name);
        let (mut cursor, mut key, mut value) = (memtable.cursor(), Vec::new(), Vec::new());
        while flushed_to_pages.advance(&mut cursor, &mut key) {
            let (answer, seq) = cursor.read(&mut value);
            let value = (answer == Answer::Value).then_some(&value[..]);
            self.record_cache().into_iter().for_each(|record_cache| record_cache.refresh(&key, value));
            output.push(self.hash(&key), &key, value, (seq, seq))?;
        }
        output.finish()
    }

    /// Options for tables of a run or level, whose records have `mean` bytes and come from the tables `inputs`.
    pub(crate) fn table_options<'t>(
        &self,
        run_id: RunId,
        mean: usize,
        inputs: impl Iterator<Item = &'t TableReader>,
        version: &Version<TableReader>,
    ) -> Options {
        let (options, read_frequency) = (self.files.options(), self.files.loader().read_frequency.of(inputs, version));
        let (filter_bits, compression) = (options.filter_bits_at(run_id), options.compression);
        Options { block: block_size(mean), filter_bits, compression, index: options.wanted(read_frequency) }
    }
}

/// Mean size of a record in a memtable, key and value, by a sample.
fn mean(memtable: &Memtable) -> usize {
    let (mut cursor, mut key, mut value) = (memtable.cursor(), Vec::new(), Vec::new());
    let (mut records, mut bytes) = (0, 0);
    while records < SAMPLE && cursor.advance() {
        cursor.read_key(&mut key);
        cursor.read(&mut value);
        records += 1;
        bytes += key.len() + value.len();
    }
    bytes / records.max(1)
}
