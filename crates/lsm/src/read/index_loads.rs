//! Loads index sections of many tables together, for lookups of many keys or in many runs (lsm.md, "Reading";
//! lsm-protocol.md, invariants 19 and 24).

use std::{collections::VecDeque, ptr};

use ecotone_substrate::{
    Result,
    limits::PAGE,
    storage::{Block, Completion, Op, Queue, Request},
};
use ecotone_sys::primitive::MutexGuard;

use crate::{
    cache::{
        table_cache::TableCache,
        table_reader::{IndexSection, LocateFn, TableReader},
    },
    table::{Candidates, Located},
};

/// Most pages in flight, but for a single section that has more.
const IN_FLIGHT: usize = 64;

/// An index section to load, and the keys that wait for it, each with the caller's tag.
pub(crate) struct PendingLoad<'v, 'k, K> {
    reader: &'v TableReader,
    part: IndexSection,
    keys: Vec<(&'k [u8], K)>,
}

/// The index sections that a search waits for.
pub(crate) struct PendingLoads<'v, 'k, K>(VecDeque<PendingLoad<'v, 'k, K>>);

/// An index section that is being read, with its load lock.
struct InFlightLoad<'v, 'k, K> {
    wait: PendingLoad<'v, 'k, K>,
    guard: MutexGuard<'v, ()>,
    pages: usize,
}

impl<'v, 'k, K: Copy> PendingLoads<'v, 'k, K> {
    /// No sections.
    pub(crate) fn new() -> PendingLoads<'v, 'k, K> {
        PendingLoads(VecDeque::new())
    }

    /// Adds a key that waits for an index section. Keys that wait for the same section are added one after the other.
    pub(crate) fn add(&mut self, reader: &'v TableReader, part: IndexSection, key: &'k [u8], known: K) {
        match self.0.back_mut().filter(|last| ptr::eq(last.reader, reader) && last.part == part) {
            Some(last) => last.keys.push((key, known)),
            None => self.0.push_back(PendingLoad { reader, part, keys: vec![(key, known)] }),
        }
    }

    /// Whether no section is waited for.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Loads all sections, with many pages in flight, and the partitions that the tops name; `answer` gets the
    /// candidate blocks of each key.
    ///
    /// # Errors
    /// If an index is damaged or cannot be read, or there is no memory for it.
    pub(crate) fn load(
        mut self,
        cache: &TableCache,
        queue: &mut dyn Queue,
        answer: &mut dyn FnMut(&'v TableReader, &'k [u8], K, Candidates),
    ) -> Result<()> {
        while !self.is_empty() {
            let mut next = PendingLoads::new();
            self.load_parts(cache, queue, &mut |reader, key, known, at| match at {
                Located::Blocks(blocks) => answer(reader, key, known, blocks),
                Located::Partition(number) => next.add(reader, IndexSection::Partition(number), key, known),
            })?;
            self = next;
        }
        Ok(())
    }

    /// Loads all sections. One that another thread loads, or for which there is no memory to spare, is loaded alone
    /// afterwards, when this thread has loaded nothing half.
    fn load_parts(
        mut self,
        cache: &TableCache,
        queue: &mut dyn Queue,
        answer: &mut dyn FnMut(&'v TableReader, &'k [u8], K, Located),
    ) -> Result<()> {
        while !self.0.is_empty() {
            for PendingLoad { reader, keys, .. } in cache.load_together(|lease| self.load_some(lease, queue, answer))? {
                for (key, known) in keys {
                    answer(reader, key, known, Located::Blocks(reader.load_and_locate(key)?));
                }
            }
        }
        Ok(())
    }

    /// Loads as many sections as may be in flight. Returns those that it skipped.
    fn load_some(
        &mut self,
        lease: &dyn Fn(usize) -> Option<Vec<Block>>,
        queue: &mut dyn Queue,
        answer: &mut dyn FnMut(&'v TableReader, &'k [u8], K, Located),
    ) -> Result<Vec<PendingLoad<'v, 'k, K>>> {
        let (mut loads, mut left_out, mut in_flight) = (Vec::new(), Vec::new(), 0);
        while let Some(wait) = self.0.pop_front() {
            let (offset, pages) = wait.reader.index_location(wait.part);
            if in_flight > 0 && in_flight + pages > IN_FLIGHT {
                self.0.push_front(wait);
                break;
            }
            // A thread with several load locks waits for none, so there is no deadlock.
            let Some(guard) = wait.reader.begin_load(wait.part) else {
                left_out.push(wait);
                continue;
            };
            let Some(frames) = lease(wait.reader.memory_of(wait.part)) else {
                left_out.push(wait);
                break;
            };
            for (page, block) in frames.into_iter().enumerate() {
                let (file, offset, tag) =
                    (wait.reader.table().file().clone(), offset + (page * PAGE) as u64, in_flight as u64);
                queue.submit(Request { file, op: Op::Read, offset, block, len: PAGE, tag });
                in_flight += 1;
            }
            loads.push(InFlightLoad { wait, guard, pages });
        }
        let mut frames = read(queue, in_flight)?.into_iter();
        for InFlightLoad { wait: PendingLoad { reader, part, keys }, guard, pages } in loads {
            let ask = &mut |locate: LocateFn<'_>| {
                keys.iter().for_each(|&(key, known)| answer(reader, key, known, locate(key)));
            };
            reader.publish(part, frames.by_ref().take(pages).collect(), ask)?;
            drop(guard);
        }
        Ok(left_out)
    }
}

/// Waits for all reads in flight, `count` of them, and returns their blocks in the order of their tags.
fn read(queue: &mut dyn Queue, count: usize) -> Result<Vec<Block>> {
    let mut done: Vec<Completion> = Vec::new();
    queue.complete(count, &mut done);
    done.sort_unstable_by_key(|completion| completion.request.tag);
    done.into_iter().map(|Completion { request, result }| result.map(|()| request.block)).collect()
}
