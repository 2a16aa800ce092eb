//! A table reader: an open table of a keyspace, with its index and its filter while these are in memory.

use std::{
    result,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use ecotone_substrate::{
    Result,
    environment::Environment,
    limits::PAGE,
    metrics::Counter,
    storage,
    table::{Answer, FileRef},
};
use ecotone_sys::{epoch::Pin, primitive::MutexGuard};

use crate::{
    cache::{
        lazy_slot::LazySlot,
        read_frequency::{CountsReads, ReadFrequency, TableReads},
        table_cache::{CacheEntryKind, TableCache},
    },
    table::{Candidates, Filter, Index, Lease, Located, Partition, Table},
    version::{TableMeta, super_version::HashedKey},
};

/// Loads the indexes and filters of the tables of one keyspace.
#[derive(Debug)]
pub(crate) struct TableLoader {
    environment: Environment,
    cache: Arc<TableCache>,
    /// Loads of indexes and their partitions, and of filters.
    pub(crate) indexes: Counter,
    pub(crate) filters: Counter,
    pub(crate) read_frequency: ReadFrequency,
}

impl TableLoader {
    /// A loader that has loaded nothing yet.
    pub(crate) fn new(environment: &Environment, cache: &Arc<TableCache>) -> Arc<TableLoader> {
        let (indexes, filters) = (Counter::default(), Counter::default());
        Arc::new(TableLoader {
            environment: environment.clone(),
            cache: cache.clone(),
            indexes,
            filters,
            read_frequency: ReadFrequency::default(),
        })
    }

    /// The environment in which files are created and opened.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The cache of indexes and filters.
    pub(crate) fn cache(&self) -> &TableCache {
        &self.cache
    }

    /// The result of `look` on a slot of so many bytes. If the slot is empty, `load` fills it before.
    fn look_or_load<T: Send + Sync + 'static, R>(
        &self,
        part: &Arc<LazySlot<T>>,
        (sort, bytes): (CacheEntryKind, usize),
        look: impl Fn(&T) -> R,
        load: impl Fn(Lease<'_>) -> Result<T>,
    ) -> Result<R> {
        let load = || self.cache.load(sort, bytes, load);
        part.look_or_load(self.cache.domain(), look, load, || self.loaded(part, sort, bytes))
    }

    /// A slot was filled: counts the load, and enters the slot into the cache.
    fn loaded<T: Send + Sync + 'static>(&self, part: &Arc<LazySlot<T>>, sort: CacheEntryKind, bytes: usize) {
        let loads = if sort == CacheEntryKind::Filter { &self.filters } else { &self.indexes };
        loads.increment();
        self.cache.enter(sort, part.resident(), bytes);
    }
}

/// A section of the index of a table, which is loaded as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexSection {
    /// The top, without its partitions.
    Top,
    /// One partition.
    Partition(u32),
}

/// Locates a key.
pub(crate) type LocateFn<'l> = &'l (dyn Fn(&[u8]) -> Located + 'l);

/// The result of a lookup in filter and index, without I/O.
pub(crate) enum IndexLookup {
    /// The table does not have the key.
    NotPresent,
    /// The key can be in these blocks.
    Candidates(Candidates),
    /// This section of the index is not loaded.
    NotLoaded(IndexSection),
}

/// An open table, and its index and filter while they are in memory.
#[derive(Debug)]
pub(crate) struct TableReader {
    table: Arc<Table>,
    loader: Arc<TableLoader>,
    index: Arc<LazySlot<Index>>,
    /// The partitions of the index.
    partitions: Box<[Arc<LazySlot<Partition>>]>,
    filter: Arc<LazySlot<Filter>>,
    /// False-positive reads that a filter would have saved, since the last attempt to load it.
    vain: AtomicUsize,
    /// All false-positive reads.
    false_positive_reads: AtomicU64,
    pub(crate) reads: TableReads,
}

impl TableReader {
    /// A reader of an open table.
    pub(crate) fn of(table: Table, loader: &Arc<TableLoader>) -> TableReader {
        let domain = loader.cache.domain();
        let (index, filter) = (LazySlot::absent(domain), LazySlot::absent(domain));
        let partitions = (0..table.partitions()).map(|_| LazySlot::absent(domain)).collect();
        let reads = TableReads::new(&loader.read_frequency);
        let (table, loader) = (Arc::new(table.cached(loader.cache.blocks())), loader.clone());
        let (vain, false_positive_reads) = (AtomicUsize::new(0), AtomicU64::new(0));
        TableReader { table, loader, index, partitions, filter, vain, false_positive_reads, reads }
    }

    /// The table.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Bytes of memory of the index and its loaded partitions.
    pub(crate) fn index_bytes(&self) -> u64 {
        let pin = self.loader.cache.domain().pin();
        let partitions = self.partitions.iter().filter(|partition| partition.is_there(&pin)).count();
        let index = if self.index.is_there(&pin) { self.table.index_memory() } else { 0 };
        (index + partitions * PAGE) as u64
    }

    /// Bytes of the filter, if it is in memory.
    pub(crate) fn filter_bytes(&self) -> u64 {
        let is_there = self.filter.is_there(&self.loader.cache.domain().pin());
        if is_there { self.table.filter_memory() as u64 } else { 0 }
    }

    /// The blocks that can have a key between the first and the last of the table. Counts a read of the table.
    ///
    /// # Errors
    /// If the index is damaged or cannot be read, or there is no memory for it.
    pub(crate) fn locate(&self, key: &[u8]) -> Result<Candidates> {
        self.reads.increment();
        self.load_and_locate(key)
    }

    /// The same, without counting a read.
    pub(crate) fn load_and_locate(&self, key: &[u8]) -> Result<Candidates> {
        let load = |lease: Lease<'_>| self.table.index(&self.loader.environment, lease);
        let what = (CacheEntryKind::Index, self.table.index_memory());
        match self.loader.look_or_load(&self.index, what, |index| index.locate(key), load)? {
            Located::Blocks(blocks) => Ok(blocks),
            Located::Partition(number) => self.locate_within(number, key),
        }
    }

    /// The same for a key within a partition of the index.
    fn locate_within(&self, number: u32, key: &[u8]) -> Result<Candidates> {
        let part = &self.partitions[number as usize];
        let load = |lease: Lease<'_>| self.table.partition(number, lease);
        self.loader.look_or_load(part, (CacheEntryKind::Index, PAGE), |partition| partition.locate(key), load)
    }

    /// Looks for a key within the bounds of the table. A value is appended to `value`. `memory` is a buffer for one
    /// block, leased when it is needed first.
    ///
    /// # Errors
    /// If the table is damaged or cannot be read, or there is no memory for it.
    pub(crate) fn find(
        &self,
        (hash, key): HashedKey<'_>,
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
            self.count_false_positive();
        }
        Ok(found)
    }

    /// The blocks that can have a key; `None` if the filter excludes it.
    #[inline]
    pub(crate) fn candidates(&self, hash: u64, key: &[u8]) -> Result<Option<Candidates>> {
        match self.known(hash, key) {
            IndexLookup::NotPresent => Ok(None),
            IndexLookup::Candidates(blocks) => Ok(Some(blocks)),
            IndexLookup::NotLoaded(_) => self.load_and_locate(key).map(Some),
        }
    }

    /// Looks a key up in filter and index, as far as these are in memory.
    #[inline]
    pub(crate) fn known(&self, hash: u64, key: &[u8]) -> IndexLookup {
        let pin = self.loader.cache.domain().pin();
        if self.filter.look(&pin, |filter| filter.may_have(hash)) == Some(false) {
            return IndexLookup::NotPresent;
        }
        self.look_in_index(&pin, key).map_or_else(IndexLookup::NotLoaded, IndexLookup::Candidates)
    }

    /// The blocks that can have a key between the first and the last of the table, or the section of the index that is
    /// not loaded.
    pub(crate) fn located(&self, key: &[u8]) -> result::Result<Candidates, IndexSection> {
        self.look_in_index(&self.loader.cache.domain().pin(), key)
    }

    #[inline]
    fn look_in_index(&self, pin: &Pin<'_>, key: &[u8]) -> result::Result<Candidates, IndexSection> {
        match self.index.look(pin, |index| index.locate(key)).ok_or(IndexSection::Top)? {
            Located::Blocks(blocks) => Ok(blocks),
            Located::Partition(number) => {
                let blocks = self.partitions[number as usize].look(pin, |partition| partition.locate(key));
                blocks.ok_or(IndexSection::Partition(number))
            }
        }
    }

    /// The offset of an index section in the file, and its pages.
    pub(crate) fn index_location(&self, part: IndexSection) -> (u64, usize) {
        match part {
            IndexSection::Top => (self.table.index_at(), self.table.index_pages()),
            IndexSection::Partition(number) => (self.table.partition_at(number), 1),
        }
    }

    /// Bytes of memory of an index section.
    pub(crate) fn memory_of(&self, part: IndexSection) -> usize {
        match part {
            IndexSection::Top => self.table.index_memory(),
            IndexSection::Partition(_) => PAGE,
        }
    }

    /// The lock to load an index section, if that is absent and no other thread loads it.
    pub(crate) fn begin_load(&self, part: IndexSection) -> Option<MutexGuard<'_, ()>> {
        let domain = self.loader.cache.domain();
        match part {
            IndexSection::Top => self.index.begin_load(domain),
            IndexSection::Partition(number) => self.partitions[number as usize].begin_load(domain),
        }
    }

    /// Publishes an index section that was read into these frames; the caller holds its load lock. Before that, `ask`
    /// is called with the function that locates keys by it.
    ///
    /// # Errors
    /// If it is damaged.
    pub(crate) fn publish(
        &self,
        part: IndexSection,
        mut frames: Vec<storage::Block>,
        ask: &mut dyn FnMut(LocateFn<'_>),
    ) -> Result<()> {
        let bytes = self.memory_of(part);
        match part {
            IndexSection::Top => {
                self.index.publish(self.table.index_in(frames)?, |index| ask(&|key: &[u8]| index.locate(key)));
                self.loader.loaded(&self.index, CacheEntryKind::Index, bytes);
            }
            IndexSection::Partition(number) => {
                let part = &self.partitions[number as usize];
                let partition = self.table.partition_in(number, frames.pop().expect("a partition has a page"))?;
                part.publish(partition, |partition| ask(&|key: &[u8]| Located::Blocks(partition.locate(key))));
                self.loader.loaded(part, CacheEntryKind::Index, bytes);
            }
        }
        Ok(())
    }

    /// Counts a false-positive read. The filter, if it is not in memory, is loaded after as many false positives as it
    /// has pages: so the reads are at most twice those of the best choice. If the filter cannot be read, or has no
    /// memory, the table goes on without, since no answer needs it.
    pub(crate) fn count_false_positive(&self) {
        self.false_positive_reads.fetch_add(1, Ordering::Relaxed);
        let pages = self.table.filter_pages();
        if pages == 0 || self.filter.is_there(&self.loader.cache.domain().pin()) {
            return;
        }
        if self.vain.fetch_add(1, Ordering::Relaxed) + 1 >= pages {
            self.vain.store(0, Ordering::Relaxed);
            let load = |lease: Lease<'_>| self.table.filter(&self.loader.environment, lease);
            _ = self.loader.look_or_load(
                &self.filter,
                (CacheEntryKind::Filter, self.table.filter_memory()),
                |_| (),
                load,
            );
        }
    }
}

impl CountsReads for TableReader {
    fn reads(&self) -> &TableReads {
        &self.reads
    }
}

impl TableMeta for TableReader {
    fn file(&self) -> FileRef {
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

    fn records(&self) -> (u64, u64) {
        (self.table.records(), self.table.tombstones())
    }

    fn fraction_in(&self, range: (&[u8], &[u8])) -> f64 {
        self.fraction_of_blocks(range)
    }

    fn false_positive_reads(&self) -> u64 {
        self.false_positive_reads.load(Ordering::Relaxed)
    }
}
