//! Multi-get: looks for many keys at once. Memtables are searched key by key, then the runs one after the other, with
//! many block reads in flight; keys of the same block share a read (lsm.md, "Reading").

use std::{collections::VecDeque, ptr, sync::Arc};

use ecotone_engine::{
    contract::VisitValue,
    deferred_results::DeferredResults,
    record_cache::{CacheLookup, CacheTicket, RecordCache},
};
use ecotone_substrate::{
    Result,
    limits::PAGE,
    storage::{Block, Queue, Reads},
    table::Answer,
};

use crate::{
    cache::{
        table_cache::TableCache,
        table_reader::{IndexLookup, TableReader},
    },
    manifest::Visibility,
    read::index_loads::PendingLoads,
    store::Lsm,
    table::{BlockSearch, Candidates, Table},
    version::{Run, Version},
};

/// Keys that are looked for together.
const BATCH: usize = 256;
/// Most requests in flight, and most for blocks above a page, which lie in slabs.
const IN_FLIGHT: usize = 64;
const IN_FLIGHT_OF_SLABS: usize = 16;

/// A key that is looked for.
#[derive(Debug, Clone, Copy)]
struct Lookup<'k> {
    /// The caller's number of the key.
    number: usize,
    key: &'k [u8],
    hash: u64,
    /// The sorted runs of the key, once the memtables were searched and the version is known.
    visibility: Visibility,
}

/// Keys that are looked for in one block, each with its remaining candidate blocks.
struct BlockLookup<'v, 'k> {
    reader: &'v TableReader,
    block: u32,
    keys: Vec<(Lookup<'k>, Candidates)>,
}

/// The search in one run.
struct RunSearch<'v, 'k> {
    /// Blocks to look in.
    looks: VecDeque<BlockLookup<'v, 'k>>,
    /// Buffers that no request uses.
    free: Vec<Block>,
    /// Keys that the run does not have.
    missing: Vec<Lookup<'k>>,
    answers: DeferredResults,
}

/// A search for many keys of a keyspace.
struct MultiGet<'g> {
    lsm: &'g Lsm,
    keys: &'g [&'g [u8]],
    /// Reads of blocks, once one is needed.
    queue: Option<Box<dyn Queue>>,
}

/// Looks for many keys, in any order; `found` gets the number and the value of each. Only a version is held meanwhile.
pub(crate) fn multi_get(lsm: &Lsm, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
    match lsm.read_observer() {
        Some(observer) => observer.multi_get(lsm, keys, found),
        None => find_many(lsm, keys, found),
    }
}

/// The same, without the observer.
pub(crate) fn find_many(lsm: &Lsm, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
    let mut search = MultiGet { lsm, keys, queue: None };
    (0..keys.len()).step_by(BATCH).try_for_each(|first| search.find_batch(first, found))
}

impl<'k> Lookup<'k> {
    fn of(lsm: &Lsm, number: usize, key: &'k [u8]) -> Lookup<'k> {
        Lookup { number, key, hash: lsm.hash(key), visibility: Visibility::default() }
    }
}

impl MultiGet<'_> {
    /// Looks for the keys from number `first` on, at most [`BATCH`].
    fn find_batch(&mut self, first: usize, found: &mut VisitValue<'_>) -> Result<()> {
        let (lsm, keys) = (self.lsm, self.keys);
        let batch = &keys[first..keys.len().min(first + BATCH)];
        let all = (first..).zip(batch).map(|(number, key)| Lookup::of(lsm, number, key)).collect();
        let (mut missing, mut version) = self.search_memtables(all, found);
        let (record_cache, mut tickets) = (lsm.record_cache(), vec![None; batch.len()]);
        if let Some(record_cache) = record_cache {
            missing = search_record_cache(record_cache, missing, found, &mut |number, ticket| {
                tickets[number - first] = Some(ticket)
            });
            // Memtables again, as for a single key.
            (missing, version) = self.search_memtables(missing, found);
        }
        let found = &mut |number: usize, value: Option<&[u8]>| {
            if let (Some(record_cache), Some(value), Some(ticket)) = (record_cache, value, tickets[number - first]) {
                record_cache.admit(keys[number], value, ticket);
            }
            found(number, value);
        };
        missing.iter_mut().for_each(|sought| sought.visibility = version.visibility_at(sought.key));
        missing.sort_unstable_by_key(|sought| sought.key);
        self.search_sorted_runs(&version, missing, found)
    }

    /// Looks for ascending keys in the tables run by run, and at last in the page tier.
    fn search_sorted_runs(
        &mut self,
        version: &Version<TableReader>,
        mut missing: Vec<Lookup<'_>>,
        found: &mut VisitValue<'_>,
    ) -> Result<()> {
        let mut through_tables = Vec::new();
        for (run_id, run) in version.runs() {
            // Where a run is not visible, no older one is.
            through_tables.extend(missing.extract_if(.., |sought| !sought.visibility.is_visible(run_id)));
            if missing.is_empty() {
                break;
            }
            missing = self.search_run(run, missing, found)?;
        }
        through_tables.extend(missing);
        let page_tier = self.lsm.page_tier();
        let may_be_in_pages = |sought: &Lookup<'_>| page_tier.is_some() && sought.visibility.has_pages;
        let (in_pages, nowhere): (Vec<_>, Vec<_>) = through_tables.into_iter().partition(may_be_in_pages);
        nowhere.iter().for_each(|sought| found(sought.number, None));
        let Some(page_tier) = page_tier.filter(|_| !in_pages.is_empty()) else { return Ok(()) };
        self.lsm.reads.of_pages.increment();
        let keys: Vec<&[u8]> = in_pages.iter().map(|sought| sought.key).collect();
        page_tier.find_many(&keys, &mut |place, value| found(in_pages[place].number, value))
    }

    /// Looks for keys in memtables. Returns those that no memtable has, and the version of the same super version,
    /// which may have them.
    fn search_memtables<'k>(
        &self,
        mut keys: Vec<Lookup<'k>>,
        found: &mut VisitValue<'_>,
    ) -> (Vec<Lookup<'k>>, Arc<Version<TableReader>>) {
        let (mut answers, mut value) = (DeferredResults::default(), Vec::new());
        let version = {
            let pin = self.lsm.current.pin();
            let super_version = self.lsm.current.load(&pin);
            keys.retain(|sought| {
                value.clear();
                let answer = super_version.find((sought.hash, sought.key), &mut value);
                answer
                    .iter()
                    .for_each(|answer| answers.push(sought.number, (*answer == Answer::Value).then_some(&value)));
                answer.is_none()
            });
            super_version.version.clone()
        };
        answers.deliver(found);
        (keys, version)
    }

    /// Looks for ascending keys in a run. Returns those that the run does not have, ascending.
    fn search_run<'k>(
        &mut self,
        run: &Run<TableReader>,
        keys: Vec<Lookup<'k>>,
        found: &mut VisitValue<'_>,
    ) -> Result<Vec<Lookup<'k>>> {
        let mut search = RunSearch {
            looks: VecDeque::new(),
            free: Vec::new(),
            missing: Vec::new(),
            answers: DeferredResults::default(),
        };
        let lsm = self.lsm;
        let queue = match &mut self.queue {
            Some(queue) => &mut **queue,
            none => &mut **none.insert(lsm.files.environment().storage.queue()?),
        };
        search.begin(run, keys, lsm.files.loader().cache(), queue)?;
        let mut reads = Reads::new(queue);
        loop {
            search.ask(lsm, &mut reads)?;
            let Some((look, block)) = reads.wait()? else { break };
            search.resume(look, block, found)?;
        }
        let mut missing = search.missing;
        missing.sort_unstable_by_key(|sought| sought.key);
        Ok(missing)
    }
}

/// Looks for keys in the record cache. Returns those that it does not have; `missed` gets the tickets that admit their
/// values.
fn search_record_cache<'k>(
    record_cache: &dyn RecordCache,
    mut keys: Vec<Lookup<'k>>,
    found: &mut VisitValue<'_>,
    missed: &mut dyn FnMut(usize, CacheTicket),
) -> Vec<Lookup<'k>> {
    let mut value = Vec::new();
    keys.retain(|sought| {
        value.clear();
        match record_cache.lookup(sought.key, &mut value) {
            CacheLookup::Found => found(sought.number, Some(&value)),
            CacheLookup::Missing(ticket) => {
                missed(sought.number, ticket);
                return true;
            }
        }
        false
    });
    keys
}

impl<'v, 'k> RunSearch<'v, 'k> {
    /// Locates ascending keys. Index sections that are not in memory are loaded, all together.
    fn begin(
        &mut self,
        run: &'v Run<TableReader>,
        keys: Vec<Lookup<'k>>,
        cache: &TableCache,
        queue: &mut dyn Queue,
    ) -> Result<()> {
        let (mut located, mut waits) = (Vec::new(), PendingLoads::new());
        for sought in keys {
            let Some(reader) = run.table_for(sought.key) else {
                self.missing.push(sought);
                continue;
            };
            match reader.known(sought.hash, sought.key) {
                IndexLookup::NotPresent => self.missing.push(sought),
                IndexLookup::Candidates(blocks) => located.push((&**reader, sought, blocks)),
                IndexLookup::NotLoaded(part) => waits.add(reader, part, sought.key, sought),
            }
        }
        let is_complete = waits.is_empty();
        waits.load(cache, queue, &mut |reader, _, sought, blocks| located.push((reader, sought, blocks)))?;
        if !is_complete {
            located.sort_unstable_by_key(|(_, sought, _)| sought.key);
        }
        located.into_iter().for_each(|(reader, sought, blocks)| self.look_in(reader, sought, blocks));
        Ok(())
    }

    /// Adds a key, which is not below those before, with its candidate blocks.
    fn look_in(&mut self, reader: &'v TableReader, sought: Lookup<'k>, blocks: Candidates) {
        reader.reads.increment();
        let last = self.looks.back_mut().filter(|last| ptr::eq(last.reader, reader) && last.block == blocks.first);
        match last {
            Some(last) => last.keys.push((sought, blocks)),
            None => self.looks.push_back(BlockLookup { reader, block: blocks.first, keys: vec![(sought, blocks)] }),
        }
    }

    /// Requests as many blocks as may be in flight.
    fn ask(&mut self, lsm: &Lsm, reads: &mut Reads<'_, BlockLookup<'v, 'k>>) -> Result<()> {
        while let Some(look) = self.looks.pop_front() {
            let table = look.reader.table();
            let Some(memory) = self.memory(lsm, table, reads)? else {
                self.looks.push_front(look);
                break;
            };
            let (file, offset, len) = (table.file().clone(), table.block_at(look.block), table.block_size());
            reads.ask(look, file, offset, len, memory);
        }
        Ok(())
    }

    /// A buffer for one more block of a table, beside those that are being read. `None` if a buffer comes free when one
    /// of these reads has ended.
    fn memory(&mut self, lsm: &Lsm, table: &Table, reads: &Reads<'_, BlockLookup<'v, 'k>>) -> Result<Option<Block>> {
        let most = if table.bytes_for_a_block() > PAGE { IN_FLIGHT_OF_SLABS } else { IN_FLIGHT };
        if reads.in_flight() >= most {
            return Ok(None);
        }
        if let Some(memory) = self.free.pop().filter(|memory| memory.len() >= table.bytes_for_a_block()) {
            return Ok(Some(memory));
        }
        reads.lease(&lsm.files.environment().memory, table.size_for_a_block())
    }

    /// Looks for keys in their block, which was read. The block is released before `found` is called, as `found` may
    /// call the database.
    fn resume(&mut self, look: BlockLookup<'v, 'k>, mut memory: Block, found: &mut VisitValue<'_>) -> Result<()> {
        let (table, number) = (look.reader.table(), look.block);
        let block = table.parse(number, &mut memory)?;
        self.answers.clear();
        for (sought, mut left) in look.keys {
            let goes_on = match block.find(sought.key).map_err(|e| table.damaged(number, e))? {
                BlockSearch::Found(value) => {
                    self.answers.push(sought.number, value);
                    continue;
                }
                BlockSearch::Within => false,
                BlockSearch::Before => left.go_down(),
                BlockSearch::After => left.go_up(),
            };
            if goes_on {
                self.looks.push_front(BlockLookup {
                    reader: look.reader,
                    block: left.first,
                    keys: vec![(sought, left)],
                });
            } else {
                look.reader.count_false_positive();
                self.missing.push(sought);
            }
        }
        self.free.extend(Some(memory).filter(Reads::<()>::may_keep));
        self.answers.deliver(found);
        Ok(())
    }
}
