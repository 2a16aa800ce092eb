//! Room for a record: how memory comes to a size class, from the budget, from the clock, and from other classes.

use std::sync::atomic::Ordering;

use ecotone_substrate::{history::History, memory::Component};
use ecotone_sys::chunk::{Block, Size};

use super::{
    class::{CLASSES, Class, LARGEST, SLAB},
    dirty::Entry,
    handle::{Handle, Link},
    record::{self, Meta},
    shard::Shard,
};

/// After a refusal the budget is asked again after so many requests.
const PATIENCE: u8 = 63;
/// Classes above its own in which a record takes a free slot rather than have others evicted.
const NEAR: usize = 3;
/// Free slots, in slabs, from which on a class gives a slab to another.
const SURPLUS: usize = 2;
/// Bytes of slabs for each byte of history: about one remembered miss for two records of a hundred bytes.
const HISTORY_PART: usize = 128;
/// Rounds of the clock after which every clean record has come down to priority 0.
const ROUNDS: usize = record::MAX_PRIORITY as usize + 1;
/// Records a bucket, in tenths, above which a slab of records is given up for a longer table.
const OVERLOAD: usize = 30;

impl Shard {
    /// A free slot for a record of `bytes`, evicting clean records if need be. `None` if all that could go is dirty or reserved,
    /// or the table has
    /// no memory at all.
    pub(super) fn slot_for(&mut self, bytes: usize) -> Option<Handle> {
        if !self.prepare_table() {
            return None;
        }
        let class = Class::of(bytes);
        if self.slabs.vacant(class) == 0 && !self.lease_slab(class) {
            let near = self.take_larger(class, NEAR);
            if near.is_some() || !self.reclaim(class) {
                return near.or_else(|| self.take_larger(class, CLASSES));
            }
        }
        self.slabs.take(class)
    }

    /// Evicts `goal` bytes, or what can be within `steps`; gives the bytes.
    fn evict_bytes(&mut self, goal: usize, steps: &mut usize) -> usize {
        let mut freed = 0;
        while freed < goal && self.clean() > 0 {
            let Some(class) = self.evict(steps) else { break };
            freed += class.bytes();
        }
        freed
    }

    /// A free slot of one of the next `most` classes.
    fn take_larger(&mut self, class: Class, most: usize) -> Option<Handle> {
        class.larger().take(most).find_map(|larger| self.slabs.take(larger))
    }

    /// Asks the budget for a block, not too often after a refusal.
    fn lease(&mut self, component: Component) -> Option<Block> {
        if self.patience > 0 {
            self.patience -= 1;
            return None;
        }
        let block = self.common.memory.lease(component, Size::Slab);
        if block.is_none() {
            self.patience = PATIENCE;
            self.common.hungry.store(true, Ordering::Relaxed);
        }
        block
    }

    fn lease_slab(&mut self, class: Class) -> bool {
        if self.slabs.is_full() {
            return false;
        }
        let Some(block) = self.lease(Component::RecordCache) else { return false };
        self.slabs.add(block, class);
        self.grow_history();
        true
    }

    /// Keeps the history in proportion to the records.
    fn grow_history(&mut self) {
        if self.slabs.count() * SLAB >= (self.history.bytes() + History::BLOCK.bytes()) * HISTORY_PART {
            let block = self.common.memory.lease(Component::CacheTable, History::BLOCK);
            block.into_iter().for_each(|block| self.history.add(block));
        }
    }

    /// Gives a block from elsewhere to what needs it most: the table if it has none, else the class of `bytes`.
    pub(super) fn adopt(&mut self, mut block: Block, bytes: usize) {
        if self.table.is_empty() {
            block.retag(Component::CacheTable as u8);
            self.table.add(block);
        } else if !self.slabs.is_full() {
            block.retag(Component::RecordCache as u8);
            self.slabs.add(block, Class::of(bytes));
        }
    }

    /// Whether the table can grow by a bucket, with memory from the budget at most.
    pub(super) fn table_has_room(&mut self) -> bool {
        if self.table.wants_block() {
            let Some(block) = self.lease(Component::CacheTable) else { return false };
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

    /// Evicts until `class` has a free slot. Other classes gain free slots meanwhile; once one has two slabs' worth, or all of
    /// them have, a slab
    /// changes its class.
    fn reclaim(&mut self, class: Class) -> bool {
        let mut steps = self.slabs.round() * ROUNDS;
        let mut freed = 0;
        while self.clean() > 0 && freed < SURPLUS * SLAB {
            let Some(richer) = self.evict(&mut steps) else { break };
            if richer == class {
                return true;
            }
            freed += richer.bytes();
            if self.has_surplus(richer) && self.convert(richer, class) {
                return true;
            }
        }
        let Some(block) = self.free_slab(0) else { return self.slabs.vacant(class) > 0 };
        self.slabs.add(block, class);
        true
    }

    fn has_surplus(&self, class: Class) -> bool {
        self.slabs.vacant(class) >= SURPLUS * class.slots()
    }

    /// Empties the emptiest slab of `from` for `to`.
    fn convert(&mut self, from: Class, to: Class) -> bool {
        let Some(number) = self.emptiest(Some(from)) else { return false };
        let block = self.empty(number);
        self.slabs.add(block, to);
        true
    }

    /// Takes the memory of one slab out of the shard: whatever is coldest goes, dirty records move together. `None` if they
    /// cannot.
    pub(super) fn take_slab(&mut self) -> Option<Block> {
        let goal = if self.has_unused() { 0 } else { SLAB };
        self.free_slab(goal)
    }

    /// Evicts `goal` bytes, then empties the slab for which that is least work; evicts more while there is none.
    fn free_slab(&mut self, mut goal: usize) -> Option<Block> {
        let mut steps = self.slabs.round() * ROUNDS;
        loop {
            let freed = self.evict_bytes(goal, &mut steps);
            if let Some(number) = self.emptiest(None) {
                return Some(self.empty(number));
            }
            if freed < goal {
                return None;
            }
            goal = SLAB;
        }
    }

    fn has_unused(&self) -> bool {
        (0..self.slabs.bound()).filter_map(|number| self.slabs.slab(number)).any(|slab| slab.vacant() == slab.class().slots())
    }

    /// The slab with the most free bytes among those that can be emptied: nothing in it is reserved, and its dirty records find
    /// room in slots of
    /// their class or a larger one in other slabs.
    fn emptiest(&self, class: Option<Class>) -> Option<usize> {
        let mut from = [0; CLASSES + 1];
        for class in (0..CLASSES).rev() {
            from[class] = from[class + 1] + self.slabs.vacant(Class(class as u8));
        }
        let free = |number: usize| {
            let slab = self.slabs.slab(number).filter(|slab| class.is_none_or(|class| slab.class() == class))?;
            let elsewhere = from[usize::from(slab.class().0)] - slab.vacant();
            let can_go = slab.reserved() == 0 && slab.chained() <= elsewhere;
            can_go.then(|| (slab.vacant() * slab.class().bytes(), number))
        };
        (0..self.slabs.bound()).filter_map(free).max().map(|(_, number)| number)
    }

    /// Moves the records of a slab to others, dirty ones before all; clean ones are evicted if their class has no room.
    fn empty(&mut self, number: usize) -> Block {
        self.slabs.close(number);
        self.stats.slabs_moved += 1;
        let fresh = self.slabs.slab(number).map_or(0, |slab| slab.fresh());
        for handle in (0..fresh).map(|slot| Handle::new(number, slot)) {
            let meta = self.slabs.meta(handle);
            if meta.chained() || (meta.live() && self.has_spare(number)) {
                self.relocate(handle);
            } else if meta.live() {
                self.unlink(handle);
                self.stats.evictions += 1;
            }
        }
        self.slabs.remove(number)
    }

    /// Whether the class of a closed slab has more free slots than the dirty records in it still need.
    fn has_spare(&self, number: usize) -> bool {
        self.slabs.slab(number).is_some_and(|slab| self.slabs.vacant(slab.class()) > slab.chained())
    }

    /// Moves a record to another slot of its class or a larger one, of which there is one.
    fn relocate(&mut self, from: Handle) {
        let class = self.slabs.slab(from.slab()).expect("a handle in use has its slab").class();
        let to = self.slabs.take(class).or_else(|| self.take_larger(class, CLASSES)).expect("room was counted before");
        let hash = self.hash_of(from);
        let mut buffer = [0; LARGEST];
        let copy = &mut buffer[..class.bytes()];
        copy.copy_from_slice(self.slabs.slot(from));
        let meta = record::meta(copy);
        record::set_meta(copy, Meta::FREE);
        self.slabs.slot_mut(to)[..copy.len()].copy_from_slice(copy);
        self.set_meta(to, meta);
        self.redirect(hash, from, Link::new(hash.tag(), to));
        if meta.chained() {
            self.common.chains.moved(Entry(record::entry(copy)), self.address(to));
        }
        self.set_meta(from, Meta::FREE);
    }
}
