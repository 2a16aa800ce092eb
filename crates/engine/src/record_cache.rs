//! The interface of the record cache: newest values of some keys in front of all data on disk, except for keys in
//! memtables (adaptive-protocol.md, invariant 9).

use std::{fmt, sync::Arc};

use ecotone_substrate::Result;

use crate::contract::{Shared, Stats};

/// A ticket for the moment of a miss; its content belongs to the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheTicket(pub [u64; 2]);

/// The answer of the cache for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheLookup {
    /// The value is cached.
    Found,
    /// Not cached: read the value elsewhere, then offer it with this ticket.
    Missing(CacheTicket),
}

/// The part of the record cache that belongs to one keyspace. A key that is not cached may still exist.
pub trait RecordCache: fmt::Debug + Send + Sync {
    /// Looks a key up and appends its value to `value`.
    fn lookup(&self, key: &[u8], value: &mut Vec<u8>) -> CacheLookup;
    /// Offers a value that was read after a miss. It is refused if the key was refreshed since.
    fn admit(&self, key: &[u8], value: &[u8], ticket: CacheTicket);
    /// Refreshes a key with the version that is flushed next, so that the cache holds nothing older when that version
    /// leaves its memtable, and admits nothing older afterwards.
    fn refresh(&self, key: &[u8], value: Option<&[u8]>);
    /// Drops all cached records of the keyspace, since its data is gone or replaced. Tickets taken before become
    /// invalid.
    fn invalidate(&self);
    /// Statistics of the cache, which may cover several keyspaces.
    fn stats(&self) -> Stats;
}

/// Creates record caches for the keyspaces of a database.
pub trait RecordCacheFactory: fmt::Debug + Send + Sync {
    /// Creates the cache of one more keyspace.
    ///
    /// # Errors
    /// If there are too many keyspaces.
    fn record_cache(&self, shared: &Shared) -> Result<Arc<dyn RecordCache>>;
}
