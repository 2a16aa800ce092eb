//! The page cache: pages that scans came to lately (T17; decision 8). A database has one for the pages of its trees and
//! one, the *block cache*, for the blocks of its tables (decision 11, "Caches").
//!
//! The record cache serves points and is blind to scans: whether a key between two cached ones is absent only its page
//! knows. Pages come in when a scan opens them, and lie here as they were checked. Invariants 17 to 19 and the division
//! of the memory are in `docs/decisions/0008-pages-for-scans.md`; a shard is in [`shard`], how it finds a page in
//! [`table`].

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
    memory::{Component, Held, Memory, Share, gather},
};
use ecotone_sys::{
    chunk::Size,
    primitive::{Mutex, MutexGuard, Once, atomic::AtomicU32},
};

use self::shard::Shard;
pub(crate) use self::table::PageId;

/// Budget that one shard serves at most, in bytes: as many pages as half of a table.
const SHARD_BUDGET: usize = 8 << 20;
/// Counters of writes.
const STRIPES: usize = 1 << 12;
/// The moment before a page is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

/// The page cache of a database.
#[derive(Debug)]
pub(crate) struct PageCache {
    shards: Box<[Mutex<Shard>]>,
    /// By stripe: how often pages were written.
    versions: Box<[AtomicU32]>,
    memory: Arc<Memory>,
    /// What it leases.
    component: &'static [Component; 1],
    /// The number of the next table whose blocks come in.
    tables: AtomicU64,
    /// Its claim, once there was a page to keep: who does not scan gives nothing up for it.
    share: Once<Share>,
    /// Where the next search for a slab begins.
    turn: AtomicUsize,
    this: Weak<PageCache>,
}

impl PageCache {
    /// An empty cache of pages of trees that will lease from `memory`.
    pub(crate) fn of_pages(memory: Arc<Memory>) -> Arc<PageCache> {
        PageCache::new(memory, &[Component::PageCache])
    }

    /// One of blocks of tables.
    pub(crate) fn of_blocks(memory: Arc<Memory>) -> Arc<PageCache> {
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
            turn: AtomicUsize::new(0),
            this: this.clone(),
        })
    }

    /// A number for a table. None is given twice, so nobody asks for blocks of one that is gone.
    pub(crate) fn number_of_table(&self) -> Option<u32> {
        u32::try_from(self.tables.fetch_add(1, Ordering::Relaxed)).ok()
    }

    fn shard(&self, id: PageId) -> MutexGuard<'_, Shard> {
        self.shards[id.hash() as usize & (self.shards.len() - 1)].lock()
    }

    fn version(&self, id: PageId) -> &AtomicU32 {
        &self.versions[(id.hash() >> 52) as usize & (STRIPES - 1)]
    }

    /// To be taken before a page is read that may come in then.
    pub(crate) fn ticket(&self, id: PageId) -> Ticket {
        Ticket(self.version(id).load(Ordering::SeqCst))
    }

    /// Whether a page is here. An access raises its priority.
    pub(crate) fn touch(&self, id: PageId) -> bool {
        self.share.get().is_some() && self.shard(id).touch(id)
    }

    /// Whether a page is here. That is no access.
    pub(crate) fn has(&self, id: PageId) -> bool {
        self.share.get().is_some() && self.shard(id).has(id)
    }

    /// Copies a page, if it is still here.
    pub(crate) fn copy(&self, id: PageId, to: &mut [u8]) -> bool {
        self.shard(id).copy(id, to)
    }

    /// Copies a page, if it is here, which counts as an access.
    pub(crate) fn read(&self, id: PageId, to: &mut [u8]) -> bool {
        self.share.get().is_some() && self.shard(id).read(id, to)
    }

    /// Takes a page in that was read after `ticket` was taken and was checked, unless it was written meanwhile
    /// (invariant 18). Waits for nothing.
    pub(crate) fn admit(&self, id: PageId, page: &[u8], ticket: Ticket) {
        let share = self.share.get_or_init(|| self.join());
        let mut shard = self.shard(id);
        if self.ticket(id) != ticket && !bug!(StalePage) {
            return;
        }
        let is_refused = shard.admit(id, page, (&self.memory, self.component[0]));
        drop(shard);
        if is_refused {
            // Memory that comes free this way is there for the next pages.
            share.reclaim(Size::Slab.bytes());
        }
    }

    fn join(&self) -> Share {
        let this = self.this.clone();
        self.memory.join(
            Held::Components(self.component),
            Box::new(move |bytes| this.upgrade().map_or(0, |cache| cache.shrink(bytes))),
        )
    }

    /// Forgets a page that was written: the new bytes are on disk, and neither the record cache nor the index has come
    /// to rely on them yet (invariant 17).
    pub(crate) fn forget(&self, id: PageId) {
        if bug!(KeepPage) {
            return;
        }
        self.version(id).fetch_add(1, Ordering::SeqCst);
        self.shard(id).forget(id);
    }

    /// Forgets the pages of a keyspace. What a late scan brings in after that nobody asks for, since no number is given
    /// twice.
    pub(crate) fn forget_keyspace(&self, keyspace: u16) {
        self.shards.iter().for_each(|shard| shard.lock().forget_keyspace(keyspace));
    }

    /// Counts requests for pages that are not here, and those that were saved.
    pub(crate) fn count(&self, requests: usize) {
        if let Some(share) = self.share.get() {
            share.count(requests as u64);
        }
    }

    /// Gives whole slabs back to the budget; gives the bytes.
    pub(crate) fn shrink(&self, bytes: usize) -> usize {
        gather(bytes, self.shards.len(), || {
            let number = self.turn.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
            self.shards[number].lock().give_back()
        })
    }

    /// Gives the slabs back in which no page is left, after many were forgotten: nobody would ask this cache for them
    /// while it has less than its part.
    pub(crate) fn trim(&self) {
        self.shards.iter().for_each(|shard| shard.lock().trim());
    }

    /// Its pages and their bytes, hits and misses.
    pub(crate) fn counts(&self) -> [u64; 4] {
        let mut sum = [0; 3];
        for shard in &self.shards {
            sum.iter_mut().zip(shard.lock().counts()).for_each(|(sum, count)| *sum += count);
        }
        let [pages, hits, misses] = sum;
        [pages, self.memory.used(self.component) as u64, hits, misses]
    }
}
