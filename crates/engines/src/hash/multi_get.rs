//! Many keys at once: in three passes over batches of them, so that the waits for memory of a batch are one, and then
//! side by side for what is not in memory (H9; decision 9, "Reading many at once").

use ecotone_substrate::{Result, bug, storage::Storage};

use super::{Hash, key::Key, reads::Search};
use crate::answers::Answers;

/// Keys that are looked for together in memory: as many as the processor's caches keep what was asked for.
const BATCH: usize = 32;

impl Hash {
    /// Calls `found` once for each key, in whatever order, with its number and its value.
    ///
    /// # Errors
    /// The first that a search meets. Then not all keys have been looked for.
    pub(crate) fn multi_get(
        &self,
        storage: &dyn Storage,
        keys: &[&[u8]],
        mut found: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let (mut beyond, mut answers) = (Vec::new(), Answers::default());
        for (number, batch) in keys.chunks(BATCH).enumerate() {
            answers.clear();
            let _pin = bug!(CallUnderPin).then(|| self.domain.pin());
            self.search_batch(number * BATCH, batch, &mut beyond, &mut answers);
            // Without the pin: others wait for that, and the closure may call the database.
            answers.tell(&mut found);
        }
        if beyond.is_empty() {
            return Ok(());
        }
        self.search_all(storage, beyond, &mut |search, seen, value| {
            self.remember(&search.key, seen, value);
            found(search.number, seen.has_value().then_some(value));
        })
    }

    /// Looks for keys in memory, of which the first has this number. `beyond` gets the searches that do not end there,
    /// `answers` the others.
    fn search_batch<'k>(&self, first: usize, keys: &[&'k [u8]], beyond: &mut Vec<Search<'k>>, answers: &mut Answers) {
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
