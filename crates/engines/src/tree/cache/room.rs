//! Room for a record: how memory comes to a shard, from the budget, from cells that were given back, and from the
//! clock.

use std::sync::atomic::Ordering;

use ecotone_substrate::{history::History, memory::Component};
use ecotone_sys::chunk::{Block, Size};

use super::{
    Cache,
    dirty_index::{Change, Key},
    handle::{Address, Handle, Link},
    record,
    shard::Shard,
    slab::{PLACE, SLAB},
};

/// After a refusal the budget is asked again for the table after so many requests.
const PATIENCE: u8 = 63;
/// Bytes that must come free for a slab to be compacted, as long as there is another way.
const GAIN: usize = SLAB / 64;
/// Slabs that the two clocks look at, for each slab, after which every clean record has come down to priority 0.
const ROUNDS: usize = 2 * (record::MAX_PRIORITY as usize + 1);
/// Records a bucket, in tenths, above which a slab of records is given up for a longer table.
const OVERLOAD: usize = 30;
/// A slab that is being emptied.
struct Leaving {
    slab: usize,
    /// The keys of its records that are dirty, with their keyspaces, and whether the log has them.
    dirty: Vec<(u16, Vec<u8>, bool)>,
}

impl Shard {
    /// A reserved cell for a record of `bytes`, evicting clean records if need be. `None` if all that could go is dirty
    /// or reserved, or the table has no memory at all.
    pub(super) fn cell_for(&mut self, bytes: usize) -> Option<Handle> {
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

    /// Evicts until a slab has so many bytes, and opens that one.
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

    /// Asks the budget for a block.
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

    /// Keeps the history in proportion to the records: a byte for each, which is one remembered miss for two.
    fn grow_history(&mut self) {
        if self.stats.records >= self.history.bytes() + History::BLOCK.bytes() {
            let block = self.common.memory.lease(Component::CacheTable, History::BLOCK);
            block.into_iter().for_each(|block| self.history.add(block));
        }
    }

    /// Gives a block from elsewhere to what needs it most: the table if it has none, else the records.
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
            if self.patience > 0 {
                self.patience -= 1;
                return false;
            }
            let Some(block) = self.lease(Component::CacheTable) else {
                self.patience = PATIENCE;
                return false;
            };
            self.table.add(block);
        }
        true
    }

    /// Sees to it that there is a table.
    fn prepare_table(&mut self) -> bool {
        !self.table.is_empty() || self.table_has_room()
    }

    /// Whether the table is much too small, and the budget has nothing for it.
    pub(super) fn is_overloaded(&self) -> bool {
        self.table.wants_block() && self.table.is_loaded(self.stats.records, OVERLOAD) && !self.slabs.is_closing()
    }

    /// Makes the table longer, if it still is too small.
    fn lengthen_table(&mut self, mut block: Block) {
        if self.is_overloaded() {
            block.retag(Component::CacheTable as u8);
            self.table.add(block);
        }
    }

    /// Begins to empty a slab: whatever is coldest goes. `None` if there is none that can go, or if another is being
    /// emptied.
    fn begin_to_empty(&mut self) -> Option<Leaving> {
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
        Some(Leaving { slab, dirty: self.dirty_in(slab) })
    }

    fn dirty_in(&self, slab: usize) -> Vec<(u16, Vec<u8>, bool)> {
        let cells = self.slabs.handles(slab).map(|handle| self.slabs.cell(handle));
        let dirty = cells.filter(|cell| record::meta(cell).unwritten());
        dirty.map(|cell| (record::keyspace(cell), record::key(cell).to_vec(), record::meta(cell).logged())).collect()
    }

    /// Moves a dirty record out of the slab that is being emptied, if it is there still; where it is then. The leaf of
    /// its key is locked.
    fn move_out(&mut self, slab: usize, from: Handle) -> Option<Address> {
        if from.slab() != slab {
            return None;
        }
        let bytes = self.slabs.meta(from).cell();
        let to =
            self.slabs.take_roomy(bytes, bytes).or_else(|| self.evict_for(bytes).then(|| self.slabs.take(bytes))?)?;
        self.relocate(from, to);
        Some(self.address(to))
    }

    /// The end of that, if nothing is dirty in the slab: its memory. Clean records go elsewhere, or go. Or the keys of
    /// those that have become dirty.
    fn end_to_empty(&mut self, slab: usize) -> Result<Block, Leaving> {
        let dirty = self.dirty_in(slab);
        if !dirty.is_empty() {
            return Err(Leaving { slab, dirty });
        }
        for from in self.slabs.handles(slab).collect::<Vec<Handle>>() {
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
    fn relocate(&mut self, from: Handle, to: Handle) {
        let hash = self.hash_of(from);
        let meta = self.slabs.meta(from);
        self.slabs.copy(from, to);
        self.set_meta(to, meta);
        self.redirect(hash, from, Link::new(hash.tag(), to));
        self.release(from);
    }
}

impl Cache {
    /// Takes the memory of one slab out of a shard: whatever is coldest goes, dirty records move together. `None` if
    /// they cannot. Neither a leaf nor a shard is locked.
    pub(super) fn take_slab(&self, number: usize) -> Option<Block> {
        let shard = &self.shards[number];
        let mut leaving = shard.lock().begin_to_empty()?;
        loop {
            for (keyspace, key, logged) in &leaving.dirty {
                let key = Key { keyspace: *keyspace, bytes: key };
                self.index(*logged).change(key, self, |found| {
                    let moved = found.and_then(|from| shard.lock().move_out(leaving.slab, from.handle()));
                    moved.map_or(Change::Nothing, Change::Moved)
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

    /// Gives a slab of records up for a longer table, where that is much too small.
    pub(super) fn mend_table(&self, number: usize) {
        if let Some(block) = self.take_slab(number) {
            self.shards[number].lock().lengthen_table(block);
        }
    }
}
