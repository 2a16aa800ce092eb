//! Striped locks: they make a read and a write atomic over a store that has no such operation for plain writes.

use parking_lot::{Mutex, MutexGuard};

use crate::measure::value;

/// Enough that threads rarely contend for a lock of different keys.
const LOCKS: usize = 4096;

/// A lock for each stripe of keys. Every writer of a key holds the key's lock.
#[derive(Debug)]
pub(super) struct Stripes {
    locks: Box<[Mutex<()>]>,
}

impl Stripes {
    pub(super) fn new() -> Self {
        Stripes { locks: (0..LOCKS).map(|_| Mutex::default()).collect() }
    }

    /// Locks a key.
    pub(super) fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.locks[stripe(key)].lock()
    }

    /// Locks several keys, in the order that all threads use.
    pub(super) fn lock_all<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Vec<MutexGuard<'_, ()>> {
        let mut stripes: Vec<usize> = keys.map(stripe).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes.into_iter().map(|stripe| self.locks[stripe].lock()).collect()
    }
}

fn stripe(key: &[u8]) -> usize {
    value::identity(key) as usize % LOCKS
}
