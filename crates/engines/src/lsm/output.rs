//! Records on their way into the tables of one run.

use std::{mem, sync::Arc};

use ecotone_substrate::{Result, Seq, environment::Environment, table::Name};

use super::{
    handle::Handle,
    table::{Options, TableWriter},
};

/// What tables of one run are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Each of them.
    pub table: Options,
    /// Bytes of blocks with which a table is full.
    pub table_bytes: u64,
}

/// Tables that are being written one after the other. Dropped before they are finished, they take their files with them.
pub struct Output<'n> {
    environment: Environment,
    shape: Shape,
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
    pub fn new(environment: &Environment, shape: Shape, name: &'n mut dyn FnMut() -> Name) -> Output<'n> {
        Output { environment: environment.clone(), shape, name, writer: None, sequences: NONE, done: Vec::new() }
    }

    /// Adds a record, whose key is above the last one's. No value is a tombstone; the hash is that of the key.
    ///
    /// # Errors
    /// If memory or space on the disk is wanting, or a write fails.
    pub fn push(&mut self, hash: u64, key: &[u8], value: Option<&[u8]>, sequences: (Seq, Seq)) -> Result<()> {
        if self.writer.as_ref().is_some_and(|writer| writer.block_bytes() >= self.shape.table_bytes) {
            self.end_table()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(TableWriter::create(&self.environment, (self.name)(), self.shape.table)?),
        };
        writer.push(hash, key, value)?;
        self.sequences = (self.sequences.0.min(sequences.0), self.sequences.1.max(sequences.1));
        Ok(())
    }

    /// Writes the rest and syncs all, names too; gives the tables, ascending.
    ///
    /// # Errors
    /// As for [`push`](Self::push). Then there are no files.
    pub fn finish(mut self) -> Result<Vec<Arc<Handle>>> {
        self.end_table()?;
        if !self.done.is_empty() {
            let Environment { storage, health, .. } = &self.environment;
            storage.sync_dir().map_err(|error| health.poison(error))?;
        }
        Ok(mem::take(&mut self.done))
    }

    fn end_table(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let table = writer.finish(mem::replace(&mut self.sequences, NONE))?;
        self.done.extend(table.map(|table| Arc::new(Handle::of(table))));
        Ok(())
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        remove(&self.environment, &mem::take(&mut self.done));
    }
}

/// Removes tables that nothing names yet.
fn remove(environment: &Environment, tables: &[Arc<Handle>]) {
    for handle in tables {
        // What went wrong first is what the caller needs to know. A file that stays is removed by the next opening.
        let _ = environment.storage.remove(handle.table().name().file());
    }
}
