//! The record cache: the records of all tree keyspaces that are in memory, dirty ones among them (mechanisms T1, T3 and the
//! cache's part of T4).
//!
//! It knows neither the log nor what is in a page. Layout and protocol are in `docs/decisions/0003-record-cache.md`; start at
//! [`shard`], then [`room`] (where memory comes from), [`dirty`] and [`write_out`].

mod clock;
mod dirty;
mod handle;
mod hash;
mod heat;
mod nearest;
mod record;
mod room;
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
    Seq, bug,
    limits::MAX_RECORD,
    memory::{Component, Held, Memory, Share, gather},
};
use ecotone_sys::chunk::{Block, Size};
use ecotone_sys::primitive::{Mutex, MutexGuard};

use self::{
    dirty::DirtyMap,
    handle::{Address, Handle},
    hash::KeyHasher,
    heat::Heat,
    shard::{Common, Shard, Write},
    slab::SLAB,
};
pub(crate) use self::{hash::KeyHash, nearest::Nearest, stats::CacheStats, write_out::DirtyRecord};

/// Budget that one shard serves, in bytes, and the least for which there are as many as [`FEW`], so that threads seldom meet.
const SHARD_BUDGET: usize = 16 << 20;
const LEAST_BUDGET: usize = 4 << 20;
const FEW: usize = 4;
/// Shards that share one part of the map of dirty pages.
const SHARDS_PER_PART: usize = 8;
/// Counters of writes in the whole cache.
const STRIPES: usize = 1 << 14;
/// Shards that are asked for a slab when one has nothing left.
const ASK: usize = 8;
/// Requests to the disk that a record may save: when it is read, its page; when it is written, reading and writing its page.
const READ: u32 = 1;
const WRITE: u32 = 2;
/// What the cache leases.
const COMPONENTS: &[Component] = &[Component::RecordCache, Component::CacheTable, Component::DirtyChains];

/// What a cache says about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found<T> {
    /// The newest value, as the caller took it.
    Value(T),
    /// The key was deleted, and its page may not know yet.
    Tombstone,
    /// Ask the page. The ticket tells whether the answer may be admitted then.
    Missing(Ticket),
}

/// What a record is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    /// It is written in a moment. Together that is one access: a record that is updated once is not a hot one.
    Update,
}

/// The moment of a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    hash: KeyHash,
    version: u32,
}

impl Ticket {
    /// The same as words.
    pub(crate) fn words(self) -> [u64; 2] {
        [self.hash.0, self.version.into()]
    }

    /// One that was told as words.
    pub(crate) fn of([hash, version]: [u64; 2]) -> Ticket {
        Ticket { hash: KeyHash(hash), version: version as u32 }
    }
}

/// The record cache of a database.
#[derive(Debug)]
pub(crate) struct Cache {
    shards: Box<[Mutex<Shard>]>,
    common: Common,
    share: Share,
    /// Where the next search for a slab begins.
    turn: AtomicUsize,
    /// Held while chains go from one page to others, for which there are nodes for one at a time.
    rehoming: Mutex<()>,
    /// Held while the addresses of a long chain are copied.
    copying: Mutex<()>,
}

impl Cache {
    /// An empty cache that leases from `memory` and gives back when asked. `seed` is for its hashes.
    pub(crate) fn new(memory: Arc<Memory>, seed: u64) -> Arc<Cache> {
        let (usual, few) = (memory.budget() / SHARD_BUDGET, (memory.budget() / LEAST_BUDGET).min(FEW));
        let count = usual.max(few).next_power_of_two().clamp(2, 256);
        let chains = DirtyMap::new((count / SHARDS_PER_PART).clamp(1, 16), memory.clone());
        let (chains, dirty_bytes, hungry) = (Arc::new(chains), Arc::default(), Arc::default());
        let heat = Arc::new(Heat::default());
        let common = Common { hasher: KeyHasher::new(seed), memory: memory.clone(), chains, dirty_bytes, heat, hungry };
        let shard = |number: usize| Mutex::new(Shard::new(number as u8, STRIPES / count, common.clone()));
        let shards = (0..count).map(shard).collect();
        Arc::new_cyclic(|weak: &Weak<Cache>| {
            let weak = weak.clone();
            let shrink = move |bytes| weak.upgrade().map_or(0, |cache| cache.shrink(bytes));
            let share = memory.join(Held::Components(COMPONENTS), Box::new(shrink));
            // Who comes first has it all until there is demand for another.
            share.count(1);
            Cache { shards, common, share, turn: AtomicUsize::new(0), rehoming: Mutex::default(), copying: Mutex::default() }
        })
    }

    /// The hash of a key.
    pub(crate) fn hash(&self, keyspace: u16, key: &[u8]) -> KeyHash {
        self.common.hasher.hash(keyspace, key)
    }

    fn shard(&self, hash: KeyHash) -> MutexGuard<'_, Shard> {
        self.shards[hash.shard(self.shards.len())].lock()
    }

    /// Counts a use, by which the memory is divided (decision 8).
    fn count(&self, shard: &mut Shard, requests: u32) {
        if let Some(requests) = shard.count_use(requests) {
            self.share.count(requests);
        }
    }

    /// The newest value of a key, or a ticket to look in its page. `take` copies the value, under the lock of its shard. A read
    /// raises the record's priority; what is read to be updated is left to the write that follows.
    pub(crate) fn get<T>(&self, keyspace: u16, key: &[u8], purpose: Purpose, take: impl FnOnce(&[u8]) -> T) -> Found<T> {
        let hash = self.hash(keyspace, key);
        let mut shard = self.shard(hash);
        self.count(&mut shard, READ);
        if let Some(cell) = shard.access(hash, keyspace, key, purpose) {
            return record::value(cell).map_or(Found::Tombstone, |value| Found::Value(take(value)));
        }
        Found::Missing(Ticket { hash, version: shard.version(hash) })
    }

    /// Takes in a record read from its page after the miss that gave the ticket. Never waits; evicts clean records only. False if
    /// it was overtaken by a write, is present, or has no room.
    pub(crate) fn admit_clean(&self, keyspace: u16, key: &[u8], value: &[u8], ticket: &Ticket) -> bool {
        let hash = ticket.hash;
        let mut shard = self.shard(hash);
        let stale = shard.version(hash) != ticket.version && !bug!(StaleAdmission);
        let cell = if stale || shard.find(hash, keyspace, key).is_some() {
            None
        } else {
            shard.cell_for(record::bytes_read(key.len(), value.len()))
        };
        match cell {
            Some(cell) => shard.admit(hash, cell, keyspace, key, value),
            None => shard.stats.refused += 1,
        }
        drop(shard);
        if self.common.hungry.load(Ordering::Relaxed) && self.common.hungry.swap(false, Ordering::Relaxed) {
            // Memory that comes free this way is there for the next records.
            self.share.reclaim(SLAB);
        }
        cell.is_some()
    }

    /// Takes a cell for a write, and whatever else [`apply`](Self::apply) will need, evicting clean records if need be. Gives a
    /// token.
    /// `None` if all that could go is dirty or reserved: wait for a write-out, then try again.
    pub(crate) fn reserve(&self, keyspace: u16, key: &[u8], value_len: usize) -> Option<u64> {
        assert!(key.len() + value_len <= MAX_RECORD, "limits are checked before a record comes to the cache");
        let hash = self.hash(keyspace, key);
        if !self.common.chains.credit(&|| self.find_block()) {
            return None;
        }
        let address = self.reserve_cell(hash, record::bytes_written(key.len(), value_len));
        if address.is_none() {
            self.common.chains.repay();
        }
        address.map(|address| u64::from(address.0))
    }

    /// A cell in the key's shard, with a slab from another cache or another shard if it has none to give. A shard without a table needs two.
    fn reserve_cell(&self, hash: KeyHash, bytes: usize) -> Option<Address> {
        for _ in 0..2 {
            let reserved = self.try_reserve(hash, bytes);
            if reserved.is_some() {
                return reserved;
            }
            let block = self.find_block()?;
            self.shard(hash).adopt(block);
        }
        self.try_reserve(hash, bytes)
    }

    fn try_reserve(&self, hash: KeyHash, bytes: usize) -> Option<Address> {
        let mut shard = self.shard(hash);
        let handle = shard.cell_for(bytes)?;
        Some(shard.address(handle))
    }

    fn token(&self, token: u64) -> (usize, Handle) {
        let address = Address(u32::try_from(token).expect("a token of this cache"));
        (address.shard(), address.handle())
    }

    /// Makes a write visible, in the cell that `token` stands for; no value deletes. Infallible. `page_of` gives the page of a
    /// key; it must
    /// not use the cache, and its answers must not change meanwhile (see [`rehome`](Self::rehome)).
    pub(crate) fn apply(
        &self,
        token: u64,
        keyspace: u16,
        key: &[u8],
        value: Option<&[u8]>,
        seq: Seq,
        page_of: &mut dyn FnMut(&[u8]) -> u32,
    ) {
        let hash = self.hash(keyspace, key);
        let (shard, reserved) = self.token(token);
        debug_assert_eq!(shard, hash.shard(self.shards.len()), "a token goes with the key that it was made for");
        let mut shard = self.shard(hash);
        self.count(&mut shard, WRITE);
        shard.apply(hash, reserved, Write { keyspace, key, value, seq }, page_of);
        drop(shard);
        self.common.chains.repay();
    }

    /// Replaces the content of a record that is dirty, if its cell has room for the new one: it stays where it is and chained as it was, so this needs
    /// neither a cell nor its page. False if it is not done.
    pub(crate) fn overwrite(&self, keyspace: u16, key: &[u8], value: Option<&[u8]>) -> bool {
        let hash = self.hash(keyspace, key);
        let mut shard = self.shard(hash);
        let done = shard.overwrite(hash, keyspace, key, value);
        if done {
            // What is not done here is counted when it is applied.
            self.count(&mut shard, WRITE);
        }
        done
    }

    /// A record that is written elsewhere, of a keyspace of which nothing is dirty here, is this from now on, or gone: it is replaced if it is here and its cell has
    /// room, and else it goes. Whoever has read it before cannot admit it any more.
    pub(crate) fn refresh(&self, keyspace: u16, key: &[u8], value: Option<&[u8]>) {
        let hash = self.hash(keyspace, key);
        self.shard(hash).refresh(hash, keyspace, key, value);
    }

    /// Gives a reserved cell back.
    pub(crate) fn cancel(&self, token: u64) {
        let (shard, reserved) = self.token(token);
        self.shards[shard].lock().release(reserved);
        self.common.chains.repay();
    }

    /// Bytes of cells that hold dirty or written records. Cheap.
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.common.dirty_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of cells that the cache can count on as the budget is used now. Adds up the use of all components: remember the answer where it is needed often.
    pub(crate) fn capacity_bytes(&self) -> usize {
        let beside = self.common.memory.used(&[Component::CacheTable, Component::DirtyChains]);
        self.share.fair_part().saturating_sub(beside)
    }

    /// Bytes that may be dirty: half of the capacity, and up to three quarters where what is written out has mostly been accessed again, so that it would be kept
    /// anyway. What is updated once must not push out what is read again and again.
    pub(crate) fn dirty_limit(&self) -> usize {
        let capacity = self.capacity_bytes();
        let hot = self.common.heat.part(capacity).min(heat::WHOLE / 2);
        capacity / 2 + capacity / 2 / heat::WHOLE * hot
    }

    /// Memory for a slab that another cache has and this one is due.
    fn due_block(&self) -> Option<Block> {
        self.share.reclaim(SLAB).then(|| self.common.memory.lease(Component::RecordCache, Size::Slab))?
    }

    /// A slab's memory that somebody can do without: another cache that is above its part, else a shard of this one.
    fn find_block(&self) -> Option<Block> {
        self.due_block().or_else(|| self.spare_block())
    }

    /// Takes one slab's memory from a shard that can give one.
    fn spare_block(&self) -> Option<Block> {
        (0..ASK.min(self.shards.len())).find_map(|_| self.next_shard().lock().take_slab())
    }

    fn next_shard(&self) -> &Mutex<Shard> {
        &self.shards[self.turn.fetch_add(1, Ordering::Relaxed) % self.shards.len()]
    }

    /// Gives whole slabs back to the budget, evicting clean records; gives the bytes. Does no I/O and waits for nothing.
    pub(crate) fn shrink(&self, bytes: usize) -> usize {
        gather(bytes, self.shards.len(), || self.next_shard().lock().take_slab().map_or(0, |block| block.len()))
    }

    /// Drops everything of a keyspace, dirty records too. Nobody may reserve or apply for it meanwhile. Who writes out
    /// ends the write, or gives back what he took and then has [the chains forgotten](Self::forget_chains). Who has read
    /// it before cannot admit it any more.
    pub(crate) fn forget_keyspace(&self, keyspace: u16) {
        self.shards.iter().for_each(|shard| shard.lock().forget_keyspace(keyspace));
        self.forget_chains(keyspace);
    }

    /// Frees the chains of a keyspace that was dropped, after what was being written of it was given back.
    pub(crate) fn forget_chains(&self, keyspace: u16) {
        self.common.chains.forget(keyspace);
    }

    /// What it counted, and its present size.
    pub(crate) fn counts(&self) -> CacheStats {
        let chains = CacheStats { bytes: self.common.chains.bytes(), ..CacheStats::default() };
        self.shards.iter().fold(chains, |mut sum, shard| {
            sum += shard.lock().stats();
            sum
        })
    }

    /// The same by name.
    pub(crate) fn stats(&self) -> Vec<(&'static str, u64)> {
        self.counts().named()
    }
}
