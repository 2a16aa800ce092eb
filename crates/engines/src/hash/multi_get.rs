//! Many keys at once, in three passes, so that the waits for memory of all of them are one (H9; decision 9, "Reading many at once").

use ecotone_substrate::Result;
use ecotone_sys::epoch::Pin;

use super::{Hash, key::Key, lookup::Begun};

/// Keys that are looked for side by side: as many as the processor's caches keep what was asked for.
const BATCH: usize = 32;

impl Hash {
    /// Calls `found` with the value of each key, in their order.
    pub(crate) fn multi_get(&self, keys: &[&[u8]], mut found: impl FnMut(Option<&[u8]>)) -> Result<()> {
        let mut value = Vec::new();
        for batch in keys.chunks(BATCH) {
            let pin = self.domain.pin();
            let mut keyed = [Key::NONE; BATCH];
            for (key, bytes) in keyed.iter_mut().zip(batch) {
                *key = self.key(bytes);
                self.table.prefetch(key.hash, &pin);
            }
            let mut starts = [None; BATCH];
            for (start, key) in starts.iter_mut().zip(&keyed[..batch.len()]) {
                *start = Some(self.begin_ahead(key, &pin));
            }
            let mut done = 0;
            for (start, key) in starts.iter().flatten().zip(&keyed) {
                let Some(seen) = self.search_from(key, start, &pin, &mut value) else { break };
                found(seen.has_value().then_some(&value));
                done += 1;
            }
            drop(pin);
            // What is beyond memory is read without a pin, and what is behind it in the batch comes after it.
            for key in &keyed[done..batch.len()] {
                let seen = self.search(key, &mut value)?;
                self.remember(key, &seen, &value);
                found(seen.has_value().then_some(&value));
            }
        }
        Ok(())
    }

    /// Where the search for the key begins. The record that it looks at first is asked for.
    fn begin_ahead<'p>(&'p self, key: &Key<'_>, pin: &'p Pin<'_>) -> Begun<'p> {
        let begun = self.begin(key, pin);
        if let Some(record) = begun.start.hot.head(begun.start.begin).and_then(|address| self.log.record(address, pin)) {
            record.prefetch();
        }
        begun
    }
}
