//! The tree's record cache as a clean read cache for other engines: every record in it is also stored elsewhere, and
//! none is dirty (adaptive-protocol.md, invariant 9).

use std::sync::Arc;

use ecotone_engine::{
    contract::{Shared, Stats},
    record_cache::{CacheLookup, CacheTicket, RecordCache, RecordCacheFactory},
};
use ecotone_substrate::Result;

use super::{
    Tree, TreeFamily,
    cache::{self, Cache, CacheKeyspace, Purpose, RecordLookup},
};

/// One keyspace's entries in the shared record cache.
#[derive(Debug)]
struct KeyspacePart {
    cache: Arc<Cache>,
    /// The keyspace's number within the cache.
    number: u16,
    /// Whether records are admitted.
    keeps: bool,
}

/// A small record cache of one keyspace, for loom models of other engines.
#[cfg(feature = "loom")]
#[doc(hidden)]
pub fn model_cache() -> Arc<dyn RecordCache> {
    keyspace_cache(&Cache::new(ecotone_substrate::memory::Memory::new(16 << 20), 7, 1 << 20), 0, true)
}

/// The record cache of the keyspace with this number.
pub(crate) fn keyspace_cache(cache: &Arc<Cache>, number: u16, keeps: bool) -> Arc<dyn RecordCache> {
    Arc::new(KeyspacePart { cache: cache.clone(), number, keeps })
}

impl RecordCache for KeyspacePart {
    fn lookup(&self, key: &[u8], value: &mut Vec<u8>) -> CacheLookup {
        match self.cache.get(self.number, key, Purpose::Read, |found| value.extend_from_slice(found)) {
            RecordLookup::Value(()) => CacheLookup::Found,
            RecordLookup::Missing(ticket) => CacheLookup::Missing(CacheTicket(ticket.words())),
            RecordLookup::Tombstone => unreachable!("nobody writes to the cache of such a keyspace"),
        }
    }

    fn admit(&self, key: &[u8], value: &[u8], CacheTicket(words): CacheTicket) {
        if self.keeps {
            self.cache.admit_clean(self.number, key, value, &cache::RecordTicket::of(words));
        }
    }

    fn refresh(&self, key: &[u8], value: Option<&[u8]>) {
        self.cache.refresh(self.number, key, value);
    }

    fn invalidate(&self) {
        self.cache.forget_keyspace(CacheKeyspace { number: self.number, logged: true });
    }

    fn stats(&self) -> Stats {
        self.cache.stats()
    }
}

impl Tree {
    /// The tree's record cache, for an engine that stores records outside of the pages as well.
    pub fn record_cache(&self) -> Arc<dyn RecordCache> {
        keyspace_cache(&self.cache, self.number, self.options.record_cache)
    }
}

impl RecordCacheFactory for TreeFamily {
    fn record_cache(&self, shared: &Shared) -> Result<Arc<dyn RecordCache>> {
        let (cache, number) = self.register_in_cache(shared)?;
        Ok(keyspace_cache(&cache, number, true))
    }
}
