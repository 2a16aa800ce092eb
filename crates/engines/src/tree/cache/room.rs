//! Room for a record: how memory comes to a shard, from the budget, from cells that were given back, and from the clock.

use std::sync::atomic::Ordering;

use ecotone_substrate::{history::History, memory::Component};
use ecotone_sys::chunk::{Block, Size};

use super::{
    dirty::Entry,
    handle::{Handle, Link},
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

impl Shard {
    /// A reserved cell for a record of `bytes`, evicting clean records if need be. `None` if all that could go is dirty or reserved, or the table has no
    /// memory at all.
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

    /// Sees to it that there is a table, and that it is not much too small.
    fn prepare_table(&mut self) -> bool {
        if self.table.is_empty() {
            return self.table_has_room();
        }
        let overloaded = self.table.wants_block() && self.table.is_loaded(self.stats.records, OVERLOAD);
        if let Some(mut block) = overloaded.then(|| self.take_slab()).flatten() {
            block.retag(Component::CacheTable as u8);
            self.table.add(block);
        }
        true
    }

    /// Takes the memory of one slab out of the shard: whatever is coldest goes, dirty records move together. `None` if they cannot.
    pub(super) fn take_slab(&mut self) -> Option<Block> {
        for _ in 0..self.slabs.bound() * ROUNDS {
            if self.clean() == 0 || self.slabs.all_vacant() >= SLAB - PLACE {
                break;
            }
            self.sweep();
        }
        let number = self.slabs.emptiest()?;
        self.slabs.close(Some(number));
        let emptied = self.empty(number);
        self.slabs.close(None);
        self.stats.slabs_moved += u64::from(emptied);
        emptied.then(|| self.slabs.remove(number))
    }

    /// Moves the records of a closed slab to others: dirty ones before all, for which others are evicted; clean ones go if there is no room. False if a dirty
    /// one cannot move.
    fn empty(&mut self, number: usize) -> bool {
        let mut handles: Vec<Handle> = self.slabs.handles(number).collect();
        handles.sort_by_key(|handle| !self.slabs.meta(*handle).chained());
        for from in handles {
            let Some(meta) = self.slabs.probe(from).map(record::meta) else { continue };
            let bytes = meta.cell();
            let to = self
                .slabs
                .take_roomy(bytes, bytes)
                .or_else(|| (meta.chained() && self.evict_for(bytes)).then(|| self.slabs.take(bytes))?);
            match to {
                Some(to) => self.relocate(from, to),
                None if meta.chained() => return false,
                None => {
                    self.remove(from);
                    self.stats.evictions += 1;
                }
            }
        }
        true
    }

    /// Moves a record to a cell of its size.
    fn relocate(&mut self, from: Handle, to: Handle) {
        let hash = self.hash_of(from);
        let meta = self.slabs.meta(from);
        self.slabs.copy(from, to);
        self.set_meta(to, meta);
        self.redirect(hash, from, Link::new(hash.tag(), to));
        if meta.chained() {
            self.common.chains.moved(Entry(record::entry(self.slabs.cell(to))), self.address(to));
        }
        self.release(from);
    }
}
