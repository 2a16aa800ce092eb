//! The read cache and conditional inserts, over a cold tier that is a map.

#[cfg(not(feature = "loom"))]
mod eviction;
#[cfg(not(feature = "loom"))]
mod model;
#[cfg(feature = "loom")]
mod orders;
#[cfg(not(feature = "loom"))]
mod policy;
#[cfg(not(feature = "loom"))]
mod traps;

use std::collections::BTreeMap;

use ecotone_engine::contract::{Operation, UpdateAction};

use super::*;
use crate::{
    Hash,
    chains::{FoundIn as Found, Seen},
    log::{Address, HeaderKind},
    tests::engine_with_copies,
};

/// An engine whose compactions end in a map.
struct Fixture {
    hash: Hash,
    /// The result of compactions, tombstones included.
    cold: Mutex<BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
}

impl Fixture {
    /// A fixture in which no key has a value.
    fn new(bucket_bits: u32, frames: usize, copies: usize) -> Fixture {
        Fixture { hash: engine_with_copies(bucket_bits, frames, copies), cold: Mutex::default() }
    }

    fn set(&self, key: &[u8], value: Option<&[u8]>) {
        self.hash.put(Operation { key, value }).expect("there is memory");
    }

    /// Gives the key a value in the cold tier only.
    fn set_cold(&self, key: &[u8], value: &[u8]) {
        self.cold.lock().insert(key.to_vec(), Some(value.to_vec()));
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (value, seen) = self.see(key);
        // As a search offers a record that it has read from a file.
        if let (Found::Nowhere, Some(value)) = (seen.place, &value) {
            self.hash.offer(&self.hash.chains.key(key), &seen.start, value);
        }
        value
    }

    /// A search that ends in the map.
    fn see(&self, key: &[u8]) -> (Option<Vec<u8>>, Seen) {
        let mut value = Vec::new();
        let seen = self.hash.searcher().search(&self.hash.chains.key(key), &mut value).expect("nothing is on disk");
        let value = match seen.place {
            Found::Nowhere => self.cold.lock().get(key).cloned().flatten(),
            _ => seen.has_value().then_some(value),
        };
        (value, seen)
    }

    /// Whether the key's record is in the read cache.
    #[cfg(not(feature = "loom"))]
    fn is_copied(&self, key: &[u8]) -> bool {
        matches!(self.see(key).1.place, Found::Copy)
    }

    /// The same, counting a use as a search does.
    #[cfg(not(feature = "loom"))]
    fn is_linked(&self, key: &[u8]) -> bool {
        let (hash, pin) = (&self.hash, self.hash.chains.domain.pin());
        let link =
            hash.chains.index.find(hash.chains.key(key).hash, &pin).map_or(Link::NONE, |found| found.entry.link());
        let mut next = CachedEntryAddress::of(link);
        while let Some(copy) = next.map(|place| hash.chains.read_cache.copy(place, &pin)) {
            if copy.has_key(key) {
                return true;
            }
            next = CachedEntryAddress::of(copy.link());
        }
        false
    }

    /// As [`Hash::modify`].
    fn modify(&self, key: &[u8], mut change: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> UpdateAction) {
        loop {
            let ((value, seen), mut new) = (self.see(key), Vec::new());
            let new = match change(value.as_deref(), &mut new) {
                UpdateAction::Keep => return,
                UpdateAction::Store => Some(&new[..]),
                UpdateAction::Delete => None,
            };
            let written =
                self.hash.chains.write_if(&self.hash.chains.key(key), &seen, new, &self.hash.chains.domain.pin());
            match written {
                Ok(true) => return,
                Ok(false) => {}
                Err(lack) => self.hash.reservations.satisfy(&self.hash.chains, lack).expect("there is memory"),
            }
        }
    }

    /// Moves all records below SAFE to the map, in the order of hash-protocol.md, invariant 21. Returns whether there
    /// were any.
    fn compact(&self) -> bool {
        let log = &self.hash.chains.log;
        log.raise_read_only(log.close_page());
        self.hash.chains.domain.drain();
        let (mut page, until) = (log.bounds().begin(), log.bounds().safe());
        if page == until {
            return false;
        }
        while page < until {
            self.make_cold(page);
            page = page.plus(crate::log::PAGE);
        }
        log.truncate(until, drop);
        self.sweep();
        true
    }

    fn make_cold(&self, page: Address) {
        let (pin, mut key, mut value) = (self.hash.chains.domain.pin(), Vec::new(), Vec::new());
        for (_, record) in self.hash.chains.log.page(page, &pin) {
            let state = record.read(&mut value);
            record.read_key(&mut key);
            let value = (state.kind() == HeaderKind::Value).then(|| value.clone());
            if state.kind() != HeaderKind::Invalid {
                self.cold.lock().insert(key.clone(), value);
            }
        }
    }

    /// Clears entries as after a truncation.
    fn sweep(&self) {
        self.hash.chains.index.sweep(self.hash.chains.log.bounds().clearable());
        self.hash.chains.clear_stale_links();
    }
}
