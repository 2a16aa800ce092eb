//! A part of the cache under one mutex: the records whose hashes share their upper bits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use ecotone_substrate::{history::History, memory::Memory};

use super::{
    Purpose, Space,
    clock::Hands,
    handle::{Address, Handle, Link},
    hash::{KeyHash, KeyHasher},
    heat::Heat,
    record::{self, Meta, Rank},
    slab::SLAB,
    slabs::Slabs,
    stats::CacheStats,
    table::Table,
};

/// Records a bucket at which the table grows, in tenths.
const LOAD: usize = 12;

/// Requests that uses of a shard stand for before they are told to the budget.
const TELL: u32 = 64;

/// What all shards share.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub(super) hasher: KeyHasher,
    pub(super) memory: Arc<Memory>,
    pub(super) dirty_bytes: Arc<AtomicUsize>,
    pub(super) heat: Arc<Heat>,
    /// The budget has refused memory since it was last asked to have other caches give back what this one is due.
    pub(super) hungry: Arc<AtomicBool>,
}

/// One write, as it is applied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write<'a> {
    pub(super) space: Space,
    pub(super) key: &'a [u8],
    pub(super) value: Option<&'a [u8]>,
}

/// One shard.
#[derive(Debug)]
pub(super) struct Shard {
    number: u8,
    pub(super) common: Common,
    pub(super) slabs: Slabs,
    pub(super) table: Table,
    pub(super) hands: Hands,
    pub(super) history: History,
    /// Clean records on probation.
    pub(super) on_probation: usize,
    /// By stripe of the hash: writes applied.
    stripes: Box<[u32]>,
    pub(super) stats: CacheStats,
    /// Requests to the disk that were saved, or would have been with more memory, and are not told yet.
    uses: u32,
    /// Requests of the table for memory that are left out after a refusal.
    pub(super) patience: u8,
}

impl Shard {
    pub(super) fn new(number: u8, stripes: usize, common: Common) -> Self {
        Shard {
            number,
            common,
            slabs: Slabs::default(),
            table: Table::default(),
            hands: Hands::default(),
            history: History::default(),
            on_probation: 0,
            stripes: vec![0; stripes].into(),
            stats: CacheStats::default(),
            uses: 0,
            patience: 0,
        }
    }

    /// Counts requests that a use stands for; gives how many there are to tell.
    pub(super) fn count_use(&mut self, requests: u32) -> Option<u64> {
        self.uses += requests;
        (self.uses >= TELL).then(|| u64::from(std::mem::take(&mut self.uses)))
    }

    /// How many writes the stripe of a key has seen.
    pub(super) fn version(&self, hash: KeyHash) -> u32 {
        self.stripes[hash.stripe(self.stripes.len())]
    }

    fn count_write(&mut self, hash: KeyHash) {
        let stripe = &mut self.stripes[hash.stripe(self.stripes.len())];
        *stripe = stripe.wrapping_add(1);
    }

    /// Makes all versions noted so far stale.
    pub(super) fn count_all(&mut self) {
        self.stripes.iter_mut().for_each(|stripe| *stripe = stripe.wrapping_add(1));
    }

    pub(super) fn address(&self, handle: Handle) -> Address {
        Address::new(self.number, handle)
    }

    /// The record of a key.
    #[inline]
    pub(super) fn find(&self, hash: KeyHash, keyspace: u16, key: &[u8]) -> Option<Handle> {
        let mut link = Link(self.table.get(self.table.bucket(hash.bucket())));
        while let Some(handle) = link.handle() {
            let cell = self.slabs.cell(handle);
            if link.tag() == hash.tag() && record::holds(cell, keyspace, key) {
                return Some(handle);
            }
            link = record::next(cell);
        }
        None
    }

    /// The cell of a key, counted as an access.
    #[inline]
    pub(super) fn access(&mut self, hash: KeyHash, keyspace: u16, key: &[u8], purpose: Purpose) -> Option<&[u8]> {
        let Some(handle) = self.find(hash, keyspace, key) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        let cell = self.slabs.cell_mut(handle);
        let meta = record::meta(cell);
        self.stats.hits_on_tombstones += u64::from(meta.tombstone());
        self.stats.hits_on_dirty += u64::from(meta.dirty());
        if purpose == Purpose::Read && meta.promoted() != meta {
            record::set_meta(cell, meta.promoted());
        }
        Some(cell)
    }

    /// Changes the state of a cell and everything that counts it.
    pub(super) fn set_meta(&mut self, handle: Handle, meta: Meta) {
        let slab = self.slabs.slab_mut(handle.slab()).expect("a handle in use has its slab");
        let before = record::meta(slab.cell(handle.slot()));
        slab.set_meta(handle.slot(), meta);
        self.recount(before, meta);
    }

    /// Counts a record whose state changed, [`Meta::NONE`] if it comes or goes.
    fn recount(&mut self, before: Meta, meta: Meta) {
        let probation = |meta: Meta| usize::from(meta.is_clean() && meta.on_probation());
        self.on_probation = self.on_probation + probation(meta) - probation(before);
        self.stats.dirty_records =
            self.stats.dirty_records + usize::from(meta.unwritten()) - usize::from(before.unwritten());
        let dirty = |meta: Meta| if meta.unwritten() { meta.cell() } else { 0 };
        match (dirty(before), dirty(meta)) {
            (before, now) if before < now => self.common.dirty_bytes.fetch_add(now - before, Ordering::Relaxed),
            (before, now) if before > now => self.common.dirty_bytes.fetch_sub(before - now, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// Records that could be evicted.
    pub(super) fn clean(&self) -> usize {
        self.stats.records - self.stats.dirty_records
    }

    /// Frees a cell that no record of the table links.
    pub(super) fn release(&mut self, handle: Handle) {
        self.recount(self.slabs.meta(handle), Meta::NONE);
        self.slabs.give(handle);
    }

    pub(super) fn hash_of(&self, handle: Handle) -> KeyHash {
        let cell = self.slabs.cell(handle);
        self.common.hasher.hash(record::keyspace(cell), record::key(cell))
    }

    /// Drops a record and frees its cell.
    pub(super) fn remove(&mut self, handle: Handle) {
        let hash = self.hash_of(handle);
        let next = record::next(self.slabs.cell(handle));
        self.redirect(hash, handle, next);
        self.stats.records -= 1;
        self.release(handle);
    }

    /// Lets whatever links to `from` link to `to`.
    pub(super) fn redirect(&mut self, hash: KeyHash, from: Handle, to: Link) {
        let bucket = self.table.bucket(hash.bucket());
        let mut link = Link(self.table.get(bucket));
        if link.handle() == Some(from) {
            return self.table.set(bucket, to.0);
        }
        while let Some(handle) = link.handle() {
            let cell = self.slabs.cell_mut(handle);
            link = record::next(cell);
            if link.handle() == Some(from) {
                return record::set_next(cell, to);
            }
        }
        unreachable!("a record is in the chain of its bucket");
    }

    /// Links a new record in.
    pub(super) fn link(&mut self, hash: KeyHash, handle: Handle) {
        self.stats.records += 1;
        self.grow_table();
        self.hook(hash, handle);
    }

    fn hook(&mut self, hash: KeyHash, handle: Handle) {
        let bucket = self.table.bucket(hash.bucket());
        record::set_next(self.slabs.cell_mut(handle), Link(self.table.get(bucket)));
        self.table.set(bucket, Link::new(hash.tag(), handle).0);
    }

    /// One bucket more if the chains have become long and memory allows.
    fn grow_table(&mut self) {
        if !self.table.is_loaded(self.stats.records, LOAD) || !self.table_has_room() {
            return;
        }
        let split = self.table.grow();
        let mut link = Link(self.table.get(split));
        self.table.set(split, Link::NONE.0);
        while let Some(handle) = link.handle() {
            link = record::next(self.slabs.cell(handle));
            self.hook(self.hash_of(handle), handle);
        }
    }

    /// Makes a record dirty, in the cell that was reserved for it or in place. Where it is, and what it was.
    pub(super) fn apply(
        &mut self,
        hash: KeyHash,
        reserved: Handle,
        Write { space, key, value }: Write<'_>,
    ) -> (Address, Meta) {
        assert!(self.slabs.meta(reserved).reserved(), "a write is applied to a cell that was not reserved for it");
        self.count_write(hash);
        let old = self.find(hash, space.number, key);
        let before = old.map_or(Meta::NONE, |old| self.slabs.meta(old));
        let handle = self.settle(hash, reserved, old);
        let rank = if old.is_some() { before.promoted().rank() } else { self.rank_of_new(hash) };
        record::fill(self.slabs.cell_mut(handle), space.number, key, value.unwrap_or_default());
        self.set_meta(handle, Meta::of_written(key, value, rank, space.logged));
        (self.address(handle), before)
    }

    /// Replaces the content of a dirty record in place, if its cell has room for the new one.
    pub(super) fn overwrite(&mut self, hash: KeyHash, Write { space, key, value }: Write<'_>) -> bool {
        let Some(handle) = self.find(hash, space.number, key) else { return false };
        let before = self.slabs.meta(handle);
        let meta = Meta::of_written(key, value, before.promoted().rank(), space.logged);
        if !before.dirty() || meta.cell() > before.cell() {
            return false;
        }
        record::fill(self.slabs.cell_mut(handle), space.number, key, value.unwrap_or_default());
        self.set_meta(handle, meta);
        self.count_write(hash);
        true
    }

    /// Has a clean record replaced by its new value, if its cell has room for that, or go.
    pub(super) fn refresh(&mut self, hash: KeyHash, keyspace: u16, key: &[u8], value: Option<&[u8]>) {
        self.count_write(hash);
        let Some(handle) = self.find(hash, keyspace, key) else { return };
        let before = self.slabs.meta(handle);
        assert!(before.is_clean(), "what is dirty is newer");
        let after = value.map(|value| (value, Meta::of_read(key, value, before.rank())));
        match after.filter(|(_, meta)| meta.cell() <= before.cell()) {
            Some((value, meta)) => {
                record::fill(self.slabs.cell_mut(handle), keyspace, key, value);
                self.set_meta(handle, meta);
            }
            None => self.remove(handle),
        }
    }

    /// How long a record may stay that was not here: an access before, though it was a miss, counts.
    fn rank_of_new(&mut self, hash: KeyHash) -> Rank {
        if self.history.note(hash.bucket(), hash.long_tag()) { Rank::KNOWN } else { Rank::NEWCOMER }
    }

    /// Decides between the old cell and the reserved one, frees the other, and has the table link the one that stays.
    fn settle(&mut self, hash: KeyHash, reserved: Handle, old: Option<Handle>) -> Handle {
        let Some(old) = old else {
            self.link(hash, reserved);
            return reserved;
        };
        if self.slabs.meta(old).cell() >= self.slabs.meta(reserved).cell() {
            self.release(reserved);
            return old;
        }
        let next = record::next(self.slabs.cell(old));
        record::set_next(self.slabs.cell_mut(reserved), next);
        self.redirect(hash, old, Link::new(hash.tag(), reserved));
        self.release(old);
        reserved
    }

    /// Takes in a record that was just read from its page. Its cell is free and its key absent.
    pub(super) fn admit(&mut self, hash: KeyHash, handle: Handle, keyspace: u16, key: &[u8], value: &[u8]) {
        let meta = Meta::of_read(key, value, self.rank_of_new(hash));
        record::fill(self.slabs.cell_mut(handle), keyspace, key, value);
        self.set_meta(handle, meta);
        self.link(hash, handle);
        self.stats.admitted += 1;
    }

    /// Drops all clean records of a keyspace.
    pub(super) fn forget_keyspace(&mut self, keyspace: u16) {
        for number in 0..self.slabs.bound() {
            for handle in self.slabs.handles(number).collect::<Vec<_>>() {
                if self.slabs.meta(handle).is_clean() && record::keyspace(self.slabs.cell(handle)) == keyspace {
                    self.remove(handle);
                }
            }
        }
        self.count_all();
    }

    /// What it counted, and its present size.
    pub(super) fn stats(&self) -> CacheStats {
        let bytes = self.slabs.count() * SLAB + self.table.bytes() + self.history.bytes();
        CacheStats { bytes, ..self.stats }
    }
}
