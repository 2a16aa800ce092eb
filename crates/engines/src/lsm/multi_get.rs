//! Looks for many keys at once: in memory one after the other, then run by run, with many requests in flight, of which
//! each is for all keys of a block (decision 11, "Reading").

use std::{collections::VecDeque, ptr, sync::Arc};

use ecotone_substrate::{
    Result,
    limits::PAGE,
    storage::{Block, Queue, Reads},
    table::Answer,
};

use super::{
    handle::{Handle, Known},
    loads::Waits,
    records::Lsm,
    table::{Candidates, Find, Table},
    table_cache::TableCache,
    version::{Run, Version},
};
use crate::{
    answers::Answers,
    engine::VisitValue,
    front::{Front, Look as Looked, Ticket},
};

/// Keys that are looked for together.
const BATCH: usize = 256;
/// Requests in flight at a time, and those of blocks above a page, which lie in slabs.
const IN_FLIGHT: usize = 64;
const IN_FLIGHT_OF_SLABS: usize = 16;

/// A key that is looked for.
#[derive(Debug, Clone, Copy)]
struct Sought<'k> {
    /// The caller's.
    number: usize,
    key: &'k [u8],
    hash: u64,
}

/// Keys that are looked for in one block, each with the blocks that are left for it.
struct Look<'v, 'k> {
    handle: &'v Handle,
    block: u32,
    keys: Vec<(Sought<'k>, Candidates)>,
}

/// The search in one run.
struct Search<'v, 'k> {
    /// What is to be looked at.
    looks: VecDeque<Look<'v, 'k>>,
    /// Memory that no request has.
    free: Vec<Block>,
    /// Keys that the run does not have.
    missing: Vec<Sought<'k>>,
    answers: Answers,
}

impl Lsm {
    /// Looks for many keys, in whatever order; `found` gets the number and the value of each. Nothing is held then but
    /// a version.
    pub(super) fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        match self.ledger() {
            Some(ledger) => self.find_many_judged(ledger, keys, found),
            None => self.find_many(keys, found),
        }
    }

    /// The same, not judged.
    pub(super) fn find_many(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        let (mut queue, mut first) = (None, 0);
        for batch in keys.chunks(BATCH) {
            let all = (first..).zip(batch).map(|(number, key)| Sought { number, key, hash: self.hash(key) }).collect();
            let (mut missing, mut version) = self.search_memtables(all, found);
            let (front, mut tickets) = (self.front(), vec![None; batch.len()]);
            if let Some(front) = front {
                missing =
                    search_front(front, missing, found, &mut |number, ticket| tickets[number - first] = Some(ticket));
                // Once more, as for one key.
                (missing, version) = self.search_memtables(missing, found);
            }
            let found = &mut |number: usize, value: Option<&[u8]>| {
                if let (Some(front), Some(value), Some(ticket)) = (front, value, tickets[number - first]) {
                    front.admit(keys[number], value, ticket);
                }
                found(number, value);
            };
            missing.sort_unstable_by_key(|sought| sought.key);
            let mut below = Vec::new();
            for (place, run) in version.runs() {
                // Where a run does not count, no older one does.
                let counts = |key| version.covers().at(key).is_none_or(|cover| cover.counts(place));
                below.extend(missing.extract_if(.., |sought| !counts(sought.key)));
                if missing.is_empty() {
                    break;
                }
                let queue = match &mut queue {
                    Some(queue) => queue,
                    none => none.insert(self.files.environment().storage.queue()?),
                };
                missing = self.search_run(run, missing, &mut **queue, found)?;
            }
            below.extend(missing);
            self.find_all_below(&version, below, found)?;
            first += batch.len();
        }
        Ok(())
    }

    /// Looks below the tables of a version for keys that none of them has.
    fn find_all_below(
        &self,
        version: &Version<Handle>,
        keys: Vec<Sought<'_>>,
        found: &mut VisitValue<'_>,
    ) -> Result<()> {
        let may_be_below = |sought: &Sought<'_>| version.covers().at(sought.key).is_some();
        let (below, nowhere): (Vec<_>, Vec<_>) = keys.into_iter().partition(may_be_below);
        nowhere.iter().for_each(|sought| found(sought.number, None));
        match self.base() {
            Some(base) if !below.is_empty() => {
                self.below.increment();
                let keys: Vec<&[u8]> = below.iter().map(|sought| sought.key).collect();
                base.find_many(&keys, &mut |place, value| found(below[place].number, value))
            }
            _ => {
                below.iter().for_each(|sought| found(sought.number, None));
                Ok(())
            }
        }
    }

    /// Looks for keys in memtables. Those that none has, and the version of the same view, which may have them.
    fn search_memtables<'k>(
        &self,
        mut keys: Vec<Sought<'k>>,
        found: &mut VisitValue<'_>,
    ) -> (Vec<Sought<'k>>, Arc<Version<Handle>>) {
        let (mut answers, mut value) = (Answers::default(), Vec::new());
        let version = {
            let pin = self.present.pin();
            let view = self.present.load(&pin);
            keys.retain(|sought| {
                value.clear();
                let answer = view.find((sought.hash, sought.key), &mut value);
                answer
                    .iter()
                    .for_each(|answer| answers.push(sought.number, (*answer == Answer::Value).then_some(&value)));
                answer.is_none()
            });
            view.version.clone()
        };
        answers.tell(found);
        (keys, version)
    }

    /// Looks for ascending keys in a run. Those that it does not have, ascending.
    fn search_run<'k>(
        &self,
        run: &Run<Handle>,
        keys: Vec<Sought<'k>>,
        queue: &mut dyn Queue,
        found: &mut VisitValue<'_>,
    ) -> Result<Vec<Sought<'k>>> {
        let mut search =
            Search { looks: VecDeque::new(), free: Vec::new(), missing: Vec::new(), answers: Answers::default() };
        search.begin(run, keys, self.files.loader().cache(), queue)?;
        let mut reads = Reads::new(queue);
        loop {
            search.ask(self, &mut reads)?;
            let Some((look, block)) = reads.wait()? else { break };
            search.resume(look, block, found)?;
        }
        let mut missing = search.missing;
        missing.sort_unstable_by_key(|sought| sought.key);
        Ok(missing)
    }
}

/// Looks for keys in the cache. Those that it does not have; `missed` gets what it takes to offer their values.
fn search_front<'k>(
    front: &dyn Front,
    mut keys: Vec<Sought<'k>>,
    found: &mut VisitValue<'_>,
    missed: &mut dyn FnMut(usize, Ticket),
) -> Vec<Sought<'k>> {
    let mut value = Vec::new();
    keys.retain(|sought| {
        value.clear();
        match front.look(sought.key, &mut value) {
            Looked::Found => found(sought.number, Some(&value)),
            Looked::Missing(ticket) => {
                missed(sought.number, ticket);
                return true;
            }
        }
        false
    });
    keys
}

impl<'v, 'k> Search<'v, 'k> {
    /// Finds out where ascending keys can be. What is not there of indexes is loaded, all together.
    fn begin(
        &mut self,
        run: &'v Run<Handle>,
        keys: Vec<Sought<'k>>,
        cache: &TableCache,
        queue: &mut dyn Queue,
    ) -> Result<()> {
        let (mut located, mut waits) = (Vec::new(), Waits::new());
        for sought in keys {
            let Some(handle) = run.covering(sought.key) else {
                self.missing.push(sought);
                continue;
            };
            match handle.known(sought.hash, sought.key) {
                Known::Not => self.missing.push(sought),
                Known::In(blocks) => located.push((&**handle, sought, blocks)),
                Known::Absent(part) => waits.add(handle, part, sought.key, sought),
            }
        }
        let is_complete = waits.is_empty();
        waits.load(cache, queue, &mut |handle, _, sought, blocks| located.push((handle, sought, blocks)))?;
        if !is_complete {
            located.sort_unstable_by_key(|(_, sought, _)| sought.key);
        }
        located.into_iter().for_each(|(handle, sought, blocks)| self.look_in(handle, sought, blocks));
        Ok(())
    }

    /// A key, which is not below those before, can be in these blocks.
    fn look_in(&mut self, handle: &'v Handle, sought: Sought<'k>, blocks: Candidates) {
        handle.reads.increment();
        let last = self.looks.back_mut().filter(|last| ptr::eq(last.handle, handle) && last.block == blocks.first);
        match last {
            Some(last) => last.keys.push((sought, blocks)),
            None => self.looks.push_back(Look { handle, block: blocks.first, keys: vec![(sought, blocks)] }),
        }
    }

    /// Asks for as many blocks as may be read at a time.
    fn ask(&mut self, lsm: &Lsm, reads: &mut Reads<'_, Look<'v, 'k>>) -> Result<()> {
        while let Some(look) = self.looks.pop_front() {
            let table = look.handle.table();
            let Some(memory) = self.memory(lsm, table, reads)? else {
                self.looks.push_front(look);
                break;
            };
            let (file, offset, len) = (table.file().clone(), table.block_at(look.block), table.block_size());
            reads.ask(look, file, offset, len, memory);
        }
        Ok(())
    }

    /// Memory for one more block of a table, beside those that are being read. `None` if there is some when one of them
    /// has been.
    fn memory(&mut self, lsm: &Lsm, table: &Table, reads: &Reads<'_, Look<'v, 'k>>) -> Result<Option<Block>> {
        let most = if table.bytes_for_a_block() > PAGE { IN_FLIGHT_OF_SLABS } else { IN_FLIGHT };
        if reads.in_flight() >= most {
            return Ok(None);
        }
        if let Some(memory) = self.free.pop().filter(|memory| memory.len() >= table.bytes_for_a_block()) {
            return Ok(Some(memory));
        }
        reads.lease(&lsm.files.environment().memory, table.size_for_a_block())
    }

    /// Looks for keys in their block, which was read. The block is given back before `found` is called, which may call
    /// the database.
    fn resume(&mut self, look: Look<'v, 'k>, mut memory: Block, found: &mut VisitValue<'_>) -> Result<()> {
        let (table, number) = (look.handle.table(), look.block);
        let block = table.parse(number, &mut memory)?;
        self.answers.clear();
        for (sought, mut left) in look.keys {
            let goes_on = match block.find(sought.key).map_err(|e| table.damaged(number, e))? {
                Find::Found(value) => {
                    self.answers.push(sought.number, value);
                    continue;
                }
                Find::Within => false,
                Find::Before => left.go_down(),
                Find::After => left.go_up(),
            };
            if goes_on {
                self.looks.push_front(Look { handle: look.handle, block: left.first, keys: vec![(sought, left)] });
            } else {
                look.handle.count_read_in_vain();
                self.missing.push(sought);
            }
        }
        self.free.extend(Some(memory).filter(Reads::<()>::may_keep));
        self.answers.tell(found);
        Ok(())
    }
}
