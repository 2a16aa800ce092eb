//! Searches for many keys at once. Batches of keys are searched in memory in three passes with prefetching, so that the
//! memory stalls of a batch overlap; the remaining keys are read from disk with many requests in flight (H9; hash.md,
//! "Operations").

use ecotone_engine::{contract::VisitValue, deferred_results::DeferredResults};
use ecotone_substrate::{
    Result, bug,
    storage::{Reads, Storage},
};

use super::{
    chains::{EndOfMemory, Seen},
    key::Key,
    lookup::{Lookup, Searcher, Step},
};

/// Keys that are searched together in memory: as many as the processor's caches can hold prefetched data for.
const BATCH: usize = 32;
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

impl Searcher<'_> {
    /// Searches for keys in memory. `found` gets the number and the value of each key whose search ends there. Returns
    /// the searches that continue on disk.
    pub(super) fn search_batches<'k>(&self, keys: &[&'k [u8]], found: &mut VisitValue<'_>) -> Vec<Search<'k>> {
        let (mut beyond, mut answers) = (Vec::new(), DeferredResults::default());
        for (number, batch) in keys.chunks(BATCH).enumerate() {
            answers.clear();
            let _pin = bug!(CallUnderPin).then(|| self.chains.domain.pin());
            self.search_batch(number * BATCH, batch, &mut beyond, &mut answers);
            // No pin is held here: other threads wait for pins, and the closure may call the database.
            answers.deliver(found);
        }
        beyond
    }

    /// Searches for keys in memory; `first` is the number of the first one. `beyond` gets the searches that continue on
    /// disk, `answers` the results of the others.
    fn search_batch<'k>(
        &self,
        first: usize,
        keys: &[&'k [u8]],
        beyond: &mut Vec<Search<'k>>,
        answers: &mut DeferredResults,
    ) {
        let (pin, mut value) = (self.chains.domain.pin(), Vec::new());
        let mut keyed = [Key::NONE; BATCH];
        for (key, bytes) in keyed.iter_mut().zip(keys) {
            *key = self.chains.key(bytes);
            self.chains.index.prefetch(key.hash, &pin);
        }
        let mut entries = [None; BATCH];
        for (entry, key) in entries.iter_mut().zip(&keyed[..keys.len()]) {
            self.chains.prefetch(entry.insert(self.chains.entry(key, &pin)), &pin);
        }
        for (number, (entry, key)) in (first..).zip(entries.into_iter().flatten().zip(keyed)) {
            match self.chains.search_begun(&key, &self.chains.begin_from(&key, entry, &pin), &pin, &mut value) {
                Ok(seen) => answers.push(number, seen.has_value().then_some(&value)),
                Err(end) => beyond.push(Search { number, key, beyond: end }),
            }
        }
    }

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
