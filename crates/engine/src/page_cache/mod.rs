//! The page cache: pages that scans visited lately (T17; decision 8). A database has one for the pages of its trees and
//! one, the *block cache*, for the blocks of its tables (lsm.md, "Caches").
//!
//! The record cache serves point reads and cannot serve scans: only the page tells whether a key between two cached
//! ones exists. Pages are admitted when a scan opens them, and are cached in their verified form. Invariants 17 to 19
//! and the division of the memory are in `docs/decisions/0008-pages-for-scans.md`; a shard is in [`shard`], the lookup
//! of pages in [`table`].

mod shard;
mod table;
#[cfg(test)]
mod tests;

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use ecotone_substrate::{
    bug,
    memory::{CacheComponents, Component, Memory, Share, gather},
};
use ecotone_sys::{
    chunk::Size,
    primitive::{Mutex, MutexGuard, Once, atomic::AtomicU32},
};

use self::shard::Shard;
pub use self::table::PageId;

/// Budget that one shard serves at most, in bytes: as many pages as fill half of a table.
const SHARD_BUDGET: usize = 8 << 20;
/// Number of write counters.
const STRIPES: usize = 1 << 12;
/// The value of a page's write counter before the page is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticket(u32);

/// The page cache of a database.
#[derive(Debug)]
pub struct PageCache {
    shards: Box<[Mutex<Shard>]>,
    /// Write counters of pages, by stripe.
    versions: Box<[AtomicU32]>,
    memory: Arc<Memory>,
    /// The memory component that the cache leases from.
    component: &'static [Component; 1],
    /// The next table number to allocate.
    tables: AtomicU64,
    /// Its memory share, claimed with the first page to keep: without scans the cache takes no memory from others.
    share: Once<Share>,
    /// Where the next search for a slab begins.
    next_shard: AtomicUsize,
    this: Weak<PageCache>,
}

impl PageCache {
    /// Creates an empty cache for tree pages that leases from `memory`.
    pub fn of_pages(memory: Arc<Memory>) -> Arc<PageCache> {
        PageCache::new(memory, &[Component::PageCache])
    }

    /// Creates an empty cache for blocks of tables.
    pub fn of_blocks(memory: Arc<Memory>) -> Arc<PageCache> {
        PageCache::new(memory, &[Component::BlockCache])
    }

    fn new(memory: Arc<Memory>, component: &'static [Component; 1]) -> Arc<PageCache> {
        let count = (memory.budget() / SHARD_BUDGET).next_power_of_two();
        Arc::new_cyclic(|this| PageCache {
            shards: (0..count).map(|_| Mutex::default()).collect(),
            versions: (0..STRIPES).map(|_| AtomicU32::new(0)).collect(),
            memory,
            component,
            tables: AtomicU64::new(0),
            share: Once::new(),
            next_shard: AtomicUsize::new(0),
            this: this.clone(),
        })
    }

    /// Allocates a number for a table. None is given twice, so blocks of a removed table are never found again.
    pub fn number_of_table(&self) -> Option<u32> {
        u32::try_from(self.tables.fetch_add(1, Ordering::Relaxed)).ok()
    }

    fn shard(&self, id: PageId) -> MutexGuard<'_, Shard> {
        self.shards[id.hash() as usize & (self.shards.len() - 1)].lock()
    }

    fn version(&self, id: PageId) -> &AtomicU32 {
        &self.versions[(id.hash() >> 52) as usize & (STRIPES - 1)]
    }

    /// Taken before a page is read that may be admitted later.
    pub fn ticket(&self, id: PageId) -> Ticket {
        Ticket(self.version(id).load(Ordering::SeqCst))
    }

    /// Whether a page is cached. Counts as an access, which raises its priority.
    pub fn touch(&self, id: PageId) -> bool {
        self.share.get().is_some() && self.shard(id).touch(id)
    }

    /// Whether a page is cached, without counting an access.
    pub fn has(&self, id: PageId) -> bool {
        self.share.get().is_some() && self.shard(id).has(id)
    }

    /// Copies a page, if it is still cached.
    pub fn copy(&self, id: PageId, to: &mut [u8]) -> bool {
        self.shard(id).copy(id, to)
    }

    /// Copies a page, if it is cached, and counts an access.
    pub fn read(&self, id: PageId, to: &mut [u8]) -> bool {
        self.share.get().is_some() && self.shard(id).read(id, to)
    }

    /// Admits a page that was read after `ticket` was taken and was verified, unless it was written meanwhile
    /// (invariant 18). Never waits.
    pub fn admit(&self, id: PageId, page: &[u8], ticket: Ticket) {
        let share = self.share.get_or_init(|| self.join());
        let mut shard = self.shard(id);
        if self.ticket(id) != ticket && !bug!(StalePage) {
            return;
        }
        let is_refused = shard.admit(id, page, (&self.memory, self.component[0]));
        drop(shard);
        if is_refused {
            // Memory reclaimed this way serves the next pages.
            share.reclaim(Size::Slab.bytes());
        }
    }

    fn join(&self) -> Share {
        let this = self.this.clone();
        self.memory.join(
            CacheComponents::Components(self.component),
            Box::new(move |bytes| this.upgrade().map_or(0, |cache| cache.shrink(bytes))),
        )
    }

    /// Removes a page that was written: the new bytes are on disk, and neither the record cache nor the index relies on
    /// them yet (invariant 17).
    pub fn forget(&self, id: PageId) {
        if bug!(KeepPage) {
            return;
        }
        self.version(id).fetch_add(1, Ordering::SeqCst);
        self.shard(id).forget(id);
    }

    /// Removes the pages of a keyspace. A late scan may admit pages afterwards; they are never found, since no keyspace
    /// number is used twice.
    pub fn forget_keyspace(&self, keyspace: u16) {
        self.shards.iter().for_each(|shard| shard.lock().forget_keyspace(keyspace));
    }

    /// Counts requests for pages that are not cached, and requests that the cache saved.
    pub fn count(&self, requests: usize) {
        if let Some(share) = self.share.get() {
            share.count(requests as u64);
        }
    }

    /// Gives whole slabs back to the budget; returns the bytes.
    pub fn shrink(&self, bytes: usize) -> usize {
        gather(bytes, self.shards.len(), || {
            let number = self.next_shard.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
            self.shards[number].lock().give_back()
        })
    }

    /// Gives back slabs without pages, after many were removed: while the cache has less than its share, the budget
    /// does not ask it to shrink.
    pub fn trim(&self) {
        self.shards.iter().for_each(|shard| shard.lock().trim());
    }

    /// Cached pages and their bytes, hits and misses.
    pub fn counts(&self) -> [u64; 4] {
        let mut sum = [0; 3];
        for shard in &self.shards {
            sum.iter_mut().zip(shard.lock().counts()).for_each(|(sum, count)| *sum += count);
        }
        let [pages, hits, misses] = sum;
        [pages, self.memory.used(self.component) as u64, hits, misses]
    }
}
