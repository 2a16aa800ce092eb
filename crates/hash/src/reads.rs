//! Runs searches that continue on disk concurrently, with many requests in flight (hash.md, "Operations").

use ecotone_substrate::{
    Result,
    storage::{Reads, Storage},
};

use super::{
    Hash,
    key::Key,
    lookup::{EndOfMemory, Lookup, Seen, Step},
};

/// Maximum requests in flight.
const IN_FLIGHT: usize = 64;

/// A search that has not found its key in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'k> {
    /// The caller's number of the search.
    pub(super) number: usize,
    pub(super) key: Key<'k>,
    pub(super) beyond: EndOfMemory,
}

impl Hash {
    /// Completes searches in any order. `ended` gets each search, its result, and its value, which is empty if there is
    /// none. No pin is held during the call.
    ///
    /// # Errors
    /// The first error of a search. Then the others do not complete.
    pub(super) fn search_all<'k>(
        &self,
        storage: &dyn Storage,
        searches: impl IntoIterator<Item = Search<'k>>,
        ended: &mut dyn FnMut(&Search<'k>, &Seen, &[u8]),
    ) -> Result<()> {
        let (mut searches, mut queue, mut value) = (searches.into_iter(), storage.queue()?, Vec::new());
        let mut reads = Reads::<(Search<'k>, Lookup)>::new(&mut *queue);
        // A search that had no memory for its next read. A thread does not wait for memory while it has reads in
        // flight: several such threads would deadlock.
        let mut waiting: Option<(Search<'k>, Lookup)> = None;
        loop {
            let (mut search, mut step, mut block) = if reads.in_flight() < IN_FLIGHT
                && waiting.is_none()
                && let Some(search) = searches.next()
            {
                (search, self.leave_memory(&search.key, search.beyond, &mut value)?, None)
            } else if let Some(((search, lookup), block)) = reads.wait()? {
                (search, self.resume(&search.key, lookup, &block, &mut value)?, Some(block))
            } else if let Some((search, lookup)) = waiting.take() {
                (search, Step::Reads(lookup), Some(self.reservations.frame()?))
            } else {
                return Ok(());
            };
            loop {
                match step {
                    Step::Again => step = self.begin_again(&search.key, &mut value)?,
                    Step::Reads(lookup) => {
                        let Some(block) =
                            block.take().or_else(|| self.reservations.window().filter(|_| !reads.is_scarce()))
                        else {
                            break waiting = Some((search, lookup));
                        };
                        let (file, offset, len) = lookup.wanted();
                        let file = file.clone();
                        break reads.ask((search, lookup), file, offset, len, block);
                    }
                    Step::Ended(seen) => {
                        // A block that is not a window is not held during the callback.
                        block = block.filter(Reads::<()>::may_keep);
                        ended(&search, &seen, &value);
                        let Some(next) = waiting.take_if(|_| block.is_some()) else { break };
                        (search, step) = (next.0, Step::Reads(next.1));
                    }
                }
            }
        }
    }
}
