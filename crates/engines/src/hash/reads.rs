//! Searches beyond memory side by side, with many requests in flight (decision 9, "Reading many at once").

use ecotone_substrate::{
    Result,
    storage::{Reads, Storage},
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

impl Hash {
    /// Ends searches in whatever order: `ended` gets the mark of each, what it came to, and the value, which is empty
    /// if there is none. No pin is held then.
    ///
    /// # Errors
    /// The first that a search meets. Then the others do not end.
    pub(super) fn search_all<'k>(
        &self,
        storage: &dyn Storage,
        searches: impl IntoIterator<Item = Search<'k>>,
        ended: &mut dyn FnMut(&Search<'k>, &Seen, &[u8]),
    ) -> Result<()> {
        let (mut searches, mut queue, mut value) = (searches.into_iter(), storage.queue()?, Vec::new());
        let mut reads = Reads::<(Search<'k>, Lookup)>::new(&mut *queue);
        // One that had no memory for what it reads next. Nobody waits for memory while he has some in flight: many
        // together would wait for each other.
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
                (search, Step::Reads(lookup), Some(self.room.frame()?))
            } else {
                return Ok(());
            };
            loop {
                match step {
                    Step::Again => step = self.begin_again(&search.key, &mut value)?,
                    Step::Reads(lookup) => {
                        let Some(block) = block.take().or_else(|| self.room.window().filter(|_| !reads.is_scarce()))
                        else {
                            break waiting = Some((search, lookup));
                        };
                        let (file, offset, len) = lookup.wanted();
                        let file = file.clone();
                        break reads.ask((search, lookup), file, offset, len, block);
                    }
                    Step::Ended(seen) => {
                        // What is no window is not held while the caller does what he likes.
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
