//! Which record goes when room is needed: mechanism T3 with a probation before it (decision 3, "Which record goes").

use super::{
    handle::Handle,
    record::{self, Meta},
    shard::Shard,
};

/// The part of the clean records, one in so many, that is left on probation when protected ones have to go too.
const PROBATION: usize = 10;

/// Two clocks over the same slabs, each blind to the other's records: the slab that each looks at next.
#[derive(Debug, Default)]
pub(super) struct Hands {
    probation: usize,
    protected: usize,
}

impl Shard {
    /// Whether the next victims are to be ones on probation.
    fn takes_probation(&self) -> bool {
        self.on_probation * PROBATION > self.clean()
    }

    /// Evicts the victims of the next slab of the clock whose turn it is; gives its number.
    pub(super) fn sweep(&mut self) -> usize {
        let probation = self.takes_probation();
        let bound = self.slabs.bound();
        let hand = if probation { &mut self.hands.probation } else { &mut self.hands.protected };
        let number = if *hand < bound { *hand } else { 0 };
        *hand = number + 1;
        for slot in 0..self.slabs.slab(number).map_or(0, |slab| slab.slots()) {
            let handle = Handle::new(number, slot);
            let Some(meta) = self.slabs.probe(handle).map(record::meta) else { continue };
            if meta.is_clean() && meta.on_probation() == probation && self.judge(handle, meta) {
                self.remove(handle);
                self.stats.evictions += 1;
            }
        }
        number
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
}
