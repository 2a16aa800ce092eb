//! A table that is a part of a keyspace: open, with what finds keys in it.

use std::sync::{Arc, OnceLock};

use ecotone_substrate::{Result, environment::Environment, storage, table::File};

use super::{
    table::{Answer, Filter, Index, Table},
    version::Ranged,
};

/// A table, and its index and filter from their first use on.
#[derive(Debug)]
pub(super) struct Handle {
    table: Arc<Table>,
    index: OnceLock<Index>,
    filter: OnceLock<Option<Filter>>,
}

impl Handle {
    /// Of an open table.
    pub(super) fn of(table: Table) -> Handle {
        Handle { table: Arc::new(table), index: OnceLock::new(), filter: OnceLock::new() }
    }

    /// The table.
    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The index. Several that ask for it first may each load it, and one is kept.
    ///
    /// # Errors
    /// If it is damaged or cannot be read, or there is no memory for it.
    pub(super) fn index(&self, environment: &Environment) -> Result<&Index> {
        match self.index.get() {
            Some(index) => Ok(index),
            None => {
                let loaded = self.table.index(environment)?;
                Ok(self.index.get_or_init(|| loaded))
            }
        }
    }

    /// Bytes of the index, if it is in memory.
    pub(super) fn index_bytes(&self) -> u64 {
        self.index.get().map_or(0, |_| self.table.index_bytes().into())
    }

    fn filter(&self, environment: &Environment) -> Result<Option<&Filter>> {
        let filter = match self.filter.get() {
            Some(filter) => filter,
            None => {
                let loaded = self.table.filter(environment)?;
                self.filter.get_or_init(|| loaded)
            }
        };
        Ok(filter.as_ref())
    }

    /// Looks for a key that the table covers. A value is appended to `value`. `memory` is for one block, leased when it is needed first.
    ///
    /// # Errors
    /// If something of it is damaged or cannot be read, or there is no memory for it.
    pub(super) fn find(
        &self,
        environment: &Environment,
        (hash, key): (u64, &[u8]),
        memory: &mut Option<storage::Block>,
        value: &mut Vec<u8>,
    ) -> Result<Option<Answer>> {
        if self.filter(environment)?.is_some_and(|filter| !filter.may_have(hash)) {
            return Ok(None);
        }
        let index = self.index(environment)?;
        let memory = match memory {
            Some(memory) if memory.len() >= self.table.block_size() => memory,
            small => small.insert(self.table.memory_for_a_block(environment)?),
        };
        self.table.find(index, key, memory, value)
    }
}

impl Ranged for Handle {
    fn file(&self) -> File {
        self.table.name().into()
    }

    fn first(&self) -> &[u8] {
        self.table.range().0
    }

    fn last(&self) -> &[u8] {
        self.table.range().1
    }

    fn bytes(&self) -> u64 {
        self.table.file_bytes()
    }
}
