//! Records on their way into the tables of one run.

use std::{mem, sync::Arc};

use ecotone_substrate::{Result, Seq, environment::Environment, table::Name};

use super::{
    compact::cuts::Cuts,
    handle::{Handle, Loader},
    table::{Options, TableWriter},
};

/// Tables that are being written one after the other. Dropped before they are finished, they take their files with
/// them.
pub(super) struct Output<'n> {
    loader: Arc<Loader>,
    options: Options,
    cuts: Cuts<Handle>,
    /// Names files that are made next.
    name: &'n mut dyn FnMut() -> Name,
    /// The one that is not full.
    writer: Option<TableWriter>,
    /// The smallest and the largest sequence of its records.
    sequences: (Seq, Seq),
    done: Vec<Arc<Handle>>,
}

/// The bounds of no sequences.
const NONE: (Seq, Seq) = (Seq::MAX, 0);

impl<'n> Output<'n> {
    /// No records, and no files.
    pub(super) fn new(
        loader: &Arc<Loader>,
        options: Options,
        cuts: Cuts<Handle>,
        name: &'n mut dyn FnMut() -> Name,
    ) -> Output<'n> {
        Output { loader: loader.clone(), options, cuts, name, writer: None, sequences: NONE, done: Vec::new() }
    }

    /// Adds a record, whose key is above the last one's. No value is a tombstone; the hash is that of the key.
    ///
    /// # Errors
    /// If memory or space on the disk is wanting, or a write fails.
    pub(super) fn push(&mut self, hash: u64, key: &[u8], value: Option<&[u8]>, sequences: (Seq, Seq)) -> Result<()> {
        if self.cuts.end_before(key, self.table_bytes()) {
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

    /// The record that was added last was in the block cache.
    pub(super) fn note_cached(&mut self) {
        self.writer.iter_mut().for_each(TableWriter::note_cached);
    }

    /// Bytes of the blocks of the present table.
    pub(super) fn table_bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, TableWriter::block_bytes)
    }

    /// Writes the rest and syncs all, names too; gives the tables, ascending.
    ///
    /// # Errors
    /// As for [`push`](Self::push). Then there are no files.
    pub(super) fn finish(mut self) -> Result<Vec<Arc<Handle>>> {
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
        self.done.extend(table.map(|table| Arc::new(Handle::of(table, &self.loader))));
        Ok(())
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        remove(self.loader.environment(), &mem::take(&mut self.done));
    }
}

/// Removes tables that nothing names yet.
pub(super) fn remove(environment: &Environment, tables: &[Arc<Handle>]) {
    for handle in tables {
        // What went wrong first is what the caller needs to know. A file that stays is removed by the next opening.
        let _ = environment.storage.remove(handle.table().name().file());
    }
}
