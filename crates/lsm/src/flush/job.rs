//! The job of a flush: writes the records of an immutable memtable into tables of a new run of L0, but for those that
//! go to the page tier, and publishes them with one edit (lsm.md, "Flush").

use std::{iter, sync::Arc};

use ecotone_substrate::{Result, table::Answer};

use crate::{
    cache::table_reader::TableReader,
    flush::{
        flushed_to_pages::FlushedToPages,
        raise_floors::raise_floors,
        run_builder::{self, RunBuilder},
    },
    manifest::{RunId, VersionEdit},
    memtable::Memtable,
    store::Lsm,
    version::{TableMeta, super_version::MemtableRef},
};

/// Records of a memtable that are sampled to choose the block size.
const SAMPLE: usize = 1000;

/// One flush: an immutable memtable on its way into tables and pages. The flush lock is held meanwhile.
#[derive(Debug)]
pub(crate) struct Flush<'l> {
    pub(super) lsm: &'l Lsm,
    pub(super) memtable: Arc<MemtableRef>,
}

impl Flush<'_> {
    /// The flush of the oldest memtable, if another one than the active memtable is left.
    pub(crate) fn of_oldest(lsm: &Lsm) -> Option<Flush<'_>> {
        lsm.current.oldest_immutable().map(|memtable| Flush { lsm, memtable })
    }

    /// Makes a run of L0 of the records, but for those that go to the page tier, and publishes it.
    pub(crate) fn run(self) -> Result<()> {
        let (lsm, context) = (self.lsm, self.lsm.files.context());
        let began = context.shared.clock.now_for_log();
        let run = RunId::L0(lsm.files.next_ordinal()?);
        context.sync_log()?;
        let flushed_to_pages = self.flush_to_pages()?;
        let tables = self.write_out(&flushed_to_pages)?;
        if tables.is_empty() && flushed_to_pages.is_empty() {
            let _guard = lsm.files.lock_structure();
            lsm.current.install_flushed(&self.memtable, lsm.version());
            lsm.slabs.trim();
            return Ok(());
        }
        // Needed without tables too: records that went to the page tier change the version (adaptive-protocol.md,
        // invariant 8).
        let edit = self.edit(run, &tables, &flushed_to_pages);
        let installed = lsm.install(&edit, &tables, |version| lsm.current.install_flushed(&self.memtable, version));
        installed.inspect_err(|_| run_builder::remove(lsm.files.environment(), &tables))?;
        lsm.flusher.flushes.increment();
        tracing::debug!(
            keyspace = context.keyspace,
            tables = tables.len(),
            written = tables.iter().map(|table| table.bytes()).sum::<u64>(),
            took = ?context.shared.clock.since(began),
            "flushed a memtable"
        );
        lsm.slabs.trim();
        Ok(())
    }

    /// The edit that adds these tables as a run, if there are any, and raises `superseded_from` to that run where this
    /// is safe.
    fn edit(&self, run: RunId, tables: &[Arc<TableReader>], flushed_to_pages: &FlushedToPages) -> VersionEdit {
        let added = tables.iter().map(|reader| (run, reader.file())).collect();
        let flushed = (&self.memtable.memtable, flushed_to_pages);
        let paged_ranges = if tables.is_empty() { Vec::new() } else { raise_floors(&self.lsm.version(), flushed, run) };
        VersionEdit { added, paged_ranges, ..VersionEdit::default() }
    }

    /// Writes the records into durable tables, but for those that went to the page tier.
    fn write_out(&self, flushed_to_pages: &FlushedToPages) -> Result<Vec<Arc<TableReader>>> {
        let (lsm, memtable) = (self.lsm, &self.memtable.memtable);
        lsm.files.context().begin_session()?;
        let name = &mut || lsm.files.new_table_name();
        let version = lsm.version();
        let run_id = RunId::L0(0);
        let options = lsm.table_options(run_id, mean(memtable), iter::empty(), &version);
        let cuts = lsm.output_splitter(run_id, &version);
        let mut output = RunBuilder::new(lsm.files.loader(), options, cuts, name);
        let (mut cursor, mut key, mut value) = (memtable.cursor(), Vec::new(), Vec::new());
        while flushed_to_pages.advance(&mut cursor, &mut key) {
            let (answer, seq) = cursor.read(&mut value);
            let value = (answer == Answer::Value).then_some(&value[..]);
            lsm.record_cache().into_iter().for_each(|record_cache| record_cache.refresh(&key, value));
            output.push(lsm.hash(&key), &key, value, (seq, seq))?;
        }
        output.finish()
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
