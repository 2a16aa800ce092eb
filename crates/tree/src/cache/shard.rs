//! A shard of the cache under one mutex: the records whose hashes share their upper bits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use ecotone_substrate::{bug, ghost_list::GhostList, memory::Memory};

use super::{
    handle::{Address, Link, SlotHandle},
    hands::Hands,
    hash::{KeyHash, KeyHasher},
    reaccess::ReaccessStats,
    record::{self, CachePriority, Meta},
    request::{Applied, CacheKeyspace, Purpose},
    slab::SLAB,
    slabs::Slabs,
    stats::CacheStats,
    table::Table,
};

/// Records a bucket, in tenths, at which the table grows.
const LOAD: usize = 12;

/// Requests to count locally before they are reported to the budget.
const TELL: u32 = 64;

/// State that all shards share.
#[derive(Debug, Clone)]
pub(super) struct ShardContext {
    pub(super) hasher: KeyHasher,
    pub(super) memory: Arc<Memory>,
    pub(super) dirty_bytes: Arc<AtomicUsize>,
    pub(super) heat: Arc<ReaccessStats>,
    /// Set after the budget refused memory, until it is asked to make other caches give back what is due to this one.
    pub(super) hungry: Arc<AtomicBool>,
}

/// One write to apply.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write<'a> {
    pub(super) space: CacheKeyspace,
    pub(super) applied: Applied<'a>,
}

/// One shard.
#[derive(Debug)]
pub(super) struct Shard {
    number: u8,
    pub(super) common: ShardContext,
    pub(super) slabs: Slabs,
    pub(super) table: Table,
    pub(super) hands: Hands,
    pub(super) history: GhostList,
    /// Clean records on probation.
    pub(super) on_probation: usize,
    /// Writes applied, by stripe of the hash.
    stripes: Box<[u32]>,
    pub(super) stats: CacheStats,
    /// Disk requests that were saved, or would have been with more memory, and are not reported yet.
    uses: u32,
    /// Requests for table memory to skip after a refusal.
    pub(super) skips_left: u8,
}

impl Shard {
    pub(super) fn new(number: u8, stripes: usize, common: ShardContext) -> Self {
        Shard {
            number,
            common,
            slabs: Slabs::default(),
            table: Table::default(),
            hands: Hands::default(),
            history: GhostList::default(),
            on_probation: 0,
            stripes: vec![0; stripes].into(),
            stats: CacheStats::default(),
            uses: 0,
            skips_left: 0,
        }
    }

    /// Counts the requests of a use; returns how many to report.
    pub(super) fn count_use(&mut self, requests: u32) -> Option<u64> {
        self.uses += requests;
        (self.uses >= TELL).then(|| u64::from(std::mem::take(&mut self.uses)))
    }

    /// The write counter of a key's stripe.
    pub(super) fn version(&self, hash: KeyHash) -> u32 {
        self.stripes[hash.stripe(self.stripes.len())]
    }

    fn count_write(&mut self, hash: KeyHash) {
        let stripe = &mut self.stripes[hash.stripe(self.stripes.len())];
        *stripe = stripe.wrapping_add(1);
    }

    /// Invalidates all tickets taken so far.
    pub(super) fn count_all(&mut self) {
        self.stripes.iter_mut().for_each(|stripe| *stripe = stripe.wrapping_add(1));
    }

    pub(super) fn address(&self, handle: SlotHandle) -> Address {
        Address::new(self.number, handle)
    }

    /// The record of a key.
    #[inline]
    pub(super) fn find(&self, hash: KeyHash, keyspace: u16, key: &[u8]) -> Option<SlotHandle> {
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

    /// The cell of a key; counts an access.
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

    /// Changes the state of a cell and updates all counters.
    pub(super) fn set_meta(&mut self, handle: SlotHandle, meta: Meta) {
        let slab = self.slabs.slab_mut(handle.slab()).expect("a handle in use has its slab");
        let before = record::meta(slab.cell(handle.slot()));
        slab.set_meta(handle.slot(), meta);
        self.recount(before, meta);
    }

    /// Updates the counters for a changed state; [`Meta::NONE`] stands for a record that is added or removed.
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

    /// Records that may be evicted.
    pub(super) fn clean(&self) -> usize {
        self.stats.records - self.stats.dirty_records
    }

    /// Frees a cell that is not linked in the table.
    pub(super) fn release(&mut self, handle: SlotHandle) {
        self.recount(self.slabs.meta(handle), Meta::NONE);
        self.slabs.give(handle);
    }

    pub(super) fn hash_of(&self, handle: SlotHandle) -> KeyHash {
        let cell = self.slabs.cell(handle);
        self.common.hasher.hash(record::keyspace(cell), record::key(cell))
    }

    /// Drops a record and frees its cell.
    pub(super) fn remove(&mut self, handle: SlotHandle) {
        let hash = self.hash_of(handle);
        let next = record::next(self.slabs.cell(handle));
        self.redirect(hash, handle, next);
        self.stats.records -= 1;
        self.release(handle);
    }

    /// Redirects the link to `from` to `to`.
    pub(super) fn redirect(&mut self, hash: KeyHash, from: SlotHandle, to: Link) {
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
    pub(super) fn link(&mut self, hash: KeyHash, handle: SlotHandle) {
        self.stats.records += 1;
        self.grow_table();
        self.hook(hash, handle);
    }

    fn hook(&mut self, hash: KeyHash, handle: SlotHandle) {
        let bucket = self.table.bucket(hash.bucket());
        record::set_next(self.slabs.cell_mut(handle), Link(self.table.get(bucket)));
        self.table.set(bucket, Link::new(hash.tag(), handle).0);
    }

    /// Adds one bucket if the chains are long and memory allows.
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

    /// Makes a record dirty, in its reserved cell or in place. Returns its address and its former state.
    pub(super) fn apply(&mut self, hash: KeyHash, reserved: SlotHandle, write: Write<'_>) -> (Address, Meta) {
        let Write { space, applied: Applied { key, value, .. } } = write;
        assert!(self.slabs.meta(reserved).reserved(), "a write is applied to a cell that was not reserved for it");
        self.count_write(hash);
        let old = self.find(hash, space.number, key);
        let before = old.map_or(Meta::NONE, |old| self.slabs.meta(old));
        old.into_iter().for_each(|old| self.report(old, &write.applied));
        let handle = self.settle(hash, reserved, old);
        let rank = if old.is_some() { before.promoted().rank() } else { self.rank_of_new(hash) };
        record::fill(self.slabs.cell_mut(handle), space.number, key, value.unwrap_or_default());
        self.set_meta(handle, Meta::of_written(key, value, rank, space.logged).over(before));
        (self.address(handle), before)
    }

    /// Replaces the content of a dirty record in place, if its cell is large enough.
    pub(super) fn overwrite(&mut self, hash: KeyHash, write: Write<'_>) -> bool {
        let Write { space, applied: Applied { key, value, .. } } = write;
        let Some(handle) = self.find(hash, space.number, key) else { return false };
        let before = self.slabs.meta(handle);
        let meta = Meta::of_written(key, value, before.promoted().rank(), space.logged).over(before);
        if !before.dirty() || meta.cell() > before.cell() {
            return false;
        }
        self.report(handle, &write.applied);
        record::fill(self.slabs.cell_mut(handle), space.number, key, value.unwrap_or_default());
        self.set_meta(handle, meta);
        self.count_write(hash);
        true
    }

    /// Reports a version that a write replaces, unless it is in the page too. If a write-out has taken it, the page may
    /// get it, but then this record says that it was reported (superseded.md, invariant 4).
    #[inline]
    fn report(&self, old: SlotHandle, Applied { key, value, seq, reports }: &Applied<'_>) {
        if !reports.is_on() {
            return;
        }
        let (cell, meta) = (self.slabs.cell(old), self.slabs.meta(old));
        let is_last = meta.unwritten() && !(bug!(SilentInFlight) && meta.writing());
        let version = record::value(cell).filter(|old| is_last && Some(*old) != *value);
        version.into_iter().for_each(|old| reports.report(key, old, *seq));
    }

    /// Replaces a clean record by its new value, if its cell is large enough, else drops it.
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

    /// The rank of a record that was not cached. A recent miss of the same key counts as an access.
    fn rank_of_new(&mut self, hash: KeyHash) -> CachePriority {
        if self.history.note(hash.bucket(), hash.long_tag()) { CachePriority::KNOWN } else { CachePriority::NEWCOMER }
    }

    /// Chooses between the old cell and the reserved one, frees the other, and links the chosen one.
    fn settle(&mut self, hash: KeyHash, reserved: SlotHandle, old: Option<SlotHandle>) -> SlotHandle {
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

    /// Admits a record that was just read from its page. Its cell is reserved and its key is not cached.
    pub(super) fn admit(&mut self, hash: KeyHash, handle: SlotHandle, keyspace: u16, key: &[u8], value: &[u8]) {
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

    /// The counters, and the current size.
    pub(super) fn stats(&self) -> CacheStats {
        let bytes = self.slabs.count() * SLAB + self.table.bytes() + self.history.bytes();
        CacheStats { bytes, ..self.stats }
    }
}
