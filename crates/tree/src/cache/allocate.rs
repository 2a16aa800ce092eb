//! Allocation of cells. A shard gets memory from the budget, from freed cells, and by evicting records with the clock.

use std::sync::atomic::Ordering;

use ecotone_substrate::{ghost_list::GhostList, memory::Component};
use ecotone_sys::chunk::{Block, Size};

use super::{
    Cache,
    dirty_index::{EntryUpdate, Key},
    handle::{Address, Link, SlotHandle},
    record,
    shard::Shard,
    slab::{PLACE, SLAB},
};

/// Requests for table memory to skip after a refusal by the budget.
const SKIPS_AFTER_REFUSAL: u8 = 63;
/// Bytes that compacting a slab must free to be worth it, as long as there is another way.
const GAIN: usize = SLAB / 64;
/// Slabs to visit, for each slab, until the two clocks have lowered every clean record to priority 0.
const ROUNDS: usize = 2 * (record::MAX_PRIORITY as usize + 1);
/// Records a bucket, in tenths, above which a slab of records is given up to grow the table.
const OVERLOAD: usize = 30;
/// A slab that is being emptied.
struct EmptyingSlab {
    slab: usize,
    /// Keys of its dirty records, with their keyspaces, and whether they are logged.
    dirty: Vec<(u16, Vec<u8>, bool)>,
}

impl Shard {
    /// Reserves a cell for a record of `bytes`, evicting clean records if needed. `None` if all other records are dirty
    /// or reserved, or the table has no memory at all.
    pub(super) fn cell_for(&mut self, bytes: usize) -> Option<SlotHandle> {
        if !self.prepare_table() {
            return None;
        }
        let gain = GAIN.max(bytes);
        let taken = self.slabs.take_roomy(bytes, gain);
        if taken.is_none() && (self.lease_slab() || self.evict_for(gain)) {
            return self.slabs.take(bytes);
        }
        taken.or_else(|| self.slabs.take_roomy(bytes, bytes))
    }

    /// Evicts until a slab has so many free bytes, and opens that slab.
    fn evict_for(&mut self, bytes: usize) -> bool {
        for _ in 0..self.slabs.bound() * ROUNDS {
            if self.clean() == 0 {
                break;
            }
            let number = self.sweep();
            if self.slabs.open(number, bytes) {
                return true;
            }
        }
        false
    }

    /// Leases a block from the budget.
    fn lease(&mut self, component: Component) -> Option<Block> {
        let block = self.common.memory.lease(component, Size::Slab);
        if block.is_none() {
            self.common.hungry.store(true, Ordering::Relaxed);
        }
        block
    }

    fn lease_slab(&mut self) -> bool {
        if self.slabs.is_full() {
            return false;
        }
        let Some(block) = self.lease(Component::RecordCache) else { return false };
        self.slabs.add(block);
        self.grow_history();
        true
    }

    /// Keeps the ghost list in proportion to the records: a byte for each, which is one remembered miss for two
    /// records.
    fn grow_history(&mut self) {
        if self.stats.records >= self.history.bytes() + GhostList::BLOCK.bytes() {
            let block = self.common.memory.lease(Component::CacheTable, GhostList::BLOCK);
            block.into_iter().for_each(|block| self.history.add(block));
        }
    }

    /// Gives a block from elsewhere to the table if it has none, else to the records.
    pub(super) fn adopt(&mut self, mut block: Block) {
        if self.table.is_empty() {
            block.retag(Component::CacheTable as u8);
            self.table.add(block);
        } else if !self.slabs.is_full() {
            block.retag(Component::RecordCache as u8);
            self.slabs.add(block);
        }
    }

    /// Whether the table can grow by a bucket, with memory from the budget at most.
    pub(super) fn table_has_room(&mut self) -> bool {
        if self.table.wants_block() {
            if self.skips_left > 0 {
                self.skips_left -= 1;
                return false;
            }
            let Some(block) = self.lease(Component::CacheTable) else {
                self.skips_left = SKIPS_AFTER_REFUSAL;
                return false;
            };
            self.table.add(block);
        }
        true
    }

    /// Makes sure that there is a table.
    fn prepare_table(&mut self) -> bool {
        !self.table.is_empty() || self.table_has_room()
    }

    /// Whether the table is much too small, and the budget has no memory for it.
    pub(super) fn is_overloaded(&self) -> bool {
        self.table.wants_block() && self.table.is_loaded(self.stats.records, OVERLOAD) && !self.slabs.is_closing()
    }

    /// Extends the table, if it still is too small.
    fn lengthen_table(&mut self, mut block: Block) {
        if self.is_overloaded() {
            block.retag(Component::CacheTable as u8);
            self.table.add(block);
        }
    }

    /// Begins to empty a slab: evicts cold records, then picks the emptiest slab. `None` if no slab can be emptied, or
    /// another one is being emptied.
    fn begin_to_empty(&mut self) -> Option<EmptyingSlab> {
        if self.slabs.is_closing() {
            return None;
        }
        for _ in 0..self.slabs.bound() * ROUNDS {
            if self.clean() == 0 || self.slabs.all_vacant() >= SLAB - PLACE {
                break;
            }
            self.sweep();
        }
        let slab = self.slabs.emptiest()?;
        self.slabs.close(Some(slab));
        Some(EmptyingSlab { slab, dirty: self.dirty_in(slab) })
    }

    fn dirty_in(&self, slab: usize) -> Vec<(u16, Vec<u8>, bool)> {
        let cells = self.slabs.handles(slab).map(|handle| self.slabs.cell(handle));
        let dirty = cells.filter(|cell| record::meta(cell).unwritten());
        dirty.map(|cell| (record::keyspace(cell), record::key(cell).to_vec(), record::meta(cell).logged())).collect()
    }

    /// Moves a dirty record out of the slab that is being emptied, if it is still there; returns its new address. The
    /// leaf of its key is locked.
    fn move_out(&mut self, slab: usize, from: SlotHandle) -> Option<Address> {
        if from.slab() != slab {
            return None;
        }
        let bytes = self.slabs.meta(from).cell();
        let to =
            self.slabs.take_roomy(bytes, bytes).or_else(|| self.evict_for(bytes).then(|| self.slabs.take(bytes))?)?;
        self.relocate(from, to);
        Some(self.address(to))
    }

    /// Ends emptying a slab: moves or drops its clean records, and returns its memory. If records have become dirty
    /// since, returns their keys instead.
    fn end_to_empty(&mut self, slab: usize) -> Result<Block, EmptyingSlab> {
        let dirty = self.dirty_in(slab);
        if !dirty.is_empty() {
            return Err(EmptyingSlab { slab, dirty });
        }
        for from in self.slabs.handles(slab).collect::<Vec<SlotHandle>>() {
            let bytes = self.slabs.meta(from).cell();
            match self.slabs.take_roomy(bytes, bytes) {
                Some(to) => self.relocate(from, to),
                None => {
                    self.remove(from);
                    self.stats.evictions += 1;
                }
            }
        }
        self.slabs.close(None);
        self.stats.slabs_moved += 1;
        Ok(self.slabs.remove(slab))
    }

    /// Moves a record to a cell of its size.
    fn relocate(&mut self, from: SlotHandle, to: SlotHandle) {
        let hash = self.hash_of(from);
        let meta = self.slabs.meta(from);
        self.slabs.copy(from, to);
        self.set_meta(to, meta);
        self.redirect(hash, from, Link::new(hash.tag(), to));
        self.release(from);
    }
}

impl Cache {
    /// Takes the memory of one slab out of a shard: the coldest clean records are dropped, dirty records move together.
    /// `None` if they cannot move. The caller holds neither a leaf nor a shard lock.
    pub(super) fn take_slab(&self, number: usize) -> Option<Block> {
        let shard = &self.shards[number];
        let mut leaving = shard.lock().begin_to_empty()?;
        loop {
            for (keyspace, key, logged) in &leaving.dirty {
                let key = Key { keyspace: *keyspace, bytes: key };
                self.index(*logged).change(key, self, |found| {
                    let moved = found.and_then(|from| shard.lock().move_out(leaving.slab, from.handle()));
                    moved.map_or(EntryUpdate::Nothing, EntryUpdate::Moved)
                });
            }
            match shard.lock().end_to_empty(leaving.slab) {
                Ok(block) => return Some(block),
                Err(again) if again.dirty.len() < leaving.dirty.len() => leaving = again,
                Err(_) => break,
            }
        }
        shard.lock().slabs.close(None);
        None
    }

    /// Gives up a slab of records to grow a table that is much too small.
    pub(super) fn mend_table(&self, number: usize) {
        if let Some(block) = self.take_slab(number) {
            self.shards[number].lock().lengthen_table(block);
        }
    }
}
