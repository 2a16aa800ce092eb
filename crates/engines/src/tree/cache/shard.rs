//! A part of the cache under one mutex: the records whose hashes share their upper bits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use ecotone_substrate::{Seq, history::History, memory::Memory};

use super::{
    Purpose,
    class::Class,
    clock::Hands,
    dirty::{DirtyMap, Entry},
    handle::{Address, Handle, Link},
    hash::{KeyHash, KeyHasher},
    heat::Heat,
    record::{self, Meta, Rank},
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
    pub(super) chains: Arc<DirtyMap>,
    pub(super) dirty_bytes: Arc<AtomicUsize>,
    pub(super) heat: Arc<Heat>,
    /// The budget has refused memory since it was last asked to have other caches give back what this one is due.
    pub(super) hungry: Arc<AtomicBool>,
}

/// One write, as it is applied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write<'a> {
    pub(super) keyspace: u16,
    pub(super) key: &'a [u8],
    pub(super) value: Option<&'a [u8]>,
    pub(super) seq: Seq,
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
    /// Requests for a slab left out after a refusal.
    pub(super) patience: u8,
}

impl Shard {
    pub(super) fn new(number: u8, stripes: usize, common: Common) -> Self {
        Shard {
            number,
            common,
            slabs: Slabs::new(),
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
            let slot = self.slabs.slot(handle);
            if link.tag() == hash.tag() && record::holds(slot, keyspace, key) {
                return Some(handle);
            }
            link = record::next(slot);
        }
        None
    }

    /// The slot of a key, counted as an access.
    #[inline]
    pub(super) fn access(&mut self, hash: KeyHash, keyspace: u16, key: &[u8], purpose: Purpose) -> Option<&[u8]> {
        let Some(handle) = self.find(hash, keyspace, key) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        let slot = self.slabs.slot_mut(handle);
        let meta = record::meta(slot);
        self.stats.hits_on_tombstones += u64::from(meta.tombstone());
        self.stats.hits_on_dirty += u64::from(meta.dirty());
        if purpose == Purpose::Read && meta.promoted() != meta {
            record::set_meta(slot, meta.promoted());
        }
        Some(slot)
    }

    /// Changes the state of a slot and everything that counts it.
    pub(super) fn set_meta(&mut self, handle: Handle, meta: Meta) {
        let slab = self.slabs.slab_mut(handle.slab()).expect("a handle in use has its slab");
        let bytes = slab.class().bytes();
        let before = record::meta(slab.slot(handle.slot()));
        slab.set_meta(handle.slot(), meta);
        let counts = |meta: Meta| usize::from(meta.is_clean() && meta.on_probation());
        self.on_probation = self.on_probation + counts(meta) - counts(before);
        if meta.chained() && !before.chained() {
            self.stats.dirty_records += 1;
            self.common.dirty_bytes.fetch_add(bytes, Ordering::Relaxed);
        } else if before.chained() && !meta.chained() {
            self.stats.dirty_records -= 1;
            self.common.dirty_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Records that could be evicted.
    pub(super) fn clean(&self) -> usize {
        self.stats.records - self.stats.dirty_records
    }

    /// Frees a slot that no chain links.
    pub(super) fn release(&mut self, handle: Handle) {
        self.set_meta(handle, Meta::FREE);
        self.slabs.give(handle);
    }

    pub(super) fn hash_of(&self, handle: Handle) -> KeyHash {
        let slot = self.slabs.slot(handle);
        self.common.hasher.hash(record::keyspace(slot), record::key(slot))
    }

    /// Drops a record and frees its slot.
    pub(super) fn remove(&mut self, handle: Handle) {
        self.unlink(handle);
        self.slabs.give(handle);
    }

    /// Drops a record; its slot holds nothing then.
    pub(super) fn unlink(&mut self, handle: Handle) {
        let hash = self.hash_of(handle);
        let next = record::next(self.slabs.slot(handle));
        self.redirect(hash, handle, next);
        self.stats.records -= 1;
        self.set_meta(handle, Meta::FREE);
    }

    /// Lets whatever links to `from` link to `to`.
    pub(super) fn redirect(&mut self, hash: KeyHash, from: Handle, to: Link) {
        let bucket = self.table.bucket(hash.bucket());
        let mut link = Link(self.table.get(bucket));
        if link.handle() == Some(from) {
            return self.table.set(bucket, to.0);
        }
        while let Some(handle) = link.handle() {
            let slot = self.slabs.slot_mut(handle);
            link = record::next(slot);
            if link.handle() == Some(from) {
                return record::set_next(slot, to);
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
        record::set_next(self.slabs.slot_mut(handle), Link(self.table.get(bucket)));
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
            link = record::next(self.slabs.slot(handle));
            self.hook(self.hash_of(handle), handle);
        }
    }

    /// Applies a write to the slot that was reserved for it, or in place.
    pub(super) fn apply(&mut self, hash: KeyHash, reserved: Handle, write: Write<'_>, page_of: &mut dyn FnMut(&[u8]) -> u32) {
        assert!(self.slabs.meta(reserved).reserved(), "a write is applied to a slot that was not reserved for it");
        self.count_write(hash);
        let old = self.find(hash, write.keyspace, write.key);
        let before = old.map_or(Meta::FREE, |old| self.slabs.meta(old));
        let entry = old.map(|old| record::entry(self.slabs.slot(old)));
        let handle = self.settle(hash, reserved, old);
        let entry = match entry {
            Some(entry) if before.dirty() => self.keep_entry(entry, old != Some(handle), handle),
            _ => self.chain(write, handle, before.writing(), page_of),
        };
        let rank = if old.is_some() { before.promoted().rank() } else { self.rank_of_new(hash) };
        let meta = Meta::of_written(write.key, write.value, rank);
        let slot = self.slabs.slot_mut(handle);
        record::fill(slot, meta, write.keyspace, write.key, write.value.unwrap_or_default());
        record::set_entry(slot, entry);
        self.set_meta(handle, meta);
    }

    /// Replaces the content of a dirty record in place, if its slot has the size for the new one.
    pub(super) fn overwrite(&mut self, hash: KeyHash, keyspace: u16, key: &[u8], value: Option<&[u8]>) -> bool {
        let Some(handle) = self.find(hash, keyspace, key) else { return false };
        let class = Class::of(record::bytes_written(key.len(), value.map_or(0, <[u8]>::len)));
        let slot = self.slabs.slot_mut(handle);
        let before = record::meta(slot);
        if !before.dirty() || class.bytes() != slot.len() {
            return false;
        }
        let meta = Meta::of_written(key, value, before.promoted().rank());
        record::fill(slot, meta, keyspace, key, value.unwrap_or_default());
        // It is dirty as before, so nothing that is counted changes.
        record::set_meta(slot, meta);
        self.count_write(hash);
        true
    }

    /// Has a clean record replaced by its new value, if its slot has the size for that, or go.
    pub(super) fn refresh(&mut self, hash: KeyHash, keyspace: u16, key: &[u8], value: Option<&[u8]>) {
        self.count_write(hash);
        let Some(handle) = self.find(hash, keyspace, key) else { return };
        let slot = self.slabs.slot_mut(handle);
        let before = record::meta(slot);
        assert!(before.is_clean(), "what is dirty is newer");
        let fits = |value: &&[u8]| Class::of(record::bytes_read(key.len(), value.len())).bytes() == slot.len();
        match value.filter(fits) {
            Some(value) => {
                let meta = Meta::of_read(key, value, before.rank());
                record::fill(slot, meta, keyspace, key, value);
                // It is clean as before, and on probation if it was, so nothing that is counted changes.
                record::set_meta(slot, meta);
            }
            None => self.remove(handle),
        }
    }

    /// How long a record may stay that was not here: an access before, though it was a miss, counts.
    fn rank_of_new(&mut self, hash: KeyHash) -> Rank {
        if self.history.note(hash.bucket(), hash.long_tag()) { Rank::KNOWN } else { Rank::NEWCOMER }
    }

    /// Decides between the old slot and the reserved one, frees the other, and has the table link the one that stays.
    fn settle(&mut self, hash: KeyHash, reserved: Handle, old: Option<Handle>) -> Handle {
        let Some(old) = old else {
            self.link(hash, reserved);
            return reserved;
        };
        if self.slabs.slot(old).len() == self.slabs.slot(reserved).len() {
            self.release(reserved);
            return old;
        }
        let next = record::next(self.slabs.slot(old));
        record::set_next(self.slabs.slot_mut(reserved), next);
        self.redirect(hash, old, Link::new(hash.tag(), reserved));
        self.release(old);
        reserved
    }

    fn keep_entry(&self, entry: u32, moved: bool, handle: Handle) -> u32 {
        if moved {
            self.common.chains.moved(Entry(entry), self.address(handle));
        }
        entry
    }

    fn chain(&self, write: Write<'_>, handle: Handle, rewritten: bool, page_of: &mut dyn FnMut(&[u8]) -> u32) -> u32 {
        let page = page_of(write.key);
        self.common.chains.push(write.keyspace, page, self.address(handle), write.seq, rewritten).0
    }

    /// Takes in a record that was just read from its page. Its slot is free and its key absent.
    pub(super) fn admit(&mut self, hash: KeyHash, handle: Handle, keyspace: u16, key: &[u8], value: &[u8]) {
        let meta = Meta::of_read(key, value, self.rank_of_new(hash));
        record::fill(self.slabs.slot_mut(handle), meta, keyspace, key, value);
        self.set_meta(handle, meta);
        self.link(hash, handle);
        self.stats.admitted += 1;
    }

    /// Drops all records of a keyspace, whatever their state.
    pub(super) fn forget_keyspace(&mut self, keyspace: u16) {
        for number in 0..self.slabs.bound() {
            for slot in 0..self.slabs.slab(number).map_or(0, |slab| slab.fresh()) {
                let handle = Handle::new(number, slot);
                if self.slabs.meta(handle).live() && record::keyspace(self.slabs.slot(handle)) == keyspace {
                    self.remove(handle);
                }
            }
        }
        self.count_all();
    }

    /// What it counted, and its present size.
    pub(super) fn stats(&self) -> CacheStats {
        let bytes = self.slabs.count() * super::class::SLAB + self.table.bytes() + self.history.bytes();
        CacheStats { bytes, ..self.stats }
    }
}
