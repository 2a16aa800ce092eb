//! A table that is a part of a keyspace: open, with what finds keys in it while that is of use.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ecotone_substrate::{
    Error, Result,
    environment::Environment,
    limits::PAGE,
    metrics::Counter,
    storage,
    table::{Answer, File},
};

use super::{
    heat::{Heat, Reads},
    part::Part,
    table::{Candidates, Filter, Index, Located, Partition, Table},
    table_cache::{Sort, TableCache},
    version::Ranged,
};

/// What the tables of one keyspace load their indexes and filters with.
#[derive(Debug)]
pub(super) struct Loader {
    environment: Environment,
    cache: Arc<TableCache>,
    /// How often an index or a partition of one was loaded, and a filter.
    pub(super) indexes: Counter,
    pub(super) filters: Counter,
    pub(super) heat: Heat,
}

impl Loader {
    /// Nothing was loaded yet.
    pub(super) fn new(environment: &Environment, cache: &Arc<TableCache>) -> Arc<Loader> {
        let (indexes, filters) = (Counter::default(), Counter::default());
        Arc::new(Loader { environment: environment.clone(), cache: cache.clone(), indexes, filters, heat: Heat::default() })
    }

    /// What files are made and opened with.
    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }
}

/// A table, and its index and filter while they are in memory.
#[derive(Debug)]
pub(crate) struct Handle {
    table: Arc<Table>,
    loader: Arc<Loader>,
    index: Arc<Part<Index>>,
    /// Those of the index.
    partitions: Box<[Arc<Part<Partition>>]>,
    filter: Arc<Part<Filter>>,
    /// Reads in vain that a filter would have saved, since there was none.
    vain: AtomicUsize,
    pub(super) reads: Reads,
}

impl Handle {
    /// Of an open table.
    pub(super) fn of(table: Table, loader: &Arc<Loader>) -> Handle {
        let domain = loader.cache.domain();
        let (index, filter) = (Part::absent(domain), Part::absent(domain));
        let partitions = (0..table.partitions()).map(|_| Part::absent(domain)).collect();
        let reads = Reads::new(&loader.heat);
        let (table, loader, vain) = (Arc::new(table), loader.clone(), AtomicUsize::new(0));
        Handle { table, loader, index, partitions, filter, vain, reads }
    }

    /// The table.
    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Bytes of the index and of partitions of it that are in memory.
    pub(super) fn index_bytes(&self) -> u64 {
        let pin = self.loader.cache.domain().pin();
        let partitions = self.partitions.iter().filter(|partition| partition.is_there(&pin)).count();
        let index = if self.index.is_there(&pin) { self.table.index_bytes() } else { 0 };
        u64::from(index) + (partitions * PAGE) as u64
    }

    /// Bytes of the filter, if it is in memory.
    pub(super) fn filter_bytes(&self) -> u64 {
        let is_there = self.filter.is_there(&self.loader.cache.domain().pin());
        if is_there { (self.table.filter_pages() * PAGE) as u64 } else { 0 }
    }

    /// The blocks that can have a key between the first and the last of the table, which are read then.
    ///
    /// # Errors
    /// If the index is damaged or cannot be read, or there is no memory for it.
    pub(super) fn locate(&self, key: &[u8]) -> Result<Candidates> {
        self.reads.increment();
        self.load_and_locate(key)
    }

    fn load_and_locate(&self, key: &[u8]) -> Result<Candidates> {
        let Loader { environment, cache, indexes, .. } = &*self.loader;
        let bytes = self.table.index_pages() * PAGE;
        let load = || cache.load(Sort::Index, bytes, |lease| self.table.index(environment, lease));
        let published = || {
            indexes.increment();
            cache.enter(Sort::Index, self.index.resident(), bytes);
        };
        match self.index.look_or_load(cache.domain(), |index| index.locate(key), load, published)? {
            Located::Blocks(blocks) => Ok(blocks),
            Located::Partition(number) => self.locate_within(number, key),
        }
    }

    /// The same of a key that a partition of the index knows.
    fn locate_within(&self, number: u32, key: &[u8]) -> Result<Candidates> {
        let (Loader { cache, indexes, .. }, part) = (&*self.loader, &self.partitions[number as usize]);
        let load = || cache.load(Sort::Index, PAGE, |lease| self.table.partition(number, lease));
        let published = || {
            indexes.increment();
            cache.enter(Sort::Index, part.resident(), PAGE);
        };
        part.look_or_load(cache.domain(), |partition| partition.locate(key), load, published)
    }

    /// Looks for a key that the table covers. A value is appended to `value`. `memory` is for one block, leased when it is needed first.
    ///
    /// # Errors
    /// If something of it is damaged or cannot be read, or there is no memory for it.
    pub(super) fn find(
        &self,
        (hash, key): (u64, &[u8]),
        memory: &mut Option<storage::Block>,
        value: &mut Vec<u8>,
    ) -> Result<Option<Answer>> {
        let Some(blocks) = self.candidates(hash, key)? else { return Ok(None) };
        self.reads.increment();
        let memory = match memory {
            Some(memory) if memory.len() >= self.table.bytes_for_a_block() => memory,
            small => small.insert(self.table.memory_for_a_block(&self.loader.environment)?),
        };
        let found = self.table.find(blocks, key, memory, value)?;
        if found.is_none() {
            self.count_read_in_vain()?;
        }
        Ok(found)
    }

    /// The blocks that can have a key; none if the filter has it not.
    #[inline]
    pub(super) fn candidates(&self, hash: u64, key: &[u8]) -> Result<Option<Candidates>> {
        {
            let pin = self.loader.cache.domain().pin();
            if self.filter.look(&pin, |filter| filter.may_have(hash)) == Some(false) {
                return Ok(None);
            }
            let blocks = match self.index.look(&pin, |index| index.locate(key)) {
                Some(Located::Partition(number)) => {
                    self.partitions[number as usize].look(&pin, |partition| partition.locate(key))
                }
                Some(Located::Blocks(blocks)) => Some(blocks),
                None => None,
            };
            if blocks.is_some() {
                return Ok(blocks);
            }
        }
        self.load_and_locate(key).map(Some)
    }

    /// A filter that is not there is loaded when there were as many reads in vain as it has pages: so it costs twice the reads of the best choice at most,
    /// whatever comes.
    pub(super) fn count_read_in_vain(&self) -> Result<()> {
        let pages = self.table.filter_pages();
        if pages == 0 || self.filter.is_there(&self.loader.cache.domain().pin()) {
            return Ok(());
        }
        if self.vain.fetch_add(1, Ordering::Relaxed) + 1 < pages {
            return Ok(());
        }
        self.vain.store(0, Ordering::Relaxed);
        match self.load_filter(pages * PAGE) {
            // It is done without.
            Err(Error::Memory { .. }) => Ok(()),
            ended => ended,
        }
    }

    fn load_filter(&self, bytes: usize) -> Result<()> {
        let Loader { environment, cache, filters, .. } = &*self.loader;
        let load = || cache.load(Sort::Filter, bytes, |lease| self.table.filter(environment, lease));
        let published = || {
            filters.increment();
            cache.enter(Sort::Filter, self.filter.resident(), bytes);
        };
        self.filter.look_or_load(cache.domain(), |_| (), load, published)
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
