//! Builds the tables of one run, one after the other, from ascending records. Flushes, compactions and bulk loads write
//! through it.

use std::{mem, sync::Arc};

use ecotone_substrate::{Result, Seq, environment::Environment, table::FileIdentity};

use crate::{
    cache::table_reader::{TableLoader, TableReader},
    compaction::inputs::output_splitter::OutputSplitter,
    table::{Options, TableWriter},
};

/// Tables that are being written one after the other. If the builder is dropped before `finish`, it deletes their
/// files.
pub(crate) struct RunBuilder<'n> {
    loader: Arc<TableLoader>,
    options: Options,
    cuts: OutputSplitter<TableReader>,
    /// Allocates names of new files.
    name: &'n mut dyn FnMut() -> FileIdentity,
    /// The current table, which is not full.
    writer: Option<TableWriter>,
    /// The smallest and the largest sequence of its records.
    sequences: (Seq, Seq),
    done: Vec<Arc<TableReader>>,
}

/// The sequence bounds of an empty table.
const NONE: (Seq, Seq) = (Seq::MAX, 0);

impl<'n> RunBuilder<'n> {
    /// A builder without records and files.
    pub(crate) fn new(
        loader: &Arc<TableLoader>,
        options: Options,
        cuts: OutputSplitter<TableReader>,
        name: &'n mut dyn FnMut() -> FileIdentity,
    ) -> RunBuilder<'n> {
        RunBuilder { loader: loader.clone(), options, cuts, name, writer: None, sequences: NONE, done: Vec::new() }
    }

    /// Adds a record, whose key is above the last one's. No value is a tombstone; `hash` is that of the key.
    ///
    /// # Errors
    /// If memory or space on the disk is wanting, or a write fails.
    pub(crate) fn push(&mut self, hash: u64, key: &[u8], value: Option<&[u8]>, sequences: (Seq, Seq)) -> Result<()> {
        if self.cuts.should_split_before(key, self.table_bytes()) {
            self.end_table()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(TableWriter::create(self.loader.environment(), (self.name)(), self.options)?),
        };
        writer.push(hash, key, value)?;
        self.sequences = (self.sequences.0.min(sequences.0), self.sequences.1.max(sequences.1));
        Ok(())
    }

    /// Notes that the record that was added last was in the block cache.
    pub(crate) fn note_cached(&mut self) {
        self.writer.iter_mut().for_each(TableWriter::note_cached);
    }

    /// Bytes of the blocks of the current table.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, TableWriter::block_bytes)
    }

    /// Writes the rest and syncs all, names too; gives the tables, ascending.
    ///
    /// # Errors
    /// As for [`push`](Self::push). Then there are no files.
    pub(crate) fn finish(mut self) -> Result<Vec<Arc<TableReader>>> {
        self.end_table()?;
        if !self.done.is_empty() {
            let Environment { storage, health, .. } = self.loader.environment();
            storage.sync_dir().map_err(|error| health.poison(error))?;
        }
        Ok(mem::take(&mut self.done))
    }

    fn end_table(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let table = writer.finish(mem::replace(&mut self.sequences, NONE))?;
        self.done.extend(table.map(|table| Arc::new(TableReader::of(table, &self.loader))));
        Ok(())
    }
}

impl Drop for RunBuilder<'_> {
    fn drop(&mut self) {
        remove(self.loader.environment(), &mem::take(&mut self.done));
    }
}

/// Deletes tables that no version has yet.
pub(crate) fn remove(environment: &Environment, tables: &[Arc<TableReader>]) {
    for reader in tables {
        // The caller needs to know the first error. A file that stays is removed by the next opening.
        let _ = environment.storage.remove(reader.table().name().file());
    }
}
