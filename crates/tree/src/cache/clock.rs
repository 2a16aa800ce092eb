//! Eviction: the clock of mechanism T3, with a probation in front (tree.md, "Eviction").

use super::{
    handle::SlotHandle,
    record::{self, Meta},
    shard::Shard,
};

/// While protected records are evicted too, one in so many clean records stays on probation.
const PROBATION: usize = 10;

impl Shard {
    /// Whether the next victims come from the records on probation.
    fn takes_probation(&self) -> bool {
        self.on_probation * PROBATION > self.clean()
    }

    /// Evicts the victims in the next slab of the clock that is due; returns the slab's number.
    pub(super) fn sweep(&mut self) -> usize {
        let probation = self.takes_probation();
        let bound = self.slabs.bound();
        let hand = if probation { &mut self.hands.probation } else { &mut self.hands.protected };
        let number = if *hand < bound { *hand } else { 0 };
        *hand = number + 1;
        for slot in 0..self.slabs.slab(number).map_or(0, |slab| slab.slots()) {
            let handle = SlotHandle::new(number, slot);
            let Some(meta) = self.slabs.probe(handle).map(record::meta) else { continue };
            if meta.is_clean() && meta.on_probation() == probation && self.judge(handle, meta) {
                self.remove(handle);
                self.stats.evictions += 1;
            }
        }
        number
    }

    /// Whether to evict a clean record: true at priority 0. A higher priority is lowered, or ends the probation.
    fn judge(&mut self, handle: SlotHandle, meta: Meta) -> bool {
        if meta.priority() == 0 {
            return true;
        }
        let stays = if meta.on_probation() { meta.as_protected() } else { meta.with_priority(meta.priority() - 1) };
        self.set_meta(handle, stays);
        false
    }
}
