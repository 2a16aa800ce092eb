//! The hash engine: a hot log, the index over it, copies of what is read often, and runs in hash order (decisions 9 and
//! 10, `docs/format/hash.md`).

#![cfg_attr(all(test, feature = "loom"), expect(dead_code, reason = "the models use a part of it"))]

mod append;
mod apply;
pub mod blob;
mod budget;
mod check;
pub mod cold;
mod compact;
mod conditional;
mod counters;
mod deletes;
mod family;
mod flush;
mod index;
mod install;
mod key;
mod keyspace;
pub mod log;
mod lookup;
mod merge;
mod modify;
mod multi_get;
mod options;
mod part;
mod put;
mod read_cache;
mod reads;
mod recovery;
pub mod repair;
mod room;
mod split;
pub mod structure;
#[cfg(test)]
mod tests;
mod upkeep;
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
    deletes::Deletes,
    index::Index,
    install::Files,
    key::Key,
    log::{Address, HotLog},
    part::Part,
    read_cache::ReadCache,
    room::Room,
    split::Split,
};
pub use self::{
    family::HashFamily,
    options::{Compaction, HashOptions},
};

/// The records of one keyspace.
#[derive(Debug)]
pub(crate) struct Hash {
    seed: u64,
    domain: Arc<Domain>,
    log: HotLog,
    table: Index,
    copies: ReadCache,
    cold: Tier,
    room: Room,
    part: Part,
    split: Split,
    counts: Counts,
    deletes: Deletes,
    /// Whether somebody has used it since that was asked last.
    used: AtomicBool,
}

/// How large an engine is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// The index has two to the power of this many buckets.
    pub(crate) bucket_bits: u32,
    /// Frames that the log has in memory at most, whatever its part of the memory is.
    pub(crate) frames: usize,
    /// Frames of copies at most.
    pub(crate) copies: usize,
}

impl Hash {
    /// Of an empty keyspace.
    fn create(files: &Arc<Files>, sizes: Sizes) -> Result<Hash> {
        let log = HotLog::new(&files.context().shared.domain, Address::FIRST, sizes.frames);
        Hash::over(files, log, Runs::default(), sizes)
    }

    /// Over a log of which nothing is in the index yet. Keys are hashed under the seed of their database.
    fn over(files: &Arc<Files>, log: HotLog, runs: Runs, sizes: Sizes) -> Result<Hash> {
        let (environment, domain) = (files.environment(), &files.context().shared.domain);
        let room = Room::new(&environment.memory, files.clone());
        Hash::of(domain, environment.database, log, runs, room, sizes)
    }

    fn of(domain: &Arc<Domain>, seed: u64, log: HotLog, runs: Runs, room: Room, sizes: Sizes) -> Result<Hash> {
        let table = Index::new(domain, sizes.bucket_bits, room.lease_all(Index::bytes(sizes.bucket_bits))?);
        let copies = ReadCache::new(domain, &room.memory, sizes.copies);
        let (cold, part, split) = (Tier::new(domain, runs), Part::of(sizes), Split::new(&room.memory, sizes.frames));
        let (counts, deletes, used) = Default::default();
        Ok(Hash { seed, domain: domain.clone(), log, table, copies, cold, room, part, split, counts, deletes, used })
    }

    /// Somebody uses it.
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
