//! The hash engine: a hot log, the index over it, copies of what is read often, and runs in hash order (decisions 9 and 10, `docs/format/hash.md`).

#![cfg_attr(all(test, feature = "loom"), expect(dead_code, reason = "the models use a part of it"))]

// Built step by step (decision 9, "Build plan"): what is of the hot log has tests for its users until there is a family.
#[cfg(test)]
mod append;
#[cfg(test)]
mod blob;
pub mod cold;
#[cfg(test)]
mod compact;
#[cfg(test)]
mod conditional;
#[cfg(test)]
mod index;
#[cfg(test)]
mod key;
#[cfg(test)]
mod log;
#[cfg(test)]
mod lookup;
#[cfg(test)]
mod merge;
#[cfg(test)]
mod modify;
#[cfg(test)]
mod multi_get;
#[cfg(test)]
mod put;
#[cfg(test)]
mod read_cache;
#[cfg(test)]
mod reads;
#[cfg(test)]
mod room;
#[cfg(test)]
mod structure;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod upkeep;
#[cfg(test)]
mod upsert;
#[cfg(test)]
mod walk;

#[cfg(test)]
use std::sync::Arc;

#[cfg(test)]
use ecotone_substrate::{Result, memory::Memory};
#[cfg(test)]
use ecotone_sys::epoch::Domain;

#[cfg(test)]
use self::{
    cold::{Runs, Tier},
    index::Index,
    key::Key,
    log::{Address, HotLog},
    read_cache::ReadCache,
    room::Room,
};

/// The records of one keyspace.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Hash {
    seed: u64,
    domain: Arc<Domain>,
    log: HotLog,
    table: Index,
    copies: ReadCache,
    cold: Tier,
    room: Room,
}

/// How large an engine is made.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// The index has two to the power of this many buckets.
    pub(crate) bucket_bits: u32,
    /// Frames that the log has in memory at most, a power of two.
    pub(crate) frames: usize,
    /// Frames of copies at most.
    pub(crate) copies: usize,
}

#[cfg(test)]
impl Hash {
    /// An empty engine. Its keys are hashed under the seed of its database.
    pub(crate) fn new(domain: &Arc<Domain>, memory: &Arc<Memory>, seed: u64, sizes: Sizes) -> Result<Hash> {
        let room = Room::new(memory);
        let table = Index::new(domain, sizes.bucket_bits, room.lease_all(Index::bytes(sizes.bucket_bits))?);
        let log = HotLog::new(domain, Address::FIRST, sizes.frames);
        let copies = ReadCache::new(domain, memory, sizes.copies)?;
        let cold = Tier::new(domain, Runs::default());
        Ok(Hash { seed, domain: domain.clone(), log, table, copies, cold, room })
    }

    #[inline]
    fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::new(bytes, self.seed)
    }
}
