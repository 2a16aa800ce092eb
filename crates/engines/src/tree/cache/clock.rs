//! Which record goes when room is needed: mechanism T3 with a probation before it (decision 3, "Which record goes").

use super::{class::Class, handle::Handle, record::Meta, shard::Shard, slab::Slab, slabs::Slabs};

/// The part of the clean records, one in so many, that is left on probation when protected ones have to go too.
const PROBATION: usize = 10;

/// Where a clock stands.
#[derive(Debug, Default)]
pub(super) struct Hand {
    slab: usize,
    slot: u16,
}

impl Hand {
    /// Goes one slot on, or to the next slab at the end of one.
    fn advance(&mut self, slabs: &Slabs) -> Option<Handle> {
        if self.slot < slabs.slab(self.slab).map_or(0, Slab::fresh) {
            self.slot += 1;
            return Some(Handle::new(self.slab, self.slot - 1));
        }
        self.slot = 0;
        self.slab = if self.slab + 1 < slabs.bound() { self.slab + 1 } else { 0 };
        None
    }
}

/// Two clocks over the same slots, each blind to the other's records.
#[derive(Debug, Default)]
pub(super) struct Hands {
    probation: Hand,
    protected: Hand,
}

impl Shard {
    /// Whether the next victim is to be one on probation.
    fn takes_probation(&self) -> bool {
        self.on_probation * PROBATION > self.clean()
    }

    /// Advances the hands, at most `steps`, to the next victim.
    fn next_victim(&mut self, steps: &mut usize) -> Option<Handle> {
        while *steps > 0 {
            *steps -= 1;
            let probation = self.takes_probation();
            let hand = if probation { &mut self.hands.probation } else { &mut self.hands.protected };
            let Some(handle) = hand.advance(&self.slabs) else { continue };
            let meta = self.slabs.meta(handle);
            if meta.is_clean() && meta.on_probation() == probation && self.judge(handle, meta) {
                return Some(handle);
            }
        }
        None
    }

    /// Whether a clean record goes: at priority 0. A higher one is lowered, and ends the probation.
    fn judge(&mut self, handle: Handle, meta: Meta) -> bool {
        if meta.priority() == 0 {
            return true;
        }
        let stays = if meta.on_probation() { meta.as_protected() } else { meta.with_priority(meta.priority() - 1) };
        self.set_meta(handle, stays);
        false
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
