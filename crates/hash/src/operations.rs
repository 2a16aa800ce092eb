//! The operations of a keyspace: reads, writes, updates and merges (hash.md, "Operations").
//!
//! An operation works on the chain of its key under a pin, without latches. If it lacks memory, it drops the pin, has
//! the memory made and starts again. An update is read-modify-write: the new value replaces the record that was read if
//! that is still the newest, else the update starts again (H10; hash-protocol.md, "Operations").

use ecotone_engine::{
    contract::{Operation, UpdateAction, UpdateFn},
    merge::Merge,
};
use ecotone_substrate::{Error, Result, Seq, health::Health, storage::Storage};
use ecotone_sys::primitive::thread;

use super::{
    Hash,
    chains::{FoundIn, Seen, Start},
    key::Key,
    log::HeaderKind,
    reservations::LOOK_AGAIN,
};

impl Hash {
    /// Reads the value of a key into a buffer, whose old content is dropped. False if the key has no value.
    pub(crate) fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let key = self.chains.key(key);
        let seen = self.searcher().search(&key, value)?;
        self.remember(&key, &seen, value);
        Ok(seen.has_value())
    }

    /// Offers a value to the read cache and counts the miss, if a search has read it from a file.
    #[inline]
    pub(crate) fn remember(&self, key: &Key<'_>, seen: &Seen, value: &[u8]) {
        if matches!(seen.place, FoundIn::Disk(HeaderKind::Value) | FoundIn::Cold) {
            self.chains.memory_share.tuner.missed_read(key.hash);
            self.offer(key, &seen.start, value);
        }
    }

    /// Offers the value that a search has read from a file to the read cache.
    pub(crate) fn offer(&self, key: &Key<'_>, start: &Start, value: &[u8]) {
        if !self.chains.read_cache.is_on() {
            return;
        }
        let copied = self.chains.cache_if_unchanged(key, start, value, &self.chains.domain.pin());
        if self.chains.read_cache.lacks_room() {
            self.chains.evict_for_inserts();
            // Read-cache entries take entries of the index.
            self.reservations.has_taken();
        }
        if let Err(lack) = copied {
            // Without memory the value is not cached.
            let _ = self.reservations.satisfy(&self.chains, lack);
        }
    }

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
        let searcher = self.searcher();
        let beyond = searcher.search_batches(keys, &mut found);
        if beyond.is_empty() {
            return Ok(());
        }
        searcher.search_all(storage, beyond, &mut |search, seen, value| {
            self.remember(&search.key, seen, value);
            found(search.number, seen.has_value().then_some(value));
        })
    }

    /// Applies an operation of an unlogged keyspace, including admission.
    pub(crate) fn put(&self, operation: Operation<'_>) -> Result<()> {
        let key = self.chains.key(operation.key);
        loop {
            let done = self.chains.upsert(&key, operation.value, &self.chains.domain.pin());
            match done {
                Ok(_) => {
                    self.deletes.count(operation.value.is_none());
                    return Ok(());
                }
                Err(lack) => self.reservations.satisfy(&self.chains, lack)?,
            }
        }
    }

    /// Applies an operation of a logged keyspace, which was admitted before. Its sequence number in the log of the
    /// database is `seq`. Its reservation covers the memory, unless it meets more concurrent writes than admission has
    /// counted on; then it waits for more memory. It gives up if writing has stopped, since no caller is told that it
    /// is done, and if the keyspace was dropped or the database closed, since nothing reads it.
    pub(crate) fn apply(&self, seq: Seq, operation: Operation<'_>, health: &Health) {
        let key = self.chains.key(operation.key);
        loop {
            let done = self.chains.upsert(&key, operation.value, &self.chains.domain.pin());
            match done {
                Ok(appended) => {
                    self.deletes.count(operation.value.is_none());
                    appended.iter().for_each(|address| self.chains.log.note(*address, seq));
                    return;
                }
                Err(lack) => match self.reservations.satisfy(&self.chains, lack) {
                    Ok(()) => {}
                    Err(Error::Closed { .. }) => return,
                    Err(_) if health.cause().is_some() => return,
                    Err(_) => thread::sleep(LOOK_AGAIN),
                },
            }
        }
    }

    /// Updates a key from its current value, in memory or on disk. `change` gets the value, if there is one, and an
    /// empty buffer for a new one. It may be called several times. The outcome of its last call is applied, at a moment
    /// when the key had the value that it got.
    pub(crate) fn modify(&self, key: &[u8], change: &mut UpdateFn<'_>) -> Result<()> {
        let (key, mut old, mut new) = (self.chains.key(key), Vec::new(), Vec::new());
        loop {
            let seen = self.searcher().search(&key, &mut old)?;
            if matches!(seen.place, FoundIn::Disk(_) | FoundIn::Cold) {
                self.chains.memory_share.tuner.missed_read(key.hash);
            }
            new.clear();
            let value = match change(seen.has_value().then_some(&old), &mut new) {
                UpdateAction::Store => Some(&new[..]),
                UpdateAction::Delete if seen.has_value() => None,
                UpdateAction::Delete | UpdateAction::Keep => return Ok(()),
            };
            let written = self.chains.write_if(&key, &seen, value, &self.chains.domain.pin());
            match written {
                Ok(true) => {
                    self.deletes.count(value.is_none());
                    return Ok(());
                }
                Ok(false) => {}
                Err(lack) => self.reservations.satisfy(&self.chains, lack)?,
            }
        }
    }

    /// Changes the value of a key: in place under the lock of its record if that is mutable, else like any update.
    ///
    /// # Errors
    /// If the value is not a counter, or gets too long. Then nothing is changed.
    pub(crate) fn merge(&self, key: &[u8], merge: Merge<'_>) -> Result<()> {
        if self.chains.merge_in_place(&self.chains.key(key), merge)? {
            return Ok(());
        }
        merge.apply_by(key, |change| self.modify(key, change))
    }
}
