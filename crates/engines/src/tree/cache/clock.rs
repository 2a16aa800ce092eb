//! The clock: which record goes when room is needed (mechanism T3).

use super::{class::Class, handle::Handle, record, shard::Shard, slab::Slab};

/// Where the clock stands.
#[derive(Debug, Default)]
pub(super) struct Hand {
    slab: usize,
    slot: u16,
}

impl Hand {
    /// Looks at the next slot of the present slab. A record at priority 0 is the victim if it is clean; a higher one is
    /// lowered.
    fn look(&mut self, slab: &mut Slab) -> Option<Handle> {
        let handle = Handle::new(self.slab, self.slot);
        let slot = slab.slot_mut(self.slot);
        self.slot += 1;
        let meta = record::meta(slot);
        if !meta.live() {
            return None;
        }
        if meta.priority() > 0 {
            record::set_meta(slot, meta.with_priority(meta.priority() - 1));
            return None;
        }
        (!meta.chained()).then_some(handle)
    }

    fn next_slab(&mut self, bound: usize) {
        self.slot = 0;
        self.slab = if self.slab + 1 < bound { self.slab + 1 } else { 0 };
    }
}

impl Shard {
    /// Advances the hand, at most `steps`, to the next victim.
    fn next_victim(&mut self, steps: &mut usize) -> Option<Handle> {
        while *steps > 0 {
            *steps -= 1;
            match self.slabs.slab_mut(self.hand.slab) {
                Some(slab) if self.hand.slot < slab.fresh() => {
                    if let Some(victim) = self.hand.look(slab) {
                        return Some(victim);
                    }
                }
                _ => self.hand.next_slab(self.slabs.bound()),
            }
        }
        None
    }

    /// Evicts the next victim within `steps`; gives the class that has a free slot more.
    pub(super) fn evict(&mut self, steps: &mut usize) -> Option<Class> {
        let victim = self.next_victim(steps)?;
        let class = self.slabs.slab(victim.slab()).map(Slab::class);
        self.remove(victim);
        self.stats.evictions += 1;
        class
    }
}
