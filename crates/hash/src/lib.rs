//! The hash engine. A keyspace consists of a hot log of recent records, a hash index over it, a read cache of records
//! that are often read from files, and a cold tier of runs in hash order (hash.md, hash-protocol.md,
//! `docs/format/hash.md`).
//!
//! `Chains` are the part in memory: index, read cache and hot log. `Tier` is the cold tier. `Reservations` make space
//! in memory, and a `Searcher` looks for a key in all places. The operations of a keyspace are in `operations.rs`. A
//! `Compactor` moves records from the chains to the cold tier, and a `HashCursor` reads both.

#![cfg_attr(all(test, feature = "loom"), expect(dead_code, reason = "the models use a part of it"))]

mod background;
pub mod blob;
mod budget;
mod chains;
mod check;
pub mod cold;
mod compact;
mod counters;
mod deletes;
mod factory;
mod flush;
mod index;
mod install;
mod key;
mod keyspace;
pub mod log;
mod lookup;
mod memory_share;
mod memory_tuner;
mod multi_get;
mod operations;
mod options;
mod read_cache;
mod recovery;
pub mod repair;
mod reservations;
mod sizes;
mod space;
mod stats;
pub mod structure;
#[cfg(any(test, feature = "testing"))]
mod testing;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::Arc;

use ecotone_engine::superseded::SupersededReports;
use ecotone_substrate::{Result, memory::CacheComponents};
use ecotone_sys::{
    epoch::Domain,
    primitive::atomic::{AtomicBool, Ordering},
};

use self::{
    chains::Chains,
    cold::{Runs, Tier},
    counters::Counts,
    deletes::TombstoneCounter,
    index::Index,
    install::Files,
    log::{Address, HotLog},
    lookup::Searcher,
    reservations::Reservations,
    sizes::Sizes,
};
pub use self::{
    factory::HashFamily,
    options::{Compaction, HashOptions},
};

/// The records of one keyspace.
#[derive(Debug)]
pub(crate) struct Hash {
    /// The records in memory, and the chains that continue on disk.
    chains: Chains,
    /// The older records, on disk.
    cold: Tier,
    /// Makes space in memory for new records.
    reservations: Reservations,
    counts: Counts,
    deletes: TombstoneCounter,
    /// Whether the keyspace was used since the last tick.
    used: AtomicBool,
}

impl Hash {
    /// An empty keyspace.
    fn create(files: &Arc<Files>, sizes: Sizes) -> Result<Hash> {
        let log = HotLog::new(&files.context().shared.domain, Address::FIRST, sizes.frames);
        let hash = Hash::over(files, log, Runs::default(), sizes)?;
        hash.chains.begin_reports();
        Ok(hash)
    }

    /// A keyspace over a log whose records are not in the index yet. Keys are hashed with the seed of their database.
    fn over(files: &Arc<Files>, log: HotLog, runs: Runs, sizes: Sizes) -> Result<Hash> {
        let (environment, domain) = (files.environment(), &files.context().shared.domain);
        let reservations = Reservations::new(&environment.memory, files.clone());
        let mut hash = Hash::of(domain, environment.database, log, runs, reservations, sizes)?;
        hash.chains.reports = SupersededReports::new(files.context(), false);
        Ok(hash)
    }

    fn of(
        domain: &Arc<Domain>,
        seed: u64,
        log: HotLog,
        runs: Runs,
        reservations: Reservations,
        sizes: Sizes,
    ) -> Result<Hash> {
        let index = Index::new(domain, sizes.bucket_bits, reservations.lease_all(Index::bytes(sizes.bucket_bits))?);
        let chains = Chains::new(domain, seed, log, index, &reservations.memory, sizes);
        let (counts, deletes, used) = Default::default();
        Ok(Hash { chains, cold: Tier::new(domain, runs), reservations, counts, deletes, used })
    }

    /// Joins the caches that share the memory budget.
    fn join(self: &Arc<Self>) {
        let (counted, shrunk) = (Arc::downgrade(self), Arc::downgrade(self));
        let held = CacheComponents::Counted(Box::new(move || counted.upgrade().map_or(0, |hash| hash.chains.held())));
        let shrink = Box::new(move |bytes| shrunk.upgrade().map_or(0, |hash| hash.chains.shrink_read_cache(bytes)));
        self.chains.memory_share.join(self.reservations.memory.join(held, shrink), &self.chains.log);
    }

    /// Searches in memory and on disk.
    #[inline]
    fn searcher(&self) -> Searcher<'_> {
        Searcher { chains: &self.chains, cold: &self.cold, reservations: &self.reservations }
    }

    /// Marks the keyspace as used.
    #[inline]
    fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Marks the keyspace as used, and counts reads and writes.
    #[inline]
    fn count_uses(&self, more: usize) {
        self.touch();
        let Chains { log, read_cache, memory_share, .. } = &self.chains;
        memory_share.count_uses(more, log, read_cache);
    }
}
