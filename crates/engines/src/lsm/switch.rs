//! A full memtable makes way for a fresh one (decision 12, invariants 4 and 9).

use std::sync::Arc;

use ecotone_substrate::{Result, scheduler::Priority};

use super::{records::Lsm, view::Member};
use crate::delay::Delay;

/// Memtables that wait for their flush before writers take part in it.
const WAITING: usize = 2;

impl Lsm {
    /// Sees to it that the active memtable is not full. Whoever finds too many that wait flushes one.
    pub(super) fn make_room(self: &Arc<Self>) -> Result<()> {
        let mut delay = Delay::new(&self.delays, &*self.files.context().shared.clock);
        while let Some((full, waiting)) = self.full_memtable() {
            if waiting >= WAITING {
                delay.begin();
                self.flush_oldest()?;
                self.call_compaction();
            } else {
                self.switch(&full)?;
                self.call_flush();
            }
        }
        Ok(())
    }

    /// Makes memory of memtables free. False if they have none.
    pub(super) fn give_memory(&self) -> Result<bool> {
        let view = self.present.get();
        if view.memtables.len() == 1 {
            let active = &view.memtables[0];
            if active.memtable.bytes() == 0 {
                return Ok(false);
            }
            self.switch(active)?;
        }
        let oldest = view.memtables.last().map(Arc::downgrade).expect("a view has memtables");
        drop(view);
        self.flush_oldest()?;
        self.present.wait_for_end(&oldest);
        Ok(true)
    }

    /// The active memtable if it is full, and how many are older.
    fn full_memtable(&self) -> Option<(Arc<Member>, usize)> {
        let pin = self.present.pin();
        let memtables = &self.present.load(&pin).memtables;
        let is_full = memtables[0].memtable.filled() >= self.sizes.memtable;
        is_full.then(|| (memtables[0].clone(), memtables.len() - 1))
    }

    /// Puts a fresh memtable before this one, which was seen to be active, unless another has done that. The one before it is sealed first.
    pub(super) fn switch(&self, active: &Arc<Member>) -> Result<()> {
        // Nothing else is unsealed from now on, as long as this one is active.
        self.present.seal();
        let credit = self.room.admit_switch(|| self.free())?;
        let fresh = self.room.memtable(&active.memtable.common_prefix());
        let _structure = self.files.structure();
        if !Arc::ptr_eq(&self.present.get().memtables[0], active) {
            self.room.give_back(credit);
            return Ok(());
        }
        let room = self.room.clone();
        self.present.switch(fresh, move || room.give_back(credit));
        Ok(())
    }

    /// Has the background flush what waits.
    fn call_flush(self: &Arc<Self>) {
        let lsm = Arc::downgrade(self);
        self.files.environment().scheduler.spawn(Priority::Flush, "flush a memtable", move || {
            let Some(lsm) = lsm.upgrade() else { return };
            match lsm.flush_oldest() {
                Ok(_) => lsm.call_compaction(),
                // Without memory or space it is tried again when writers need it.
                Err(error) => drop(lsm.files.environment().health.poison(error)),
            }
        });
    }
}
