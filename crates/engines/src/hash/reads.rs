//! Searches beyond memory side by side, with many requests in flight (decision 9, "Reading many at once").

use ecotone_substrate::{
    Result,
    storage::{Block, Completion, Op, Queue, Request, Storage},
};

use super::{
    Hash,
    key::Key,
    lookup::{Beyond, Lookup, Seen, Step},
};

/// Requests in flight at a time.
const IN_FLIGHT: usize = 64;

/// A search that has not found its key in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'k> {
    /// The caller's own mark.
    pub(super) number: usize,
    pub(super) key: Key<'k>,
    pub(super) beyond: Beyond,
}

/// Searches that wait for what they read, by the tags of their requests.
struct Reads<'h, 'k> {
    hash: &'h Hash,
    queue: Box<dyn Queue>,
    waiting: Vec<Option<(Search<'k>, Lookup)>>,
    /// Of the search that ended last.
    value: Vec<u8>,
}

impl Hash {
    /// Ends searches in whatever order: `ended` gets the mark of each, what it came to, and the value, which is empty if there is none. No pin is held then.
    pub(super) fn search_all<'k>(
        &self,
        storage: &dyn Storage,
        searches: impl IntoIterator<Item = Search<'k>>,
        ended: &mut dyn FnMut(&Search<'k>, &Seen, &[u8]),
    ) -> Result<()> {
        let (mut searches, mut done, mut failure) = (searches.into_iter(), Vec::new(), Ok(()));
        let mut reads = Reads { hash: self, queue: storage.queue()?, waiting: Vec::new(), value: Vec::new() };
        loop {
            while failure.is_ok() && reads.queue.in_flight() < IN_FLIGHT {
                let Some(search) = searches.next() else { break };
                let step = self.leave_memory(&search.key, search.beyond, &mut reads.value);
                failure = step.and_then(|step| reads.go_on(search, step, None, ended));
            }
            if reads.queue.in_flight() == 0 {
                return failure;
            }
            reads.queue.complete(1, &mut done);
            for completion in done.drain(..) {
                failure = failure.and(reads.resume(completion, ended));
            }
        }
    }
}

impl<'k> Reads<'_, 'k> {
    /// Goes on with the search that has waited for a request.
    fn resume(&mut self, completion: Completion, ended: &mut dyn FnMut(&Search<'k>, &Seen, &[u8])) -> Result<()> {
        let Completion { request, result } = completion;
        let (search, lookup) = self.waiting[request.tag as usize].take().expect("a search waits for each request");
        result?;
        let step = self.hash.resume(&search.key, lookup, &request.block, &mut self.value)?;
        self.go_on(search, step, Some(request.block), ended)
    }

    /// Goes on until something is to be read, or the search has ended.
    fn go_on(
        &mut self,
        search: Search<'k>,
        mut step: Step,
        block: Option<Block>,
        ended: &mut dyn FnMut(&Search<'k>, &Seen, &[u8]),
    ) -> Result<()> {
        loop {
            match step {
                Step::Again => step = self.hash.begin_again(&search.key, &mut self.value)?,
                Step::Reads(lookup) => {
                    let block = block.map_or_else(|| self.hash.room.frame(), Ok)?;
                    self.submit(search, lookup, block);
                    return Ok(());
                }
                Step::Ended(seen) => {
                    ended(&search, &seen, &self.value);
                    return Ok(());
                }
            }
        }
    }

    fn submit(&mut self, search: Search<'k>, lookup: Lookup, block: Block) {
        let free = self.waiting.iter().position(Option::is_none);
        let tag = free.unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        let (file, offset, len) = lookup.wanted();
        self.queue.submit(Request { file: file.clone(), op: Op::Read, offset, block, len, tag: tag as u64 });
        self.waiting[tag] = Some((search, lookup));
    }
}
