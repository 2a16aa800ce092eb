//! Loads parts of the indexes of many tables together, for who looks for many keys or in many runs (decision 11,
//! "Reading"; decision 12, invariants 19 and 24).

use std::{collections::VecDeque, ptr};

use ecotone_substrate::{
    Result,
    limits::PAGE,
    storage::{Block, Completion, Op, Queue, Request},
};
use ecotone_sys::primitive::MutexGuard;

use super::{
    handle::{Handle, IndexPart, Locate},
    table::{Candidates, Located},
    table_cache::TableCache,
};

/// Pages in flight at a time, but for those of a part that has more.
const IN_FLIGHT: usize = 64;

/// What waits for a part of an index: keys, each with what the caller knows it by.
pub(super) struct Wait<'v, 'k, K> {
    handle: &'v Handle,
    part: IndexPart,
    keys: Vec<(&'k [u8], K)>,
}

/// Those of a search.
pub(super) struct Waits<'v, 'k, K>(VecDeque<Wait<'v, 'k, K>>);

/// A part that is being read, by who has its turn.
struct Load<'v, 'k, K> {
    wait: Wait<'v, 'k, K>,
    turn: MutexGuard<'v, ()>,
    pages: usize,
}

impl<'v, 'k, K: Copy> Waits<'v, 'k, K> {
    /// Nothing waits.
    pub(super) fn new() -> Waits<'v, 'k, K> {
        Waits(VecDeque::new())
    }

    /// A key waits for a part of the index of a table. Those that wait for the same come one behind the other.
    pub(super) fn add(&mut self, handle: &'v Handle, part: IndexPart, key: &'k [u8], known: K) {
        match self.0.back_mut().filter(|last| ptr::eq(last.handle, handle) && last.part == part) {
            Some(last) => last.keys.push((key, known)),
            None => self.0.push_back(Wait { handle, part, keys: vec![(key, known)] }),
        }
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Loads all that is waited for, many pages in flight, and the partitions that are named by it; `answer` gets where
    /// each key can be.
    ///
    /// # Errors
    /// If something is damaged or cannot be read, or there is no memory for it.
    pub(super) fn load(
        mut self,
        cache: &TableCache,
        queue: &mut dyn Queue,
        answer: &mut dyn FnMut(&'v Handle, &'k [u8], K, Candidates),
    ) -> Result<()> {
        while !self.is_empty() {
            let mut next = Waits::new();
            self.load_parts(cache, queue, &mut |handle, key, known, at| match at {
                Located::Blocks(blocks) => answer(handle, key, known, blocks),
                Located::Partition(number) => next.add(handle, IndexPart::Partition(number), key, known),
            })?;
            self = next;
        }
        Ok(())
    }

    /// A part that somebody else loads, or for which there is no memory to spare, is waited for by itself, when nothing
    /// is loaded half.
    fn load_parts(
        mut self,
        cache: &TableCache,
        queue: &mut dyn Queue,
        answer: &mut dyn FnMut(&'v Handle, &'k [u8], K, Located),
    ) -> Result<()> {
        while !self.0.is_empty() {
            for Wait { handle, keys, .. } in cache.load_together(|lease| self.load_some(lease, queue, answer))? {
                for (key, known) in keys {
                    answer(handle, key, known, Located::Blocks(handle.load_and_locate(key)?));
                }
            }
        }
        Ok(())
    }

    /// Loads as many as may be in flight. Gives back those that it met and has left out.
    fn load_some(
        &mut self,
        lease: &dyn Fn(usize) -> Option<Vec<Block>>,
        queue: &mut dyn Queue,
        answer: &mut dyn FnMut(&'v Handle, &'k [u8], K, Located),
    ) -> Result<Vec<Wait<'v, 'k, K>>> {
        let (mut loads, mut left_out, mut in_flight) = (Vec::new(), Vec::new(), 0);
        while let Some(wait) = self.0.pop_front() {
            let (offset, pages) = wait.handle.place_of(wait.part);
            if in_flight > 0 && in_flight + pages > IN_FLIGHT {
                self.0.push_front(wait);
                break;
            }
            // Whoever has several turns waits for none.
            let Some(turn) = wait.handle.begin_load(wait.part) else {
                left_out.push(wait);
                continue;
            };
            let Some(frames) = lease(wait.handle.memory_of(wait.part)) else {
                left_out.push(wait);
                break;
            };
            for (page, block) in frames.into_iter().enumerate() {
                let (file, offset, tag) =
                    (wait.handle.table().file().clone(), offset + (page * PAGE) as u64, in_flight as u64);
                queue.submit(Request { file, op: Op::Read, offset, block, len: PAGE, tag });
                in_flight += 1;
            }
            loads.push(Load { wait, turn, pages });
        }
        let mut frames = read(queue, in_flight)?.into_iter();
        for Load { wait: Wait { handle, part, keys }, turn, pages } in loads {
            let ask = &mut |locate: Locate<'_>| {
                keys.iter().for_each(|&(key, known)| answer(handle, key, known, locate(key)));
            };
            handle.publish(part, frames.by_ref().take(pages).collect(), ask)?;
            drop(turn);
        }
        Ok(left_out)
    }
}

/// Waits for so many reads, which are all that are in flight, and gives their blocks by tags.
fn read(queue: &mut dyn Queue, count: usize) -> Result<Vec<Block>> {
    let mut done: Vec<Completion> = Vec::new();
    queue.complete(count, &mut done);
    done.sort_unstable_by_key(|completion| completion.request.tag);
    done.into_iter().map(|Completion { request, result }| result.map(|()| request.block)).collect()
}
