//! The hash engine. A keyspace consists of a hot log of recent records, a hash index over it, a read cache of records
//! that are often read from files, and a cold tier of runs in hash order (hash.md, hash-protocol.md,
//! `docs/format/hash.md`).

#![cfg_attr(all(test, feature = "loom"), expect(dead_code, reason = "the models use a part of it"))]

mod append;
mod apply;
mod background;
pub mod blob;
mod budget;
mod check;
pub mod cold;
mod compact;
mod conditional;
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
mod merge;
mod modify;
mod multi_get;
mod options;
mod put;
mod read_cache;
mod reads;
mod recovery;
pub mod repair;
mod reservations;
pub mod structure;
#[cfg(test)]
mod tests;
mod upsert;
mod walk;

use std::sync::Arc;

use ecotone_substrate::Result;
use ecotone_sys::{
    epoch::Domain,
    primitive::atomic::{AtomicBool, Ordering},
};

use self::{
    cold::{Runs, Tier},
    counters::Counts,
    deletes::TombstoneCounter,
    index::Index,
    install::Files,
    key::Key,
    log::{Address, HotLog},
    memory_share::MemoryShare,
    memory_tuner::MemoryTuner,
    read_cache::ReadCache,
    reservations::Reservations,
};
pub use self::{
    factory::HashFamily,
    options::{Compaction, HashOptions},
};

/// The records of one keyspace.
#[derive(Debug)]
pub(crate) struct Hash {
    seed: u64,
    domain: Arc<Domain>,
    log: HotLog,
    table: Index,
    read_cache: ReadCache,
    cold: Tier,
    reservations: Reservations,
    memory_share: MemoryShare,
    memory_tuner: MemoryTuner,
    counts: Counts,
    deletes: TombstoneCounter,
    /// Whether the keyspace was used since the last tick.
    used: AtomicBool,
}

/// The sizes of a keyspace in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// The index has two to the power of this many buckets.
    pub(crate) bucket_bits: u32,
    /// Maximum frames of hot log in memory, whatever its memory share is.
    pub(crate) frames: usize,
    /// Maximum frames of the read cache.
    pub(crate) copies: usize,
}

impl Hash {
    /// An empty keyspace.
    fn create(files: &Arc<Files>, sizes: Sizes) -> Result<Hash> {
        let log = HotLog::new(&files.context().shared.domain, Address::FIRST, sizes.frames);
        Hash::over(files, log, Runs::default(), sizes)
    }

    /// A keyspace over a log whose records are not in the index yet. Keys are hashed with the seed of their database.
    fn over(files: &Arc<Files>, log: HotLog, runs: Runs, sizes: Sizes) -> Result<Hash> {
        let (environment, domain) = (files.environment(), &files.context().shared.domain);
        let room = Reservations::new(&environment.memory, files.clone());
        Hash::of(domain, environment.database, log, runs, room, sizes)
    }

    fn of(domain: &Arc<Domain>, seed: u64, log: HotLog, runs: Runs, room: Reservations, sizes: Sizes) -> Result<Hash> {
        let table = Index::new(domain, sizes.bucket_bits, room.lease_all(Index::bytes(sizes.bucket_bits))?);
        let copies = ReadCache::new(domain, &room.memory, sizes.copies);
        let (cold, part, split) =
            (Tier::new(domain, runs), MemoryShare::of(sizes), MemoryTuner::new(&room.memory, sizes.frames));
        let (counts, deletes, used) = Default::default();
        Ok(Hash {
            seed,
            domain: domain.clone(),
            log,
            table,
            read_cache: copies,
            cold,
            reservations: room,
            memory_share: part,
            memory_tuner: split,
            counts,
            deletes,
            used,
        })
    }

    /// Marks the keyspace as used.
    #[inline]
    fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::new(bytes, self.seed)
    }
}
