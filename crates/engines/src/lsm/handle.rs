//! A table that is a part of a keyspace: open, with what finds keys in it while that is of use.

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
    table::{Answer, File},
};
use ecotone_sys::{epoch::Pin, primitive::MutexGuard};

use super::{
    heat::{Heat, Reads},
    part::Part,
    table::{Candidates, Filter, Index, Lease, Located, Partition, Table},
    table_cache::{Sort, TableCache},
    version::Ranged,
    view::Hashed,
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
        Arc::new(Loader {
            environment: environment.clone(),
            cache: cache.clone(),
            indexes,
            filters,
            heat: Heat::default(),
        })
    }

    /// What files are made and opened with.
    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Where indexes and filters have their memory.
    pub(super) fn cache(&self) -> &TableCache {
        &self.cache
    }

    /// What `look` sees of a part of so many bytes, after it was loaded by `load` if it was not there.
    fn look_or_load<T: Send + Sync + 'static, R>(
        &self,
        part: &Arc<Part<T>>,
        (sort, bytes): (Sort, usize),
        look: impl Fn(&T) -> R,
        load: impl Fn(Lease<'_>) -> Result<T>,
    ) -> Result<R> {
        let load = || self.cache.load(sort, bytes, load);
        part.look_or_load(self.cache.domain(), look, load, || self.loaded(part, sort, bytes))
    }

    /// A part is there that was loaded.
    fn loaded<T: Send + Sync + 'static>(&self, part: &Arc<Part<T>>, sort: Sort, bytes: usize) {
        let loads = if sort == Sort::Filter { &self.filters } else { &self.indexes };
        loads.increment();
        self.cache.enter(sort, part.resident(), bytes);
    }
}

/// A part of the index of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexPart {
    /// All but its partitions.
    Whole,
    /// One of these.
    Partition(u32),
}

/// Finds where a key can be.
pub(super) type Locate<'l> = &'l (dyn Fn(&[u8]) -> Located + 'l);

/// What a table knows of a key without reading anything.
pub(super) enum Known {
    /// It does not have it.
    Not,
    /// It can be in these blocks.
    In(Candidates),
    /// This part of the index is not there.
    Absent(IndexPart),
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
    /// All of them.
    reads_in_vain: AtomicU64,
    pub(super) reads: Reads,
}

impl Handle {
    /// Of an open table.
    pub(super) fn of(table: Table, loader: &Arc<Loader>) -> Handle {
        let domain = loader.cache.domain();
        let (index, filter) = (Part::absent(domain), Part::absent(domain));
        let partitions = (0..table.partitions()).map(|_| Part::absent(domain)).collect();
        let reads = Reads::new(&loader.heat);
        let (table, loader) = (Arc::new(table.cached(loader.cache.blocks())), loader.clone());
        let (vain, reads_in_vain) = (AtomicUsize::new(0), AtomicU64::new(0));
        Handle { table, loader, index, partitions, filter, vain, reads_in_vain, reads }
    }

    /// The table.
    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Bytes of memory of the index and of partitions of it that are there.
    pub(super) fn index_bytes(&self) -> u64 {
        let pin = self.loader.cache.domain().pin();
        let partitions = self.partitions.iter().filter(|partition| partition.is_there(&pin)).count();
        let index = if self.index.is_there(&pin) { self.table.index_memory() } else { 0 };
        (index + partitions * PAGE) as u64
    }

    /// Bytes of the filter, if it is in memory.
    pub(super) fn filter_bytes(&self) -> u64 {
        let is_there = self.filter.is_there(&self.loader.cache.domain().pin());
        if is_there { self.table.filter_memory() as u64 } else { 0 }
    }

    /// The blocks that can have a key between the first and the last of the table, which are read then.
    ///
    /// # Errors
    /// If the index is damaged or cannot be read, or there is no memory for it.
    pub(super) fn locate(&self, key: &[u8]) -> Result<Candidates> {
        self.reads.increment();
        self.load_and_locate(key)
    }

    /// The same, but that it is no read.
    pub(super) fn load_and_locate(&self, key: &[u8]) -> Result<Candidates> {
        let load = |lease: Lease<'_>| self.table.index(&self.loader.environment, lease);
        let what = (Sort::Index, self.table.index_memory());
        match self.loader.look_or_load(&self.index, what, |index| index.locate(key), load)? {
            Located::Blocks(blocks) => Ok(blocks),
            Located::Partition(number) => self.locate_within(number, key),
        }
    }

    /// The same of a key that a partition of the index knows.
    fn locate_within(&self, number: u32, key: &[u8]) -> Result<Candidates> {
        let part = &self.partitions[number as usize];
        let load = |lease: Lease<'_>| self.table.partition(number, lease);
        self.loader.look_or_load(part, (Sort::Index, PAGE), |partition| partition.locate(key), load)
    }

    /// Looks for a key that the table covers. A value is appended to `value`. `memory` is for one block, leased when it
    /// is needed first.
    ///
    /// # Errors
    /// If something of it is damaged or cannot be read, or there is no memory for it.
    pub(super) fn find(
        &self,
        (hash, key): Hashed<'_>,
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
            self.count_read_in_vain();
        }
        Ok(found)
    }

    /// The blocks that can have a key; none if the filter has it not.
    #[inline]
    pub(super) fn candidates(&self, hash: u64, key: &[u8]) -> Result<Option<Candidates>> {
        match self.known(hash, key) {
            Known::Not => Ok(None),
            Known::In(blocks) => Ok(Some(blocks)),
            Known::Absent(_) => self.load_and_locate(key).map(Some),
        }
    }

    /// What is known of a key.
    #[inline]
    pub(super) fn known(&self, hash: u64, key: &[u8]) -> Known {
        let pin = self.loader.cache.domain().pin();
        if self.filter.look(&pin, |filter| filter.may_have(hash)) == Some(false) {
            return Known::Not;
        }
        self.look_in_index(&pin, key).map_or_else(Known::Absent, Known::In)
    }

    /// The blocks that can have a key between the first and the last of the table, or the part of the index that is not
    /// there.
    pub(super) fn located(&self, key: &[u8]) -> result::Result<Candidates, IndexPart> {
        self.look_in_index(&self.loader.cache.domain().pin(), key)
    }

    #[inline]
    fn look_in_index(&self, pin: &Pin<'_>, key: &[u8]) -> result::Result<Candidates, IndexPart> {
        match self.index.look(pin, |index| index.locate(key)).ok_or(IndexPart::Whole)? {
            Located::Blocks(blocks) => Ok(blocks),
            Located::Partition(number) => {
                let blocks = self.partitions[number as usize].look(pin, |partition| partition.locate(key));
                blocks.ok_or(IndexPart::Partition(number))
            }
        }
    }

    /// Where a part of the index lies in the file, and how many pages it has.
    pub(super) fn place_of(&self, part: IndexPart) -> (u64, usize) {
        match part {
            IndexPart::Whole => (self.table.index_at(), self.table.index_pages()),
            IndexPart::Partition(number) => (self.table.partition_at(number), 1),
        }
    }

    /// Bytes of memory of a part of the index.
    pub(super) fn memory_of(&self, part: IndexPart) -> usize {
        match part {
            IndexPart::Whole => self.table.index_memory(),
            IndexPart::Partition(_) => PAGE,
        }
    }

    /// The turn to load a part of the index, if it is absent and nobody else is at it.
    pub(super) fn begin_load(&self, part: IndexPart) -> Option<MutexGuard<'_, ()>> {
        let domain = self.loader.cache.domain();
        match part {
            IndexPart::Whole => self.index.begin_load(domain),
            IndexPart::Partition(number) => self.partitions[number as usize].begin_load(domain),
        }
    }

    /// Has everybody see a part of the index, which was read into these frames by who has the turn; before that `ask`
    /// is given what finds keys by it.
    ///
    /// # Errors
    /// If it is damaged.
    pub(super) fn publish(
        &self,
        part: IndexPart,
        mut frames: Vec<storage::Block>,
        ask: &mut dyn FnMut(Locate<'_>),
    ) -> Result<()> {
        let bytes = self.memory_of(part);
        match part {
            IndexPart::Whole => {
                self.index.publish(self.table.index_in(frames)?, |index| ask(&|key: &[u8]| index.locate(key)));
                self.loader.loaded(&self.index, Sort::Index, bytes);
            }
            IndexPart::Partition(number) => {
                let part = &self.partitions[number as usize];
                let partition = self.table.partition_in(number, frames.pop().expect("a partition has a page"))?;
                part.publish(partition, |partition| ask(&|key: &[u8]| Located::Blocks(partition.locate(key))));
                self.loader.loaded(part, Sort::Index, bytes);
            }
        }
        Ok(())
    }

    /// A filter that is not there is loaded when there were as many reads in vain as it has pages: so it costs twice
    /// the reads of the best choice at most, whatever comes. One that cannot be read, or has no memory, is done
    /// without, since no answer needs it.
    pub(super) fn count_read_in_vain(&self) {
        self.reads_in_vain.fetch_add(1, Ordering::Relaxed);
        let pages = self.table.filter_pages();
        if pages == 0 || self.filter.is_there(&self.loader.cache.domain().pin()) {
            return;
        }
        if self.vain.fetch_add(1, Ordering::Relaxed) + 1 >= pages {
            self.vain.store(0, Ordering::Relaxed);
            let load = |lease: Lease<'_>| self.table.filter(&self.loader.environment, lease);
            _ = self.loader.look_or_load(&self.filter, (Sort::Filter, self.table.filter_memory()), |_| (), load);
        }
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

    fn records(&self) -> (u64, u64) {
        (self.table.records(), self.table.tombstones())
    }

    fn share(&self, range: (&[u8], &[u8])) -> f64 {
        self.share_of_blocks(range)
    }

    fn reads_in_vain(&self) -> u64 {
        self.reads_in_vain.load(Ordering::Relaxed)
    }
}
