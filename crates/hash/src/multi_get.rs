//! Reads many keys at once. Batches of keys are searched in memory in three passes with prefetching, so that the memory
//! stalls of a batch overlap; the remaining keys are read from disk with many requests in flight (H9; hash.md,
//! "Operations").

use ecotone_engine::deferred_results::DeferredResults;
use ecotone_substrate::{Result, bug, storage::Storage};

use super::{Hash, key::Key, reads::Search};

/// Keys that are searched together in memory: as many as the processor's caches can hold prefetched data for.
const BATCH: usize = 32;

impl Hash {
    /// Calls `found` once for each key, in any order, with its number and its value.
    ///
    /// # Errors
    /// The first error of a search. Then not all keys have been searched.
    pub(crate) fn multi_get(
        &self,
        storage: &dyn Storage,
        keys: &[&[u8]],
        mut found: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let (mut beyond, mut answers) = (Vec::new(), DeferredResults::default());
        for (number, batch) in keys.chunks(BATCH).enumerate() {
            answers.clear();
            let _pin = bug!(CallUnderPin).then(|| self.domain.pin());
            self.search_batch(number * BATCH, batch, &mut beyond, &mut answers);
            // No pin is held here: other threads wait for pins, and the closure may call the database.
            answers.deliver(&mut found);
        }
        if beyond.is_empty() {
            return Ok(());
        }
        self.search_all(storage, beyond, &mut |search, seen, value| {
            self.remember(&search.key, seen, value);
            found(search.number, seen.has_value().then_some(value));
        })
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
        let (pin, mut value) = (self.domain.pin(), Vec::new());
        let mut keyed = [Key::NONE; BATCH];
        for (key, bytes) in keyed.iter_mut().zip(keys) {
            *key = self.key(bytes);
            self.table.prefetch(key.hash, &pin);
        }
        let mut heads = [None; BATCH];
        for (head, key) in heads.iter_mut().zip(&keyed[..keys.len()]) {
            self.prefetch(head.insert(self.head(key, &pin)), &pin);
        }
        for (number, (head, key)) in (first..).zip(heads.into_iter().flatten().zip(keyed)) {
            match self.search_begun(&key, &self.begin_from(&key, head, &pin), &pin, &mut value) {
                Ok(seen) => answers.push(number, seen.has_value().then_some(&value)),
                Err(end) => beyond.push(Search { number, key, beyond: end }),
            }
        }
    }
}
