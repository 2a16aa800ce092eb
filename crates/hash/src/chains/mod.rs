//! The part of a keyspace in memory: the hash chains. An index entry names the head of a chain. The chain goes through
//! the read cache, then through the hot log from new records to old ones, and continues on disk when the log does
//! (hash.md, "Index").
//!
//! Searches and writes neither wait for memory nor read a file: a search says where memory ends, and a write says which
//! space it lacks. `read_cache/evict.rs` takes read-cache entries out of their chains.

pub(super) mod append;
mod conditional;
mod search;
mod tail_copies;
mod update;

use std::sync::Arc;

use ecotone_engine::superseded::SupersededReports;
use ecotone_substrate::{bug, memory::Memory};
use ecotone_sys::{
    chunk::Block,
    epoch::Domain,
    primitive::{
        atomic::{AtomicU64, Ordering},
        thread,
    },
};

pub(super) use self::search::{EndOfMemory, FoundIn, Newest, SearchDepth, Seen, Start};
use self::tail_copies::TailCopies;
use super::{
    index::Index,
    key::Key,
    log::{Address, HotLog},
    memory_share::MemoryShare,
    read_cache::ReadCache,
    sizes::Sizes,
    space::BLOCK,
};

/// The chains of one keyspace.
#[derive(Debug)]
pub(super) struct Chains {
    /// Keys are hashed with the seed of their database.
    seed: u64,
    pub(super) domain: Arc<Domain>,
    pub(super) log: HotLog,
    pub(super) index: Index,
    pub(super) read_cache: ReadCache,
    /// The limits of hot log and read cache.
    pub(super) memory_share: MemoryShare,
    /// Reports superseded versions.
    pub(super) reports: SupersededReports,
    pub(super) tail_copies: TailCopies,
    /// The end of the hot log at `recovered`: records below are of earlier lives (superseded.md, invariant 5).
    pub(super) recovered_at: AtomicU64,
}

impl Chains {
    /// Chains over a log whose records are not in the index yet.
    pub(super) fn new(
        domain: &Arc<Domain>,
        seed: u64,
        log: HotLog,
        index: Index,
        memory: &Arc<Memory>,
        sizes: Sizes,
    ) -> Chains {
        let read_cache = ReadCache::new(domain, memory, sizes.copies);
        let (memory_share, domain) = (MemoryShare::new(memory, sizes), domain.clone());
        let (reports, tail_copies, recovered_at) = Default::default();
        Chains { seed, domain, log, index, read_cache, memory_share, reports, tail_copies, recovered_at }
    }

    #[inline]
    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::new(bytes, self.seed)
    }

    /// Recovery is over: reports begin.
    pub(super) fn begin_reports(&self) {
        self.recovered_at.store(self.log.tail().get(), Ordering::Relaxed);
        self.reports.begin();
    }

    /// Reports the version of a record that goes, unless another record has it.
    pub(super) fn report_unless_copied(&self, address: Address, key: &[u8], old: &[u8]) {
        if !self.tail_copies.remove(address) || bug!(ReportedTailCopy) {
            self.reports.report(key, old, self.reports.tail());
        }
    }

    /// Bytes of hot log and read cache in memory.
    pub(super) fn held(&self) -> usize {
        (self.log.frames_in_memory() + self.read_cache.frames()) as usize * BLOCK.bytes()
    }

    /// A block from `lease` for the hot log or the index. If there is none, a cache gives one back first.
    pub(super) fn lease_or_take(&self, lease: impl Fn() -> Option<Block>) -> Option<Block> {
        lease().or_else(|| self.take_from_caches().then(lease)?)
    }

    /// Takes a block from a cache: from the read cache if it exceeds its limit, else from another cache above its
    /// share, else from the read cache anyway. Returns whether a block came back.
    fn take_from_caches(&self) -> bool {
        self.memory_share.rebalance(&self.log);
        let have_more = self.read_cache.frames() > self.memory_share.copies();
        have_more && self.shrink_read_cache(BLOCK.bytes()) > 0
            || self.memory_share.take_from_others()
            || self.shrink_read_cache(BLOCK.bytes()) > 0
    }

    /// Frees the index entries of records truncated below `until`, and sweeps links to read-cache entries, once all
    /// threads have seen the new BEGIN (hash-protocol.md, invariant 21).
    pub(crate) fn clear_entries(&self, until: Address) {
        while self.log.bounds().clearable() < until {
            self.domain.drain();
            thread::yield_now();
        }
        self.index.sweep(until);
        self.clear_stale_links();
    }
}
