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

use super::*;
use crate::{
    engine::{Operation, Outcome},
    hash::{
        Hash,
        log::{Address, Kind},
        lookup::{Place as Found, Seen},
        tests::engine_with_copies,
    },
};

/// An engine whose compactions end in a map.
struct World {
    hash: Hash,
    /// What compactions have left, tombstones too.
    cold: Mutex<BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
}

impl World {
    /// A world in which nothing has a value.
    fn new(bucket_bits: u32, frames: usize, copies: usize) -> World {
        World { hash: engine_with_copies(bucket_bits, frames, copies), cold: Mutex::default() }
    }

    fn set(&self, key: &[u8], value: Option<&[u8]>) {
        self.hash.put(Operation { key, value }).expect("there is memory");
    }

    /// Gives the key a value that no search finds in the hot log.
    fn set_cold(&self, key: &[u8], value: &[u8]) {
        self.cold.lock().insert(key.to_vec(), Some(value.to_vec()));
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (value, seen) = self.see(key);
        // As a search offers what it has read from a file.
        if let (Found::Nowhere, Some(value)) = (seen.place, &value) {
            self.hash.offer(&self.hash.key(key), &seen.start, value);
        }
        value
    }

    /// A search, whose end is in the map.
    fn see(&self, key: &[u8]) -> (Option<Vec<u8>>, Seen) {
        let mut value = Vec::new();
        let seen = self.hash.search(&self.hash.key(key), &mut value).expect("nothing is on disk");
        let value = match seen.place {
            Found::Nowhere => self.cold.lock().get(key).cloned().flatten(),
            _ => seen.has_value().then_some(value),
        };
        (value, seen)
    }

    /// Whether there is a copy of the key's record.
    #[cfg(not(feature = "loom"))]
    fn is_copied(&self, key: &[u8]) -> bool {
        matches!(self.see(key).1.place, Found::Copy)
    }

    /// The same, where a search would count a use.
    #[cfg(not(feature = "loom"))]
    fn is_linked(&self, key: &[u8]) -> bool {
        let (hash, pin) = (&self.hash, self.hash.domain.pin());
        let link = hash.table.find(hash.key(key).hash, &pin).map_or(Link::NONE, |found| found.entry.link());
        let mut next = Place::of(link);
        while let Some(copy) = next.map(|place| hash.copies.copy(place, &pin)) {
            if copy.has_key(key) {
                return true;
            }
            next = Place::of(copy.link());
        }
        false
    }

    /// As [`Hash::modify`].
    fn modify(&self, key: &[u8], mut change: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Outcome) {
        loop {
            let ((value, seen), mut new) = (self.see(key), Vec::new());
            let new = match change(value.as_deref(), &mut new) {
                Outcome::Keep => return,
                Outcome::Store => Some(&new[..]),
                Outcome::Delete => None,
            };
            let written = self.hash.write_if(&self.hash.key(key), &seen, new, &self.hash.domain.pin());
            match written {
                Ok(true) => return,
                Ok(false) => {}
                Err(lack) => self.hash.make_room(lack).expect("there is memory"),
            }
        }
    }

    /// Makes all cold that is below SAFE, in the order of decision 10, invariant 21. Whether there was anything.
    fn compact(&self) -> bool {
        let log = &self.hash.log;
        log.raise_read_only(log.close_page());
        self.hash.domain.drain();
        let (mut page, until) = (log.bounds().begin(), log.bounds().safe());
        if page == until {
            return false;
        }
        while page < until {
            self.make_cold(page);
            page = page.plus(crate::hash::log::PAGE);
        }
        log.truncate(until, drop);
        self.sweep();
        true
    }

    fn make_cold(&self, page: Address) {
        let (pin, mut key, mut value) = (self.hash.domain.pin(), Vec::new(), Vec::new());
        for (_, record) in self.hash.log.page(page, &pin) {
            let state = record.read(&mut value);
            record.read_key(&mut key);
            let value = (state.kind() == Kind::Value).then(|| value.clone());
            if state.kind() != Kind::Invalid {
                self.cold.lock().insert(key.clone(), value);
            }
        }
    }

    /// Clears entries as after a truncation.
    fn sweep(&self) {
        self.hash.table.sweep(self.hash.log.bounds().clearable());
        self.hash.sweep_copies();
    }
}
