//! The record cache: the records of all tree keyspaces that are in memory, dirty ones among them (mechanisms T1, T3 and
//! the cache's part of T4).
//!
//! It knows neither the log nor what is in a page. Layout and protocol are in `docs/decisions/0003-record-cache.md`;
//! start at [`shard`], then [`room`] (where memory comes from), [`dirty_index`] and [`write_out`].

mod clock;
mod dirty_index;
mod handle;
mod hash;
mod heat;
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
    dirty_index::{Cells, Change, DirtyIndex, Key},
    handle::{Address, Handle},
    hash::KeyHasher,
    heat::Heat,
    shard::{Common, Shard, Write},
    slab::SLAB,
};
pub(crate) use self::{
    hash::KeyHash,
    stats::CacheStats,
    write_out::{Nearest, Stretch},
};

/// Budget that one shard serves, in bytes, and the least for which there are as many as [`FEW`], so that threads seldom
/// meet.
const SHARD_BUDGET: usize = 16 << 20;
const LEAST_BUDGET: usize = 4 << 20;
const FEW: usize = 4;
/// Windows that the longest log takes, nearly.
const WINDOWS: u64 = 64;
/// Counters of writes in the whole cache.
const STRIPES: usize = 1 << 14;
/// Shards that are asked for a slab when one has nothing left.
const ASK: usize = 8;
/// Requests to the disk that a record may save: when it is read, its page; when it is written, reading and writing its
/// page.
const READ: u32 = 1;
const WRITE: u32 = 2;
/// What the cache leases.
const COMPONENTS: &[Component] = &[Component::RecordCache, Component::CacheTable, Component::DirtyIndex];

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

/// A write that is in the log; no value deletes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Applied<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) seq: Seq,
}

/// A keyspace, as the cache knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    /// Its number within the caches.
    pub(crate) number: u16,
    /// Whether the log has what is written to it.
    pub(crate) logged: bool,
}

/// The record cache of a database.
#[derive(Debug)]
pub(crate) struct Cache {
    shards: Box<[Mutex<Shard>]>,
    common: Common,
    /// What is not in its page: of keyspaces that are logged, whose records let the log go on, and of the others.
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
    /// An empty cache that leases from `memory` and gives back when asked. `seed` is for its hashes. The log has so
    /// many bytes at most.
    pub(crate) fn new(memory: Arc<Memory>, seed: u64, log_bytes: u64) -> Arc<Cache> {
        let (usual, few) = (memory.budget() / SHARD_BUDGET, (memory.budget() / LEAST_BUDGET).min(FEW));
        let count = usual.max(few).next_power_of_two().clamp(2, 256);
        let (dirty_bytes, hungry, heat) = (Arc::default(), Arc::default(), Arc::new(Heat::default()));
        let common = Common { hasher: KeyHasher::new(seed), memory: memory.clone(), dirty_bytes, heat, hungry };
        let shard = |number: usize| Mutex::new(Shard::new(number as u8, STRIPES / count, common.clone()));
        let shards = (0..count).map(shard).collect();
        Arc::new_cyclic(|weak: &Weak<Cache>| {
            let weak = weak.clone();
            let shrink = move |bytes| weak.upgrade().map_or(0, |cache| cache.shrink(bytes));
            let share = memory.join(Held::Components(COMPONENTS), Box::new(shrink));
            // Who comes first has it all until there is demand for another.
            share.count(1);
            // Sequences of keyspaces that are not logged are of no use.
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

    /// Counts a use, by which the memory is divided (decision 8).
    fn count(&self, shard: &mut Shard, requests: u32) {
        if let Some(requests) = shard.count_use(requests) {
            self.share.count(requests);
        }
    }

    /// The newest value of a key, or a ticket to look in its page. `take` copies the value, under the lock of its
    /// shard. A read raises the record's priority; what is read to be updated is left to the write that follows.
    pub(crate) fn get<T>(
        &self,
        keyspace: u16,
        key: &[u8],
        purpose: Purpose,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Found<T> {
        let hash = self.hash(keyspace, key);
        let mut shard = self.shard(hash);
        self.count(&mut shard, READ);
        if let Some(cell) = shard.access(hash, keyspace, key, purpose) {
            return record::value(cell).map_or(Found::Tombstone, |value| Found::Value(take(value)));
        }
        Found::Missing(Ticket { hash, version: shard.version(hash) })
    }

    /// Takes in a record read from its page after the miss that gave the ticket. Never waits; evicts clean records
    /// only. False if it was overtaken by a write, is present, or has no room.
    pub(crate) fn admit_clean(&self, keyspace: u16, key: &[u8], value: &[u8], ticket: &Ticket) -> bool {
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
            // Memory that comes free this way is there for the next records.
            self.share.reclaim(SLAB);
        }
        cell.is_some()
    }

    /// Takes a cell for a write, and whatever else [`apply`](Self::apply) will need, evicting clean records if need be.
    /// Gives a token. `None` if all that could go is dirty or reserved: wait for a write-out, then try again.
    pub(crate) fn reserve(&self, space: Space, key: &[u8], value_len: usize) -> Option<u64> {
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

    /// A cell in the key's shard, with a slab from another cache or another shard if it has none to give. A shard
    /// without a table needs two.
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

    /// A cell in the key's shard, and whether its table is much too small.
    fn try_reserve(&self, hash: KeyHash, bytes: usize) -> (Option<Address>, bool) {
        let mut shard = self.shard(hash);
        let reserved = shard.cell_for(bytes).map(|handle| shard.address(handle));
        (reserved, shard.is_overloaded())
    }

    fn token(&self, token: u64) -> (usize, Handle) {
        let address = Address(u32::try_from(token).expect("a token of this cache"));
        (address.shard(), address.handle())
    }

    /// Makes a write visible, in the cell that `token` stands for, unless its keyspace was dropped. Infallible.
    pub(crate) fn apply(
        &self,
        token: u64,
        space: Space,
        Applied { key, value, seq }: Applied<'_>,
        is_dropped: &dyn Fn() -> bool,
    ) {
        let (hash, index) = (self.hash(space.number, key), self.index(space.logged));
        let (shard, reserved) = self.token(token);
        debug_assert_eq!(shard, hash.shard(self.shards.len()), "a token goes with the key that it was made for");
        let write = Write { space, key, value };
        // Of a keyspace that is not logged a single write has just tried to overwrite.
        if !(space.logged && self.overwrite_in_place(hash, write, Some(reserved))) {
            index.change(Key { keyspace: space.number, bytes: key }, self, |_| {
                let mut shard = self.shard(hash);
                self.count(&mut shard, WRITE);
                if is_dropped() {
                    // Whoever drops it comes to this leaf behind that, or has been there.
                    shard.release(reserved);
                    return Change::Nothing;
                }
                let (address, before) = shard.apply(hash, reserved, write);
                if before.dirty() { Change::Moved(address) } else { Change::Dirty(address, seq) }
            });
        }
        index.leave();
    }

    /// Replaces the content of a record that is dirty, if its cell has room for the new one: it stays where it is, and
    /// so does its entry. False if it is not done.
    pub(crate) fn overwrite(&self, space: Space, key: &[u8], value: Option<&[u8]>) -> bool {
        self.overwrite_in_place(self.hash(space.number, key), Write { space, key, value }, None)
    }

    /// The same, which needs no reserved cell then. What is not done here is counted when it is applied.
    fn overwrite_in_place(&self, hash: KeyHash, write: Write<'_>, reserved: Option<Handle>) -> bool {
        let mut shard = self.shard(hash);
        let done = shard.overwrite(hash, write);
        if done {
            self.count(&mut shard, WRITE);
            reserved.into_iter().for_each(|reserved| shard.release(reserved));
        }
        done
    }

    /// A record that is written elsewhere, of a keyspace of which nothing is dirty here, is this from now on, or gone:
    /// it is replaced if it is here and its cell has room, and else it goes. Whoever has read it before cannot admit it
    /// any more.
    pub(crate) fn refresh(&self, keyspace: u16, key: &[u8], value: Option<&[u8]>) {
        let hash = self.hash(keyspace, key);
        self.shard(hash).refresh(hash, keyspace, key, value);
    }

    /// Gives a reserved cell back.
    pub(crate) fn cancel(&self, token: u64, space: Space) {
        let (shard, reserved) = self.token(token);
        self.shards[shard].lock().release(reserved);
        self.index(space.logged).leave();
    }

    /// Bytes of cells that hold dirty or written records. Cheap.
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.common.dirty_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of cells that the cache can count on as the budget is used now. Adds up the use of all components:
    /// remember the answer where it is needed often.
    pub(crate) fn capacity_bytes(&self) -> usize {
        let beside = self.common.memory.used(&[Component::CacheTable, Component::DirtyIndex]);
        self.share.fair_part().saturating_sub(beside)
    }

    /// Bytes that may be dirty: half of the capacity, and up to three quarters where what is written out has mostly
    /// been accessed again, so that it would be kept anyway. What is updated once must not push out what is read again
    /// and again.
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
        (0..ASK.min(self.shards.len())).find_map(|_| self.take_slab(self.next_shard()))
    }

    fn next_shard(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) % self.shards.len()
    }

    /// Gives whole slabs back to the budget, evicting clean records; gives the bytes. Does no I/O and waits for
    /// nothing.
    pub(crate) fn shrink(&self, bytes: usize) -> usize {
        gather(bytes, self.shards.len(), || self.take_slab(self.next_shard()).map_or(0, |block| block.len()))
    }

    /// Drops everything of a keyspace, dirty records too. Nobody may reserve or apply for it meanwhile; who writes out
    /// finds nothing in the end. Who has read it before cannot admit it any more.
    pub(crate) fn forget_keyspace(&self, space: Space) {
        self.forget_dirty(space);
        self.shards.iter().for_each(|shard| shard.lock().forget_keyspace(space.number));
    }

    /// What it counted, and its present size.
    pub(crate) fn counts(&self) -> CacheStats {
        let bytes = self.indexes.iter().map(DirtyIndex::bytes).sum();
        self.shards.iter().fold(CacheStats { bytes, ..CacheStats::default() }, |mut sum, shard| {
            sum += shard.lock().stats();
            sum
        })
    }

    /// The same by name.
    pub(crate) fn stats(&self) -> Vec<(&'static str, u64)> {
        self.counts().named()
    }
}
