//! The record cache: the in-memory records of all tree keyspaces, dirty ones included (mechanisms T1, T3 and the
//! cache's part of T4).
//!
//! The cache knows neither the log nor the content of pages. Layout and protocol are in
//! `docs/decisions/0003-record-cache.md`; start at [`shard`], then [`allocate`] (where memory comes from),
//! [`dirty_index`] and [`write_out`].

mod allocate;
mod clock;
mod dirty_index;
mod handle;
mod hands;
mod hash;
mod reaccess;
mod record;
mod request;
mod shard;
mod slab;
mod slabs;
mod stats;
mod table;
#[cfg(test)]
mod tests;
mod write_out;

use std::sync::{
    Arc, Weak,
    atomic::{AtomicUsize, Ordering},
};

use ecotone_substrate::{
    bug,
    limits::MAX_RECORD,
    memory::{CacheComponents, Component, Memory, Share, gather},
};
use ecotone_sys::{
    chunk::{Block, Size},
    primitive::{Mutex, MutexGuard},
};

use self::{
    dirty_index::{Cells, DirtyIndex, EntryUpdate, Key},
    handle::{Address, SlotHandle},
    hash::KeyHasher,
    reaccess::ReaccessStats,
    shard::{Shard, ShardContext, Write},
    slab::SLAB,
};
pub(crate) use self::{
    hash::KeyHash,
    request::{Applied, CacheKeyspace, Purpose},
    stats::CacheStats,
    write_out::{DirtyOverlay, KeySpan},
};

/// Budget that one shard serves, in bytes; and the least budget of a shard while there are at most [`FEW_SHARDS`]
/// shards, so that threads seldom contend.
const SHARD_BUDGET: usize = 16 << 20;
const LEAST_BUDGET: usize = 4 << 20;
const FEW_SHARDS: usize = 4;
/// Windows that the longest log spans, nearly.
const WINDOWS: u64 = 64;
/// Write counters of the whole cache.
const STRIPES: usize = 1 << 14;
/// Shards to ask for a slab when one has no memory left.
const ASK: usize = 8;
/// Disk requests that a cached record may save: on a read, reading its page; on a write, reading and writing its page.
const READ: u32 = 1;
const WRITE: u32 = 2;
/// The memory components that the cache leases from.
const COMPONENTS: &[Component] = &[Component::RecordCache, Component::CacheTable, Component::DirtyIndex];

/// The answer of the cache for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordLookup<T> {
    /// The newest value, as the caller's closure copied it.
    Value(T),
    /// The key was deleted; its page may still have it.
    Tombstone,
    /// Not cached: read the page. The ticket tells whether the result may be admitted.
    Missing(RecordTicket),
}

/// A ticket for the moment of a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordTicket {
    hash: KeyHash,
    version: u32,
}

impl RecordTicket {
    /// The ticket as words.
    pub(crate) fn words(self) -> [u64; 2] {
        [self.hash.0, self.version.into()]
    }

    /// A ticket from its words.
    pub(crate) fn of([hash, version]: [u64; 2]) -> RecordTicket {
        RecordTicket { hash: KeyHash(hash), version: version as u32 }
    }
}

/// The record cache of a database.
#[derive(Debug)]
pub(crate) struct Cache {
    shards: Box<[Mutex<Shard>]>,
    common: ShardContext,
    /// Dirty records: those of logged keyspaces, which hold back the log, and those of the others.
    indexes: [DirtyIndex; 2],
    share: Share,
    /// Where the next search for a slab begins.
    turn: AtomicUsize,
}

impl Cells for Cache {
    fn with_key<T>(&self, address: Address, look: impl FnOnce(Key<'_>) -> T) -> T {
        let shard = self.shards[address.shard()].lock();
        let cell = shard.slabs.cell(address.handle());
        look(Key { keyspace: record::keyspace(cell), bytes: record::key(cell) })
    }
}

impl Cache {
    /// Creates an empty cache that leases from `memory` and gives back on request. `seed` is for its hashes. The log
    /// has at most `log_bytes` bytes.
    pub(crate) fn new(memory: Arc<Memory>, seed: u64, log_bytes: u64) -> Arc<Cache> {
        let (usual, few) = (memory.budget() / SHARD_BUDGET, (memory.budget() / LEAST_BUDGET).min(FEW_SHARDS));
        let count = usual.max(few).next_power_of_two().clamp(2, 256);
        let (dirty_bytes, hungry, heat) = (Arc::default(), Arc::default(), Arc::new(ReaccessStats::default()));
        let common = ShardContext { hasher: KeyHasher::new(seed), memory: memory.clone(), dirty_bytes, heat, hungry };
        let shard = |number: usize| Mutex::new(Shard::new(number as u8, STRIPES / count, common.clone()));
        let shards = (0..count).map(shard).collect();
        Arc::new_cyclic(|weak: &Weak<Cache>| {
            let weak = weak.clone();
            let shrink = move |bytes| weak.upgrade().map_or(0, |cache| cache.shrink(bytes));
            let share = memory.join(CacheComponents::Components(COMPONENTS), Box::new(shrink));
            // The first cache may take all memory until another one has demand.
            share.count(1);
            // The sequences of unlogged keyspaces are not needed.
            let indexes = [(log_bytes / WINDOWS).max(1).next_power_of_two().ilog2(), u64::BITS - 1];
            let indexes = indexes.map(|window_bits| DirtyIndex::new(&memory, window_bits));
            Cache { shards, common, indexes, share, turn: AtomicUsize::new(0) }
        })
    }

    /// The hash of a key.
    pub(crate) fn hash(&self, keyspace: u16, key: &[u8]) -> KeyHash {
        self.common.hasher.hash(keyspace, key)
    }

    fn index(&self, logged: bool) -> &DirtyIndex {
        &self.indexes[usize::from(!logged)]
    }

    fn shard(&self, hash: KeyHash) -> MutexGuard<'_, Shard> {
        self.shards[hash.shard(self.shards.len())].lock()
    }

    /// Counts a use; the budget divides the memory by uses (decision 8).
    fn count(&self, shard: &mut Shard, requests: u32) {
        if let Some(requests) = shard.count_use(requests) {
            self.share.count(requests);
        }
    }

    /// The newest value of a key, or a ticket for reading its page. `take` copies the value, under the lock of its
    /// shard. A read raises the record's priority; a read for an update leaves that to the write that follows.
    pub(crate) fn get<T>(
        &self,
        keyspace: u16,
        key: &[u8],
        purpose: Purpose,
        take: impl FnOnce(&[u8]) -> T,
    ) -> RecordLookup<T> {
        let hash = self.hash(keyspace, key);
        let mut shard = self.shard(hash);
        self.count(&mut shard, READ);
        if let Some(cell) = shard.access(hash, keyspace, key, purpose) {
            return record::value(cell).map_or(RecordLookup::Tombstone, |value| RecordLookup::Value(take(value)));
        }
        RecordLookup::Missing(RecordTicket { hash, version: shard.version(hash) })
    }

    /// Admits a record read from its page after the miss that gave the ticket. Never waits; evicts only clean records.
    /// False if it was overtaken by a write, is already present, or there is no memory.
    pub(crate) fn admit_clean(&self, keyspace: u16, key: &[u8], value: &[u8], ticket: &RecordTicket) -> bool {
        let hash = ticket.hash;
        let mut shard = self.shard(hash);
        let stale = shard.version(hash) != ticket.version && !bug!(StaleAdmission);
        let cell = if stale || shard.find(hash, keyspace, key).is_some() {
            None
        } else {
            shard.cell_for(record::bytes(key.len(), value.len()))
        };
        match cell {
            Some(cell) => shard.admit(hash, cell, keyspace, key, value),
            None => shard.stats.refused += 1,
        }
        let is_overloaded = shard.is_overloaded();
        drop(shard);
        if is_overloaded {
            self.mend_table(hash.shard(self.shards.len()));
        }
        if self.common.hungry.load(Ordering::Relaxed) && self.common.hungry.swap(false, Ordering::Relaxed) {
            // Memory reclaimed this way serves the next records.
            self.share.reclaim(SLAB);
        }
        cell.is_some()
    }

    /// Reserves a cell for a write, and everything else that [`apply`](Self::apply) needs, evicting clean records if
    /// needed. Returns a token. `None` if all other records are dirty or reserved: wait for a write-out, then retry.
    pub(crate) fn reserve(&self, space: CacheKeyspace, key: &[u8], value_len: usize) -> Option<u64> {
        assert!(key.len() + value_len <= MAX_RECORD, "limits are checked before a record comes to the cache");
        let hash = self.hash(space.number, key);
        let index = self.index(space.logged);
        if !index.admit(&|| self.find_block().is_some()) {
            return None;
        }
        let address = self.reserve_cell(hash, record::bytes(key.len(), value_len));
        if address.is_none() {
            index.leave();
        }
        address.map(|address| u64::from(address.0))
    }

    /// Reserves a cell in the key's shard; if the shard has none, takes a slab from another cache or shard. A shard
    /// without a table needs two slabs.
    fn reserve_cell(&self, hash: KeyHash, bytes: usize) -> Option<Address> {
        for _ in 0..2 {
            let (reserved, is_overloaded) = self.try_reserve(hash, bytes);
            if is_overloaded {
                self.mend_table(hash.shard(self.shards.len()));
            }
            if reserved.is_some() {
                return reserved;
            }
            let block = self.find_block()?;
            self.shard(hash).adopt(block);
        }
        self.try_reserve(hash, bytes).0
    }

    /// Reserves a cell in the key's shard, and tells whether its table is much too small.
    fn try_reserve(&self, hash: KeyHash, bytes: usize) -> (Option<Address>, bool) {
        let mut shard = self.shard(hash);
        let reserved = shard.cell_for(bytes).map(|handle| shard.address(handle));
        (reserved, shard.is_overloaded())
    }

    fn token(&self, token: u64) -> (usize, SlotHandle) {
        let address = Address(u32::try_from(token).expect("a token of this cache"));
        (address.shard(), address.handle())
    }

    /// Makes a write visible in the cell of `token`, unless its keyspace was dropped. Infallible.
    pub(crate) fn apply(&self, token: u64, space: CacheKeyspace, applied: Applied<'_>, is_dropped: &dyn Fn() -> bool) {
        let Applied { key, seq, .. } = applied;
        let (hash, index) = (self.hash(space.number, key), self.index(space.logged));
        let (shard, reserved) = self.token(token);
        debug_assert_eq!(shard, hash.shard(self.shards.len()), "a token goes with the key that it was made for");
        let write = Write { space, applied };
        // For an unlogged keyspace, the single write has just tried to overwrite.
        if !(space.logged && self.overwrite_in_place(hash, write, Some(reserved))) {
            index.change(Key { keyspace: space.number, bytes: key }, self, |_| {
                let mut shard = self.shard(hash);
                self.count(&mut shard, WRITE);
                if is_dropped() {
                    // The thread that drops the keyspace visits this leaf later, or has already done so.
                    shard.release(reserved);
                    return EntryUpdate::Nothing;
                }
                let (address, before) = shard.apply(hash, reserved, write);
                if before.dirty() { EntryUpdate::Moved(address) } else { EntryUpdate::Dirty(address, seq) }
            });
        }
        index.leave();
    }

    /// Replaces the content of a dirty record in place, if its cell is large enough; its entry stays. False if nothing
    /// was done.
    pub(crate) fn overwrite(&self, space: CacheKeyspace, applied: Applied<'_>) -> bool {
        self.overwrite_in_place(self.hash(space.number, applied.key), Write { space, applied }, None)
    }

    /// The same; a reserved cell is then released. A write that is not done here is counted when it is applied.
    fn overwrite_in_place(&self, hash: KeyHash, write: Write<'_>, reserved: Option<SlotHandle>) -> bool {
        let mut shard = self.shard(hash);
        let done = shard.overwrite(hash, write);
        if done {
            self.count(&mut shard, WRITE);
            reserved.into_iter().for_each(|reserved| shard.release(reserved));
        }
        done
    }

    /// Refreshes a record that is written outside the cache, in a keyspace without dirty records here: replaces a
    /// cached record if its cell is large enough, else drops it. Tickets taken before become invalid.
    pub(crate) fn refresh(&self, keyspace: u16, key: &[u8], value: Option<&[u8]>) {
        let hash = self.hash(keyspace, key);
        self.shard(hash).refresh(hash, keyspace, key, value);
    }

    /// Releases a reserved cell.
    pub(crate) fn cancel(&self, token: u64, space: CacheKeyspace) {
        let (shard, reserved) = self.token(token);
        self.shards[shard].lock().release(reserved);
        self.index(space.logged).leave();
    }

    /// Bytes of cells with records that are dirty or being written. Cheap.
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.common.dirty_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of cells that the cache can count on at the current use of the budget. Adds up the use of all components:
    /// callers that need it often should keep the result.
    pub(crate) fn capacity_bytes(&self) -> usize {
        let beside = self.common.memory.used(&[Component::CacheTable, Component::DirtyIndex]);
        self.share.fair_part().saturating_sub(beside)
    }

    /// Bytes that may be dirty: half of the capacity, and up to three quarters if records written out have mostly been
    /// accessed again, since those would stay cached anyway. Records updated once must not displace records that are
    /// read repeatedly.
    pub(crate) fn dirty_limit(&self) -> usize {
        let capacity = self.capacity_bytes();
        let hot = self.common.heat.part(capacity).min(reaccess::WHOLE / 2);
        capacity / 2 + capacity / 2 / reaccess::WHOLE * hot
    }

    /// A slab's memory that another cache holds and that is due to this one.
    fn due_block(&self) -> Option<Block> {
        self.share.reclaim(SLAB).then(|| self.common.memory.lease(Component::RecordCache, Size::Slab))?
    }

    /// A slab's memory from another cache that is above its share, else from a shard of this one.
    fn find_block(&self) -> Option<Block> {
        self.due_block().or_else(|| self.spare_block())
    }

    /// Takes a slab's memory from a shard that can spare one.
    fn spare_block(&self) -> Option<Block> {
        (0..ASK.min(self.shards.len())).find_map(|_| self.take_slab(self.next_shard()))
    }

    fn next_shard(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) % self.shards.len()
    }

    /// Gives whole slabs back to the budget, evicting clean records; returns the bytes. No I/O, never waits.
    pub(crate) fn shrink(&self, bytes: usize) -> usize {
        gather(bytes, self.shards.len(), || self.take_slab(self.next_shard()).map_or(0, |block| block.len()))
    }

    /// Drops all records of a keyspace, dirty ones included. The caller prevents reserving and applying for the
    /// keyspace meanwhile; a concurrent write-out finds nothing in the end. Tickets taken before become invalid.
    pub(crate) fn forget_keyspace(&self, space: CacheKeyspace) {
        self.forget_dirty(space);
        self.shards.iter().for_each(|shard| shard.lock().forget_keyspace(space.number));
    }

    /// The counters, and the current size.
    pub(crate) fn counts(&self) -> CacheStats {
        let bytes = self.indexes.iter().map(DirtyIndex::bytes).sum();
        self.shards.iter().fold(CacheStats { bytes, ..CacheStats::default() }, |mut sum, shard| {
            sum += shard.lock().stats();
            sum
        })
    }

    /// The statistics by name.
    pub(crate) fn stats(&self) -> Vec<(&'static str, u64)> {
        self.counts().named()
    }
}
